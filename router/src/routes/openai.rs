//! OpenAI's routes: `/v1/embeddings` (and `/embeddings`), `/v1/models`.

use super::Result;
use crate::answer::Answer;
use crate::app::App;
use crate::extract::{EncodeFields, Inputs, Json};
use crate::wire::{write_base64, write_floats, write_list};
use axum::extract::State;
use prefold_core::EmbedOptions;
use serde::Deserialize;
use serde_json::{Value, json};

/// `POST /v1/embeddings`
#[derive(Debug, Deserialize)]
pub(crate) struct EmbeddingsBody {
    input: Inputs,
    /// Echoed. There is one model, so any name is taken for it.
    model: Option<String>,
    encoding_format: Option<EncodingFormat>,
    dimensions: Option<usize>,
}

/// How a vector is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodingFormat {
    /// A list of numbers.
    Float,
    /// A string; what OpenAI's own clients ask for.
    Base64,
}

impl EncodingFormat {
    fn writer(self) -> fn(&mut String, &[f32]) {
        match self {
            Self::Float => write_floats,
            Self::Base64 => write_base64,
        }
    }
}

/// `POST /v1/embeddings`
pub(crate) async fn embeddings(State(app): State<App>, Json(body): Json<EmbeddingsBody>) -> Result {
    let EmbeddingsBody { input, model, encoding_format, dimensions } = body;
    let options = EmbedOptions { encode: EncodeFields::default().for_field("input"), normalize: true, dimensions };
    let answered = app.engine.embed(input.0, options).await?;
    let write_vector = encoding_format.unwrap_or(EncodingFormat::Float).writer();
    let model = Value::from(model.unwrap_or_else(|| app.names.served.clone()));
    let tokens = answered.usage.tokens;
    Ok(Answer::written(&answered, |out| {
        out.push_str(r#"{"object":"list","data":"#);
        write_list(out, answered.results.iter().enumerate(), |out, (index, vector)| {
            out.push_str(&format!(r#"{{"object":"embedding","index":{index},"embedding":"#));
            write_vector(out, vector);
            out.push('}');
        });
        let usage = format!(r#"{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}"#);
        out.push_str(&format!(r#","model":{model},"usage":{usage}}}"#));
    }))
}

/// `GET /v1/models`
pub(crate) async fn models(State(app): State<App>) -> Answer {
    Answer::free(&json!({
        "object": "list",
        "data": [{ "id": app.names.served, "object": "model", "created": app.started, "owned_by": "prefold" }],
    }))
}
