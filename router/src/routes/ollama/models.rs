//! The served model in Ollama's forms: `/api/tags`, `/api/ps`, `/api/show`, `/api/pull`.

use crate::error::ApiError;
use crate::routes::Result;
use crate::routes::models::{named, unknown_model};
use crate::state::App;
use crate::state::model_names::tagged;
use crate::state::registry::ServedModel;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use axum::extract::State;
use prefold_core::{Embed, Error, ModelInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::{Duration, UNIX_EPOCH};
use utoipa::ToSchema;

/// Digest of a model whose files are not hashed. Ollama's command shows its first digits.
const NO_DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Time at which a model that stays loaded is unloaded.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// The names of the served model.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OllamaModels {
    models: Vec<OllamaModel>,
}

/// One of the names of the served model.
#[derive(Debug, Serialize, ToSchema)]
struct OllamaModel {
    /// With a tag, which is `latest` for names without one.
    name: String,
    /// The same.
    model: String,
    /// Bytes; 0, as they are not known.
    size: u64,
    /// Zeros, as the files are not hashed.
    digest: &'static str,
    details: Details,
    #[serde(flatten)]
    state: ModelState,
}

/// Differences of the lists of known and of loaded models.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ModelState {
    Known {
        /// Time of the server's start.
        modified_at: String,
        capabilities: Vec<&'static str>,
    },
    Loaded {
        /// The model stays loaded.
        expires_at: &'static str,
        /// Bytes on a GPU; 0, as they are not known.
        size_vram: u64,
        /// Maximum tokens of an input.
        context_length: usize,
    },
}

/// Kind of the model. What is not known is empty.
#[derive(Debug, Serialize, ToSchema)]
struct Details {
    parent_model: &'static str,
    format: &'static str,
    family: String,
    families: Vec<String>,
    parameter_size: &'static str,
    /// Data type of the weights.
    quantization_level: String,
    /// Maximum tokens of an input.
    context_length: usize,
    /// Values of a vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_length: Option<usize>,
}

impl Details {
    fn of(info: &ModelInfo) -> Self {
        Self {
            parent_model: "",
            format: "",
            family: info.model_type.clone(),
            families: vec![info.model_type.clone()],
            parameter_size: "",
            quantization_level: info.dtype.replace("bfloat", "BF").replace("float", "F").to_uppercase(),
            context_length: info.capabilities.max_input_length,
            embedding_length: info.capabilities.embed.as_ref().map(Embed::default_dim),
        }
    }
}

/// Kinds of output, by Ollama's names.
fn capabilities(info: &ModelInfo) -> Vec<&'static str> {
    info.capabilities.embed.iter().map(|_| "embedding").collect()
}

fn list(app: &App, state: impl Fn(&ModelInfo) -> ModelState) -> Answer {
    let model = |(name, model): (&str, &ServedModel)| {
        let (name, info) = (tagged(name), model.engine.info());
        let details = Details::of(info);
        OllamaModel { model: name.clone(), name, size: 0, digest: NO_DIGEST, details, state: state(info) }
    };
    Answer::free(&OllamaModels { models: named(app).map(model).collect() })
}

/// The names of the served model
///
/// Ollama's list of models.
#[utoipa::path(
    get, path = "/api/tags", tag = "Ollama", responses((status = 200, description = "The names", body = OllamaModels))
)]
pub(crate) async fn tags(State(app): State<App>) -> Answer {
    let modified_at = rfc3339(app.started);
    list(&app, |info| ModelState::Known { modified_at: modified_at.clone(), capabilities: capabilities(info) })
}

/// The names of the loaded model
///
/// Ollama's list of loaded models. The served model is always loaded.
#[utoipa::path(
    get, path = "/api/ps", tag = "Ollama", responses((status = 200, description = "The names", body = OllamaModels))
)]
pub(crate) async fn ps(State(app): State<App>) -> Answer {
    list(&app, |info| ModelState::Loaded {
        expires_at: NEVER,
        size_vram: 0,
        context_length: info.capabilities.max_input_length,
    })
}

/// Name of a model.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ShowBody {
    /// With or without the tag `latest`.
    model: Option<String>,
    /// Older name of the field.
    name: Option<String>,
    /// Accepted: there is no longer form.
    #[allow(dead_code, reason = "deserializing it checks it")]
    verbose: Option<bool>,
}

/// A model. What is not known is empty.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownModel {
    modelfile: &'static str,
    parameters: &'static str,
    template: &'static str,
    details: Details,
    /// `general.architecture`, and with the architecture before it `context_length` and `embedding_length`.
    #[schema(value_type = Object)]
    model_info: Map<String, Value>,
    capabilities: Vec<&'static str>,
    /// Time of the server's start.
    modified_at: String,
}

/// A model
///
/// Ollama's description of a model.
#[utoipa::path(
    post, path = "/api/show", tag = "Ollama", request_body = ShowBody,
    responses(
        (status = 200, description = "The model", body = ShownModel),
        (status = 404, description = "No model has this name")
    )
)]
pub(crate) async fn show(State(app): State<App>, Json(body): Json<ShowBody>) -> Result {
    let model = served(&app, [body.model, body.name])?;
    let info = model.engine.info();
    Ok(Answer::free(&ShownModel {
        modelfile: "",
        parameters: "",
        template: "",
        details: Details::of(info),
        model_info: model_info(info),
        capabilities: capabilities(info),
        modified_at: rfc3339(app.started),
    }))
}

/// The model of the first name that is not empty: Ollama's own client sends two fields, one of them empty.
///
/// # Errors
/// There is no name, or no model has it.
fn served(app: &App, names: [Option<String>; 2]) -> std::result::Result<&ServedModel, ApiError> {
    let name = names.into_iter().flatten().find(|name| !name.is_empty());
    let name = name.ok_or_else(|| Error::invalid("model", "is missing"))?;
    app.models.named(&name).map(|model| &**model).ok_or_else(|| unknown_model(app, &name))
}

/// Name of a model that a client wants to be there.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PullBody {
    /// With or without the tag `latest`.
    model: Option<String>,
    /// Older name of the field.
    name: Option<String>,
    /// Accepted: the response is one line of JSON, which is also a stream of one object.
    #[allow(dead_code, reason = "deserializing it checks it")]
    stream: Option<bool>,
    /// Accepted: nothing is downloaded.
    #[allow(dead_code, reason = "deserializing it checks it")]
    insecure: Option<bool>,
}

/// State of a model that is there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pulled {
    /// `success`
    status: &'static str,
}

/// Presence of a model
///
/// For clients that pull a model before they use it: success for the served model, without a download.
#[utoipa::path(
    post, path = "/api/pull", tag = "Ollama", request_body = PullBody,
    responses(
        (status = 200, description = "The model is there", body = Pulled),
        (status = 404, description = "No model has this name")
    )
)]
pub(crate) async fn pull(State(app): State<App>, Json(body): Json<PullBody>) -> Result {
    served(&app, [body.model, body.name])?;
    Ok(Answer::free(&Pulled { status: "success" }))
}

fn model_info(info: &ModelInfo) -> Map<String, Value> {
    let family = &info.model_type;
    let dim = info.capabilities.embed.as_ref().map(Embed::default_dim);
    let mut fields = Map::new();
    fields.insert("general.architecture".to_owned(), json!(family));
    fields.insert(format!("{family}.context_length"), json!(info.capabilities.max_input_length));
    fields.extend(dim.map(|dim| (format!("{family}.embedding_length"), json!(dim))));
    fields
}

/// A Unix time in seconds as RFC 3339 writes it.
fn rfc3339(time: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time)).to_string()
}
