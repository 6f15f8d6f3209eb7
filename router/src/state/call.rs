//! State of one request: the app, what the head says, and once the body is read, the model.

use super::registry::ServedModel;
use super::{App, State};
use crate::error::ApiError;
use crate::state::field_names::SentNames;
use crate::state::ignored::IgnoredFields;
use crate::state::request_id::RequestId;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use prefold_core::{Account, Engine, Error, Priority, Scope, Share, shown};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Header with a request's priority, by vLLM's name; proxies set it, so it comes before the field.
const PRIORITY: &str = "x-vllm-priority";

/// Content of a request's head. The model is in the body, which the extractors read later.
pub(crate) struct Head {
    app: App,
    account: Account,
    scope: Scope,
    priority: Option<Priority>,
    share: Arc<Share>,
    ignored: IgnoredFields,
    sent: SentNames,
    chosen: ChosenModel,
    id: RequestId,
}

/// The app as the handler of a request sees it.
pub(crate) struct Call {
    app: App,
    pub(crate) model: Arc<ServedModel>,
    /// The model's engine, which counts responses in the request's share, folds its inputs in its key's scope and schedules it
    /// on its key's account.
    pub(crate) engine: Engine,
    /// Bytes that the request holds: its body, then its response until the last byte is written.
    pub(crate) share: Arc<Share>,
    /// Fields of the body that are ignored.
    pub(crate) ignored: IgnoredFields,
    /// The client's names of fields.
    pub(crate) sent: SentNames,
    id: RequestId,
}

/// Model of one request as soon as its body is read, for the layers around the handler. Clones are handles to the same place.
#[derive(Clone, Default)]
pub(crate) struct ChosenModel(Arc<OnceLock<Arc<ServedModel>>>);

impl ChosenModel {
    pub(crate) fn get(&self) -> Option<&ServedModel> {
        self.0.get().map(|model| &**model)
    }
}

impl Head {
    /// The call of the model that the body names.
    pub(crate) fn for_model(self, name: Option<&str>) -> Call {
        let Self { app, account, scope, priority, share, ignored, sent, chosen, id } = self;
        let model = Arc::clone(app.models.asked(name));
        // Nothing else sets it.
        let _ = chosen.0.set(Arc::clone(&model));
        let engine = model.engine.clone().counting_in(Arc::clone(&share)).in_scope(scope).on_account(account, priority);
        Call { app, model, engine, share, ignored, sent, id }
    }

    /// The same for a body with vLLM's field `request_id`.
    pub(crate) fn for_model_and_id(self, name: Option<&str>, id: Option<&str>) -> Call {
        self.id.or_of_body(id);
        self.for_model(name)
    }

    /// The call of the default model, for bodies without a field for its name.
    pub(crate) fn for_default(self) -> Call {
        self.for_model(None)
    }
}

impl Call {
    /// Id of a response, such as `rerank-1f9a…`: the request's after the API's prefix.
    pub(crate) fn response_id(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.id.as_str())
    }
}

impl Deref for Call {
    type Target = State;

    fn deref(&self) -> &State {
        &self.app
    }
}

impl FromRequestParts<App> for Head {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Parts { extensions, headers, .. } = parts;
        let account = extensions.get::<Account>().copied().unwrap_or_default();
        let share = extensions.get::<Arc<Share>>().cloned();
        Ok(Self {
            app: app.clone(),
            account,
            scope: extensions.get::<Scope>().copied().unwrap_or_default(),
            priority: headers.get(PRIORITY).map(parse_priority).transpose()?,
            share: share.unwrap_or_else(|| Arc::new(app.quotas.buffered().share_of(account))),
            ignored: extensions.get::<IgnoredFields>().cloned().unwrap_or_default(),
            sent: extensions.get::<SentNames>().cloned().unwrap_or_default(),
            chosen: extensions.get::<ChosenModel>().cloned().unwrap_or_default(),
            id: extensions.get::<RequestId>().cloned().unwrap_or_else(|| RequestId::of(headers)),
        })
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
