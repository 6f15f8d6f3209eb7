//! prefold: an embedding and reranking inference server that computes every shared prefix once.
//!
//! The binary `prefold` is [`run`]. [`routes`] is the HTTP side alone, over an engine that is there already.
#![forbid(unsafe_code)]

mod answer;
mod app;
mod args;
mod auth;
mod buffered;
#[cfg(feature = "builtin-model")]
mod builtin;
#[cfg(test)]
mod cli_document;
mod command;
mod config;
mod config_file;
mod connections;
mod error;
mod extract;
mod gateway;
mod log_filter;
mod observe;
mod openapi;
mod routes;
mod schema;
mod secret;
mod server;
mod telemetry;
#[cfg(test)]
mod testing;
mod traces;
mod usage;
mod vectors;
mod wire;

use anyhow::Context;
use prefold_core::{Backend, Engine};
use std::future::pending;
use std::process::ExitCode;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// What is put between the engine and the backend that was loaded.
pub type Wrap = fn(Box<dyn Backend>) -> Box<dyn Backend>;

/// Reads the command line and does what it says, with every loaded backend wrapped in `wrap`.
pub fn run(wrap: Wrap) -> ExitCode {
    let mut args = args::Args::read();
    if let Some(command) = args.command.take() {
        return command.run();
    }
    let config = match config::Config::try_from(args) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let is_silent = log_filter::is_silent(&config.telemetry.filter);
    match start(config, wrap) {
        Ok(server::Stopped::Drained | server::Stopped::TimedOut { .. }) => ExitCode::SUCCESS,
        Ok(server::Stopped::Interrupted | server::Stopped::Stuck) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!("{error:#}");
            // A log that is off, or that could not be opened, must not hide why there is no server.
            if is_silent || !tracing::dispatcher::has_been_set() {
                eprintln!("error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn start(config: config::Config, wrap: Wrap) -> anyhow::Result<server::Stopped> {
    let traces = telemetry::install_log(&config.telemetry)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let outcome = runtime.block_on(serve(config, wrap));
    // What was cut off must not keep the process.
    runtime.shutdown_background();
    if let Some(traces) = traces {
        traces.finish();
    }
    outcome
}

async fn serve(config: config::Config, wrap: Wrap) -> anyhow::Result<server::Stopped> {
    let config::Config { load, names, default_prompt, rerank_instruction, engine, server, .. } = config;
    let signals = server::Signals::listen().context("signals cannot be caught")?;
    let metrics = telemetry::install_metrics().context("metrics cannot be collected")?;
    tokio::spawn(telemetry::keep_up(metrics.clone()));

    let config::ServerConfig { hostname, port, prometheus_port, http, serving } = server;
    allow_files(serving.connections.connections);
    let hangup = signal(SignalKind::hangup()).context("signals cannot be caught")?;
    tokio::spawn(http.api_keys.clone().keep_up(hangup));
    let listener = listen(&hostname, port).await?;
    let metrics_listener = match prometheus_port {
        Some(port) => Some(listen(&hostname, port).await?),
        None => None,
    };
    let address = listener.local_addr()?;
    tracing::info!(model = names.id, version = env!("CARGO_PKG_VERSION"), "loading");
    let changes = app::Changes { default_prompt, rerank_instruction };
    let loading = tokio::task::spawn_blocking(move || app::start_engine(&load, wrap, changes, engine));
    let loading = async move {
        let engine = loading.await.context("loading the model panicked")??;
        telemetry::record_build(engine.info(), &names.served);
        let app = app::App::new(engine, names, http, metrics);
        app.log_ready(address);
        if let Some(listener) = metrics_listener {
            tracing::info!(address = %listener.local_addr()?, "metrics");
            let routes = server::metrics_router(app.clone());
            tokio::spawn(connections::serve(listener, routes, serving.connections, pending::<()>()));
        }
        Ok(app)
    };
    server::serve(listener, loading, signals, serving).await
}

/// Each connection is a file to the system, whose limit for a process is often far below what it would grant.
fn allow_files(connections: usize) {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) if limit > connections as u64 => {}
        Ok(limit) => tracing::warn!(limit, connections, "the system grants fewer files than connections are allowed"),
        Err(error) => tracing::warn!("the limit of open files stays as it is: {error}"),
    }
}

async fn listen(hostname: &str, port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((hostname, port)).await.with_context(|| format!("cannot listen on {hostname}:{port}"))
}

/// The routes of `prefold` with its default settings over `engine`, whose model clients call `name`. Its
/// `/metrics` shows those of the whole process.
///
/// # Errors
/// Metrics cannot be collected: another recorder is installed.
pub fn routes(engine: Engine, name: &str) -> anyhow::Result<axum::Router> {
    let metrics = telemetry::install_metrics()?;
    let names = config::ModelNames { id: name.to_owned(), served: name.to_owned(), aliases: Vec::new() };
    Ok(server::router(app::App::new(engine, names, config::HttpConfig::default(), metrics)))
}
