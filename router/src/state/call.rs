//! State of one request: the app, with an engine that counts what the request holds.

use super::{App, State};
use crate::error::ApiError;
use crate::state::ignored::IgnoredFields;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use prefold_core::{Account, Engine, Error, Priority, Scope, Share, shown};
use std::ops::Deref;
use std::sync::Arc;

/// Header with a request's priority, by vLLM's name; proxies set it, so it comes before the field.
const PRIORITY: &str = "x-vllm-priority";

/// The app as the handler of a request sees it.
pub(crate) struct Call {
    app: App,
    /// The engine, which counts responses in the request's share, folds its inputs in its key's scope and schedules it
    /// on its key's account.
    pub(crate) engine: Engine,
    /// Bytes that the request holds: its body, then its response until the last byte is written.
    pub(crate) share: Arc<Share>,
    /// Fields of the body that are ignored.
    pub(crate) ignored: IgnoredFields,
}

impl Deref for Call {
    type Target = State;

    fn deref(&self) -> &State {
        &self.app
    }
}

impl FromRequestParts<App> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let account = parts.extensions.get::<Account>().copied().unwrap_or_default();
        let share = parts.extensions.get::<Arc<Share>>().cloned();
        let share = share.unwrap_or_else(|| Arc::new(app.engine.buffered().share_of(account)));
        let scope = parts.extensions.get::<Scope>().copied().unwrap_or_default();
        let priority = parts.headers.get(PRIORITY).map(parse_priority).transpose()?;
        let engine = app.engine.clone().counting_in(Arc::clone(&share)).in_scope(scope).on_account(account, priority);
        let ignored = parts.extensions.get::<IgnoredFields>().cloned().unwrap_or_default();
        Ok(Self { app: app.clone(), engine, share, ignored })
    }
}

fn parse_priority(value: &HeaderValue) -> Result<Priority, ApiError> {
    let number = value.to_str().ok().and_then(|value| value.trim().parse().ok());
    number.map(Priority::new).ok_or_else(|| {
        let problem =
            format!("is `{}`; it must be a whole number of 64 bits", shown(&String::from_utf8_lossy(value.as_bytes())));
        Error::Validation { field: PRIORITY, problem }.into()
    })
}
