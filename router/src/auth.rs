//! The API key.

use crate::app::App;
use crate::error::ApiError;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

/// Lets a request through when it brings the key, or when none is asked for.
pub(crate) async fn require_key(State(app): State<App>, request: Request, next: Next) -> Result<Response, ApiError> {
    if let Some(expected) = &app.http.api_key {
        let given = request.headers().get(header::AUTHORIZATION).and_then(bearer).unwrap_or_default();
        // The comparison takes the same time wherever the keys differ; only the key's length can be measured.
        if !bool::from(given.ct_eq(expected.expose().as_bytes())) {
            return Err(ApiError::Unauthorized);
        }
    }
    Ok(next.run(request).await)
}

/// What follows the scheme `Bearer`, whose case does not matter.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, credentials) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| credentials.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer() {
        for (value, expected) in [
            ("Bearer key", Some(&b"key"[..])),
            ("bearer  key ", Some(b"key")),
            ("Bearer ", Some(b"")),
            ("Bearer", None),
            ("Basic key", None),
            ("key", None),
            ("", None),
        ] {
            assert_eq!(bearer(&HeaderValue::from_static(value)), expected, "{value}");
        }
    }
}
