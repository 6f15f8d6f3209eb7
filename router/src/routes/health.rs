//! Whether the server lives and whether it is ready: `/health`, `/ready`.
//!
//! | | `/health`, `/ping`, `/` | `/ready` |
//! | --- | --- | --- |
//! | the model is loading | 200 | 503 |
//! | requests are answered | 200 | 200 |
//! | the last batch failed as a whole, and so does a probe | 503 | 503 |
//! | the probe waits behind others | 200 | 503 |
//! | a forward pass takes longer than `--stall-timeout` | 200 | 503 |
//! | it takes [`RESTART_FACTOR`] times as long (the process ends then with `--exit-on-stuck`) | 503 | 503 |
//! | the server is stopping | 503 | 503 |
//!
//! So what is not ready gets no traffic, and what is not alive is started anew.

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use axum::extract::State;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// After so many times `--stall-timeout` a forward pass will never end.
const RESTART_FACTOR: u32 = 5;

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What `/ready` says.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// `ready`
    status: &'static str,
    model: String,
}

/// Whether the server lives
///
/// An empty answer while it does, also while the model is loading. Where this fails for long, the server should be
/// started anew.
#[utoipa::path(
    get, path = "/health", tag = "Server", responses((status = 200, description = "The server lives"))
)]
pub(crate) async fn health(State(app): State<App>) -> Result<(), ApiError> {
    stuck(&app)?;
    match probe(&app).await {
        Probe::Failed(error) => Err(error),
        Probe::Answered | Probe::TimedOut => Ok(()),
    }
}

/// Whether the server is ready for requests
///
/// Where this fails, requests should go elsewhere: the model is loading, the last batch failed, a forward pass takes
/// too long (`--stall-timeout`), or the server is stopping. The error says which.
#[utoipa::path(
    get, path = "/ready", tag = "Server", responses((status = 200, description = "The server is ready", body = Ready))
)]
pub(crate) async fn ready(State(app): State<App>) -> Result<Answer, ApiError> {
    stalled(&app, app.http.stall_timeout)?;
    match probe(&app).await {
        Probe::Answered => Ok(Answer::free(&Ready { status: "ready", model: app.names.served.clone() })),
        Probe::Failed(error) => Err(error),
        Probe::TimedOut => {
            let limit = PROBE_TIMEOUT.as_secs();
            Err(ApiError::Unhealthy(format!("the last batch failed, and a probe has no answer after {limit} s")))
        }
    }
}

/// Whether a forward pass will never end.
///
/// # Errors
/// It will not.
pub(crate) fn stuck(app: &App) -> Result<(), ApiError> {
    stalled(app, app.http.stall_timeout * RESTART_FACTOR)
}

fn stalled(app: &App, limit: Duration) -> Result<(), ApiError> {
    match app.engine.busy_for() {
        Some(busy) if busy > limit => Err(ApiError::Unhealthy(format!(
            "a forward pass has been running for {} s, longer than {} s",
            busy.as_secs(),
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

/// Asks the engine, which runs a token through the model while the last batch has failed.
async fn probe(app: &App) -> Probe {
    match tokio::time::timeout(PROBE_TIMEOUT, app.engine.health()).await {
        Ok(Ok(())) => Probe::Answered,
        Ok(Err(error)) => Probe::Failed(ApiError::Unhealthy(error.to_string())),
        Err(_) => Probe::TimedOut,
    }
}
