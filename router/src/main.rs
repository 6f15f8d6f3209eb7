//! prefold: an embedding and reranking inference server that computes every shared prefix once.
#![forbid(unsafe_code)]

mod answer;
mod app;
mod args;
mod auth;
#[cfg(feature = "builtin-model")]
mod builtin;
mod command;
mod config;
mod error;
mod extract;
mod observe;
mod routes;
mod server;
mod telemetry;
#[cfg(test)]
mod testing;
mod wire;

use anyhow::Context;
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
    telemetry::install_log(&config.telemetry).context("the log cannot be written")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let outcome = runtime.block_on(run(config));
    // What was cut off must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn run(config: config::Config) -> anyhow::Result<server::Stopped> {
    let config::Config { load, names, default_prompt, engine, server, .. } = config;
    let mut signals = server::Signals::listen().context("signals cannot be caught")?;
    let metrics = telemetry::install_metrics().context("metrics cannot be collected")?;
    tokio::spawn(telemetry::keep_up(metrics.clone()));

    tracing::info!(model = names.id, version = env!("CARGO_PKG_VERSION"), "loading");
    let loading = tokio::task::spawn_blocking(move || app::start_engine(&load, default_prompt, engine));
    let engine = tokio::select! {
        engine = loading => engine.context("loading the model panicked")??,
        signal = signals.next() => {
            tracing::info!(signal, "stopped while the model was loading");
            return Ok(server::Stopped::Drained);
        }
    };
    telemetry::record_build(engine.info(), &names.served);

    let listener = TcpListener::bind((server.hostname.as_str(), server.port))
        .await
        .with_context(|| format!("cannot listen on {}:{}", server.hostname, server.port))?;
    let app = app::App::new(engine, names, server.http, metrics);
    app.log_ready(listener.local_addr()?);
    Ok(server::serve(listener, app, signals, server.shutdown_timeout).await?)
}
