//! Cross-origin requests: allowed origins and exposed headers.

use crate::state::ignored::IGNORED;
use crate::state::replaced::REPLACED;
use crate::state::request_id::REQUEST_ID;
use crate::wire::answer::{DTYPE, RANGE, SHAPE};
use crate::wire::cost::FOREIGN;
use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

/// Response headers that pages may read in addition to the safelisted ones.
const EXPOSED_HEADERS: [HeaderName; 20] = [
    header::RETRY_AFTER,
    HeaderName::from_static("x-compute-type"),
    HeaderName::from_static("x-compute-time"),
    HeaderName::from_static("x-compute-characters"),
    HeaderName::from_static("x-compute-tokens"),
    HeaderName::from_static("x-compute-compact-tokens"),
    HeaderName::from_static("x-truncated-inputs"),
    HeaderName::from_static("x-compaction-ratio"),
    HeaderName::from_static("x-total-time"),
    HeaderName::from_static("x-tokenization-time"),
    HeaderName::from_static("x-queue-time"),
    HeaderName::from_static("x-planning-time"),
    HeaderName::from_static("x-inference-time"),
    FOREIGN,
    IGNORED,
    REPLACED,
    REQUEST_ID,
    SHAPE,
    DTYPE,
    RANGE,
];

/// Allows `origins` to call the server; any origin if none are given.
pub(crate) fn layer(origins: Option<&[HeaderValue]>) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        // Client libraries add headers of their own; only the origin decides.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED_HEADERS);
    match origins {
        None => layer.allow_origin(Any),
        Some(origins) => layer.allow_origin(AllowOrigin::list(origins.to_vec())),
    }
}
