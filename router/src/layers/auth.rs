//! Authentication by API key.

use crate::error::ApiError;
use crate::state::api_keys::KeyOwner;
use crate::state::holding::Holding;
use crate::state::{App, SharePrefixes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use prefold_core::{Account, Scope, Share};
use std::sync::Arc;

/// Passes requests that carry a valid key; all requests if no key is configured.
pub(crate) fn require_key(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> impl Future<Output = Result<Response, ApiError>> + Send {
    let admitted = admit(&app, &mut request);
    let response = admitted.map(|(owner, holding)| (owner, holding, next.run(request)));
    async move {
        let (owner, holding, response) = response?;
        let mut response = response.await;
        response.extensions_mut().insert(holding);
        if let Some(owner) = owner {
            response.extensions_mut().insert(owner);
        }
        Ok(response)
    }
}

/// Checks the key, and records the request's account and the scope in which prefixes are shared. The request gets a
/// share of the account, which counts its body as it arrives and which the handler and then the response keep. The
/// key's owner, if any, is for the log.
///
/// # Errors
/// [`ApiError::Unauthorized`]
fn admit(app: &App, request: &mut Request) -> Result<(Option<KeyOwner>, Holding), ApiError> {
    let keys = &app.http.api_keys;
    let owner = if keys.are_required() {
        Some(keys.owner_of(given_key(request.headers())).ok_or(ApiError::Unauthorized)?)
    } else {
        None
    };
    let account = owner.as_ref().map_or_else(Account::default, |owner| Account(owner.number));
    let share: Arc<Share> = Arc::new(app.quotas.buffered().share_of(account));
    let holding = Holding::of(&share);
    let extensions = request.extensions_mut();
    extensions.insert(account);
    extensions.insert(share);
    if let (Some(owner), SharePrefixes::Key) = (&owner, app.http.share_prefixes) {
        extensions.insert(Scope(owner.number));
    }
    Ok((owner, holding))
}

/// The key of a request, from the first of these headers that it has: `Authorization: Bearer`, Azure's `api-key` and
/// `x-api-key`. Gateways may use `Authorization` for themselves, with another scheme.
fn given_key(headers: &HeaderMap) -> &[u8] {
    let key = |name| headers.get(name).map(|value: &HeaderValue| value.as_bytes().trim_ascii());
    let given = headers.get(header::AUTHORIZATION).and_then(bearer);
    given.or_else(|| key("api-key")).or_else(|| key("x-api-key")).unwrap_or_default()
}

/// The credentials after the scheme `Bearer`, in upper or lower case.
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
