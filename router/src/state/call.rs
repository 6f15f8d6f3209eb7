//! State of one request: the app, with an engine that counts what the request holds.

use super::{App, State};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use prefold_core::{Engine, Scope, Share};
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

/// The app as the handler of a request sees it.
pub(crate) struct Call {
    app: App,
    /// The engine, which counts responses in the request's share and folds its inputs in its key's scope.
    pub(crate) engine: Engine,
    /// Bytes that the request holds: its body, then its response until the last byte is written.
    pub(crate) share: Arc<Share>,
}

impl Deref for Call {
    type Target = State;

    fn deref(&self) -> &State {
        &self.app
    }
}

impl FromRequestParts<App> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let share = parts.extensions.get::<Arc<Share>>().cloned();
        let share = share.unwrap_or_else(|| Arc::new(app.engine.buffered().share()));
        let scope = parts.extensions.get::<Scope>().copied().unwrap_or_default();
        let engine = app.engine.clone().counting_in(Arc::clone(&share)).in_scope(scope);
        Ok(Self { app: app.clone(), engine, share })
    }
}
