//! A panic in a handler becomes a response.

use crate::error::ApiError;
use axum::response::{IntoResponse, Response};
use std::any::Any;
use tower_http::catch_panic::CatchPanicLayer;

/// Answers with status 500. The panic hook logs the panic itself.
pub(crate) fn layer() -> CatchPanicLayer<fn(Box<dyn Any + Send>) -> Response> {
    CatchPanicLayer::custom(|_| ApiError::Panic.into_response())
}
