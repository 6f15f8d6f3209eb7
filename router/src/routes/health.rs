//! Liveness and readiness: `/health`, `/ready`.
//!
//! | | `/health`, `/ping`, `GET /` | `/ready` |
//! | --- | --- | --- |
//! | the model is loading | 200 | 503 |
//! | requests are answered | 200 | 200 |
//! | the last batch failed as a whole, and so does a probe | 503 | 503 |
//! | the device has failed permanently; the process is about to end | 503 | 503 |
//! | the probe waits behind others | 200 | 503 |
//! | a forward pass takes longer than `--stall-timeout` | 200 | 503 |
//! | it takes [`RESTART_FACTOR`] times as long (the process ends then with `--exit-on-stuck`) | 503 | 503 |
//! | the server is stopping, but still accepts (`--shutdown-delay`) | 200 | 503 |
//! | the server is stopping | 503 | 503 |
//!
//! Balancers send no traffic to a server that is not ready; supervisors restart one that is not alive.

use crate::error::ApiError;
use crate::state::App;
use crate::wire::answer::Answer;
use axum::extract::State;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use utoipa::ToSchema;

/// A forward pass that runs this many times `--stall-timeout` is stuck.
const RESTART_FACTOR: u32 = 5;

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Response of `/health`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    /// `ok`
    status: &'static str,
    /// Unix time in seconds, which Infinity's client reads.
    unix: f64,
}

/// The response of a server that is alive.
pub(crate) fn alive() -> Answer {
    let unix = SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64());
    Answer::free(&Alive { status: "ok", unix })
}

/// Response of `/ready`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// `ready`
    status: &'static str,
    model: String,
}

/// Liveness
///
/// The server is alive also while the model is loading. Restart a server that keeps failing.
#[utoipa::path(
    get, path = "/health", tag = "Server",
    responses((status = 200, description = "The server is alive", body = Alive))
)]
pub(crate) async fn health(State(app): State<App>) -> Result<Answer, ApiError> {
    stuck(&app)?;
    match probe(&app).await {
        Probe::Failed(error) => Err(error),
        Probe::Answered | Probe::TimedOut => Ok(alive()),
    }
}

/// Liveness
///
/// The same as `GET /health`.
#[utoipa::path(
    post, path = "/ping", tag = "Server",
    responses((status = 200, description = "The server is alive", body = Alive))
)]
pub(crate) async fn ping(app: State<App>) -> Result<Answer, ApiError> {
    health(app).await
}

/// Readiness
///
/// Send requests elsewhere while this fails: the model is loading, the last batch failed, a forward pass takes too long
/// (`--stall-timeout`), or the server is stopping. The error says which.
#[utoipa::path(
    get, path = "/ready", tag = "Server", responses((status = 200, description = "The server is ready", body = Ready))
)]
pub(crate) async fn ready(State(app): State<App>) -> Result<Answer, ApiError> {
    if app.is_stopping.load(Ordering::SeqCst) {
        return Err(ApiError::Unhealthy("the server is stopping".to_owned()));
    }
    stalled(&app, app.http.stall_timeout)?;
    match probe(&app).await {
        Probe::Answered => {
            Ok(Answer::free(&Ready { status: "ready", model: app.models.default().names.served.clone() }))
        }
        Probe::Failed(error) => Err(error),
        Probe::TimedOut => {
            let limit = PROBE_TIMEOUT.as_secs();
            Err(ApiError::Unhealthy(format!("the last batch failed, and a probe has no answer after {limit} s")))
        }
    }
}

/// Checks for a stuck forward pass.
///
/// # Errors
/// The pass does not advance for [`RESTART_FACTOR`] times `--stall-timeout`.
pub(crate) fn stuck(app: &App) -> Result<(), ApiError> {
    stalled(app, app.http.stall_timeout * RESTART_FACTOR)
}

fn stalled(app: &App, limit: Duration) -> Result<(), ApiError> {
    match app.models.silent_for() {
        Some(silent) if silent > limit => Err(ApiError::Unhealthy(format!(
            "a forward pass has not advanced for {} s, longer than {} s",
            silent.as_secs(),
            limit.as_secs_f32(),
        ))),
        Some(_) | None => Ok(()),
    }
}

enum Probe {
    Answered,
    Failed(ApiError),
    TimedOut,
}

/// Asks the engines, each of which runs one token through its model if its last batch failed.
async fn probe(app: &App) -> Probe {
    match tokio::time::timeout(PROBE_TIMEOUT, app.models.health()).await {
        Ok(Ok(())) => Probe::Answered,
        Ok(Err(error)) => Probe::Failed(ApiError::Unhealthy(error.to_string())),
        Err(_) => Probe::TimedOut,
    }
}
