//! `/docs`: Swagger UI over the OpenAPI description. Its files are constants of the program and are never copied.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use utoipa::openapi::OpenApi;

const PAGE: &[u8] = include_bytes!("../../assets/swagger-ui/index.html");
const BUNDLE: &[u8] = include_bytes!("../../assets/swagger-ui/swagger-ui-bundle.js.gz");
const STYLE: &[u8] = include_bytes!("../../assets/swagger-ui/swagger-ui.css.gz");

/// Seconds that a browser keeps the files of Swagger UI.
const CACHE: HeaderValue = HeaderValue::from_static("max-age=86400");

/// The page, its files and the description.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(description: &OpenApi) -> Router<S> {
    // Serialization of our own description into memory cannot fail.
    let description = Bytes::from(serde_json::to_vec(description).unwrap_or_default());
    let content_type = |value| [(header::CONTENT_TYPE, HeaderValue::from_static(value))];
    let json = content_type("application/json");
    Router::new()
        .route("/docs", get(|| async { Redirect::to("docs/") }))
        .route("/docs/", get((content_type("text/html; charset=utf-8"), PAGE)))
        .route("/docs/swagger-ui-bundle.js", get(compressed("text/javascript; charset=utf-8", BUNDLE)))
        .route("/docs/swagger-ui.css", get(compressed("text/css; charset=utf-8", STYLE)))
        .route("/api-doc/openapi.json", get(move || async move { (json, description) }))
}

/// A file that is sent as it is stored: every browser reads gzip.
fn compressed(content_type: &'static str, file: &'static [u8]) -> impl IntoResponse + Clone + use<> {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (header::CACHE_CONTROL, CACHE),
    ];
    (headers, file)
}
