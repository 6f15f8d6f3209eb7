//! TEI's tokenizer routes: `/tokenize`, `/decode`.

use super::Result;
use crate::answer::Answer;
use crate::app::App;
use crate::extract::{EncodeFields, IdLists, Json, Texts};
use crate::schema::{IdListsSchema, TextsSchema};
use axum::extract::State;
use prefold_core::TokenInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What to encode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TokenizeBody {
    #[schema(value_type = TextsSchema)]
    inputs: Texts,
    /// Add the tokenizer's special tokens; true when absent.
    add_special_tokens: Option<bool>,
    /// One of the model's prompts, to put before each text.
    prompt_name: Option<String>,
}

/// One token. `start` and `stop` are characters of the text, `null` for special tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Token {
    id: u32,
    text: String,
    special: bool,
    start: Option<usize>,
    stop: Option<usize>,
}

impl From<TokenInfo> for Token {
    fn from(TokenInfo { id, text, special, start, stop }: TokenInfo) -> Self {
        Self { id, text, special, start, stop }
    }
}

/// Tokens of texts
#[utoipa::path(
    post, path = "/tokenize", tag = "text-embeddings-inference", request_body = TokenizeBody,
    responses((status = 200, description = "A list of tokens for each text", body = Vec<Vec<Token>>))
)]
pub(crate) async fn tokenize(State(app): State<App>, Json(body): Json<TokenizeBody>) -> Result {
    let TokenizeBody { inputs, add_special_tokens, prompt_name } = body;
    let encode = EncodeFields { prompt_name, add_special_tokens, ..Default::default() };
    let tokens = app.engine.tokenize(inputs.0, encode.for_field("inputs")?).await?;
    let tokens: Vec<Vec<Token>> =
        tokens.into_iter().map(|tokens| tokens.into_iter().map(Token::from).collect()).collect();
    Ok(Answer::free(&tokens))
}

/// What to decode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct DecodeBody {
    #[schema(value_type = IdListsSchema)]
    ids: IdLists,
    /// Leave special tokens out; true when absent.
    skip_special_tokens: Option<bool>,
}

/// Texts of token ids
#[utoipa::path(
    post, path = "/decode", tag = "text-embeddings-inference", request_body = DecodeBody,
    responses((status = 200, description = "A text for each list of ids", body = Vec<String>))
)]
pub(crate) async fn decode(State(app): State<App>, Json(body): Json<DecodeBody>) -> Result {
    let texts = app.engine.decode(body.ids.0, body.skip_special_tokens.unwrap_or(true)).await?;
    Ok(Answer::free(&texts))
}
