//! prefold: an embedding and reranking inference server that computes every shared prefix once.
#![forbid(unsafe_code)]

mod answer;
mod app;
mod args;
mod auth;
#[cfg(feature = "builtin-model")]
mod builtin;
#[cfg(test)]
mod cli_document;
mod command;
mod config;
mod config_file;
mod error;
mod extract;
mod gateway;
mod observe;
mod openapi;
mod routes;
mod schema;
mod server;
mod telemetry;
#[cfg(test)]
mod testing;
mod traces;
mod usage;
mod vectors;
mod wire;

use anyhow::Context;
use std::future::IntoFuture;
use std::process::ExitCode;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
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
    match start(config) {
        Ok(server::Stopped::Drained | server::Stopped::TimedOut { .. }) => ExitCode::SUCCESS,
        Ok(server::Stopped::Interrupted) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(config: config::Config) -> anyhow::Result<server::Stopped> {
    let traces = telemetry::install_log(&config.telemetry)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let outcome = runtime.block_on(run(config));
    // What was cut off must not keep the process.
    runtime.shutdown_background();
    if let Some(traces) = traces {
        traces.finish();
    }
    outcome
}

async fn run(config: config::Config) -> anyhow::Result<server::Stopped> {
    let config::Config { load, names, default_prompt, rerank_instruction, engine, server, .. } = config;
    let signals = server::Signals::listen().context("signals cannot be caught")?;
    let metrics = telemetry::install_metrics().context("metrics cannot be collected")?;
    tokio::spawn(telemetry::keep_up(metrics.clone()));

    let config::ServerConfig { hostname, port, prometheus_port, http, shutdown_timeout } = server;
    let listener = listen(&hostname, port).await?;
    let metrics_listener = match prometheus_port {
        Some(port) => Some(listen(&hostname, port).await?),
        None => None,
    };
    let address = listener.local_addr()?;
    tracing::info!(model = names.id, version = env!("CARGO_PKG_VERSION"), "loading");
    let changes = app::Changes { default_prompt, rerank_instruction };
    let loading = tokio::task::spawn_blocking(move || app::start_engine(&load, changes, engine));
    let loading = async move {
        let engine = loading.await.context("loading the model panicked")??;
        telemetry::record_build(engine.info(), &names.served);
        let app = app::App::new(engine, names, http, metrics);
        app.log_ready(address);
        if let Some(listener) = metrics_listener {
            tracing::info!(address = %listener.local_addr()?, "metrics");
            tokio::spawn(axum::serve(listener, server::metrics_router(app.clone())).into_future());
        }
        Ok(app)
    };
    server::serve(listener, loading, signals, shutdown_timeout).await
}

async fn listen(hostname: &str, port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((hostname, port)).await.with_context(|| format!("cannot listen on {hostname}:{port}"))
}
