//! The binary: from the command line to the exit code.

use crate::cli::{Cli, CommandLine, Config};
use crate::loading::{self, StartError, Wrap};
use crate::server::connections::{self, ConnectionLimits};
use crate::server::listening::{Listener, allow_files, listen};
use crate::server::loading_gate::{self, Opener};
use crate::server::stopping::{self, DEVICE_LOST_STATUS, ServerConfig, Signals, Stopped};
use crate::server::{routing, stop_watchdog};
use crate::state::model_names::ModelNames;
use crate::state::registry::Registry;
use crate::state::{App, HttpConfig, reloading};
use crate::telemetry::log_writer::LOG;
use crate::telemetry::version::version_and_commit;
use crate::telemetry::{log_filter, logs, metrics, traces};
use anyhow::Context;
use prefold_core::{Engine, ProcessQuotas, without_credentials};
use std::future::pending;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::signal::unix::{SignalKind, signal};

/// Threads for work that would hold up connections: loading the model, parsing large bodies. Each may hold a parsed body.
const MIN_BLOCKING_THREADS: usize = 4;

/// Reads the command line and runs the command or the server, with every loaded backend wrapped in `wrap`.
pub fn run(line: &CommandLine, wrap: Wrap) -> ExitCode {
    let Cli { command, serve, origins, unread_variables, .. } = Cli::read(&line.arguments);
    if let Some(command) = command {
        return command.run(line);
    }
    let config = match Config::try_from(serve) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {}", with_origins(&without_credentials(&error.to_string()), &origins));
            return ExitCode::from(2);
        }
    };
    let is_silent = log_filter::is_silent(&config.telemetry.filter);
    let code = match start(config, &unread_variables, wrap) {
        Ok(Stopped::Drained | Stopped::TimedOut { .. }) => ExitCode::SUCCESS,
        Ok(Stopped::Interrupted | Stopped::Stuck) => ExitCode::FAILURE,
        Ok(Stopped::DeviceLost) => ExitCode::from(DEVICE_LOST_STATUS),
        Err(error) => {
            let is_lost = error.downcast_ref::<StartError>().is_some_and(StartError::is_device_lost);
            let error = with_origins(&without_credentials(&format!("{error:#}")), &origins);
            tracing::error!("{error}");
            // A disabled or unopened log must not hide why the server did not start.
            if is_silent || !tracing::dispatcher::has_been_set() {
                eprintln!("error: {error}");
            }
            if is_lost { ExitCode::from(DEVICE_LOST_STATUS) } else { ExitCode::FAILURE }
        }
    };
    LOG.finish();
    code
}

/// The message, followed by the environment variable of each flag in it that is set by one.
fn with_origins(message: &str, origins: &[(String, String)]) -> String {
    let named = origins.iter().filter(|(flag, _)| message.contains(&format!("--{flag}")));
    named.fold(message.to_owned(), |message, (flag, variable)| {
        format!("{message} (--{flag} is from the environment variable {variable})")
    })
}

/// Runs the server until it stops. The log gets `warnings` about the environment first.
fn start(config: Config, warnings: &[String], wrap: Wrap) -> anyhow::Result<Stopped> {
    let traces = logs::install(&config.telemetry)?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    config.telemetry.traces.iter().for_each(traces::announce);
    let parallelism = std::thread::available_parallelism().map_or(1, NonZero::get);
    let blocking_threads = MIN_BLOCKING_THREADS.max(parallelism);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(blocking_threads)
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let outcome = runtime.block_on(serve(config, wrap));
    // Requests that were cut off must not keep the process alive.
    runtime.shutdown_background();
    if let Some(traces) = traces {
        traces.finish();
    }
    outcome
}

async fn serve(config: Config, wrap: Wrap) -> anyhow::Result<Stopped> {
    let Config { load, names, engine, limits, server, .. } = config;
    let signals = Signals::listen().context("cannot catch signals")?;
    let hangup = signal(SignalKind::hangup()).context("cannot catch signals")?;
    stop_watchdog::start(server.serving).context("cannot start the shutdown watchdog")?;
    let metrics = metrics::install().context("cannot collect metrics")?;
    tokio::spawn(metrics::run_upkeep(metrics.clone()));
    tokio::spawn(LOG.retry());

    let ServerConfig { address, tls, metrics: metrics_address, http, serving } = server;
    allow_files(serving.connections.connections);
    let (keys, of_listener) = (http.api_keys.clone(), tls.clone());
    tokio::spawn(reloading::reload(hangup, move |was_asked| {
        keys.refresh(was_asked);
        tls.iter().for_each(|tls| tls.refresh(was_asked));
    }));
    let listener = listen(&address, of_listener).await?;
    let metrics_server = match metrics_address {
        Some(address) => Some(serve_metrics(listen(&address, None).await?, serving.connections)),
        None => None,
    };
    let (address, url, public_port) = (listener.address(), listener.url(), listener.public_port());
    tracing::info!(model = names.id, version = version_and_commit(), "loading");
    let unfinished = Arc::new(AtomicUsize::new(0));
    let of_app = Arc::clone(&unfinished);
    let quotas = ProcessQuotas::new(limits).map_err(StartError::Setting)?;
    let of_engine = quotas.clone();
    let loading = tokio::task::spawn_blocking(move || loading::start_engine(&load, wrap, engine, of_engine));
    let loading = async move {
        let engine = loading.await.context("loading the model panicked")??;
        metrics::record_build(engine.info(), &names.served);
        let app = App::new(Registry::one(engine, names), quotas, http, metrics, of_app);
        app.log_ready(&address, &url, public_port);
        if let Some((address, opener)) = metrics_server {
            tracing::info!(address, "metrics");
            opener.send_replace(Some(routing::metrics_router(app.clone())));
        }
        Ok(app)
    };
    stopping::serve(listener, loading, signals, serving, unfinished).await
}

/// Serves on the listener for `/metrics`, whose readers do not delay the shutdown. Returns its address, and the opener
/// of its routes.
fn serve_metrics(listener: Listener, limits: ConnectionLimits) -> (String, Opener) {
    let address = listener.address();
    let (opener, gate) = loading_gate::closed();
    tokio::spawn(connections::serve(listener, move || gate.routes(), limits, Arc::default(), pending::<()>()));
    (address, opener)
}

/// The routes of `prefold` with default settings over `engine`, whose model clients call `name`. `/metrics` shows the
/// metrics of the whole process.
///
/// # Errors
/// Another metrics recorder is installed.
pub fn routes(engine: Engine, name: &str) -> anyhow::Result<axum::Router> {
    let metrics = metrics::install()?;
    let names = ModelNames { id: name.to_owned(), served: name.to_owned(), aliases: Vec::new() };
    let quotas = engine.process_quotas().clone();
    let app = App::new(Registry::one(engine, names), quotas, HttpConfig::default(), metrics, Arc::default());
    Ok(routing::router(app))
}
