//! TEI's tokenizer routes: `/tokenize`, `/decode`.

use super::Result;
use crate::state::call::Head;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::encode_fields::EncodeFields;
use crate::wire::inputs::{IdLists, Texts};
use crate::wire::json_writer::text_steps;
use crate::wire::pieces::{JsonText, list_steps, write_value};
use crate::wire::prompt::PromptFields;
use crate::wire::schema::{IdListsSchema, TextsSchema};
use prefold_core::TokenInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Texts to encode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TokenizeBody {
    #[schema(value_type = TextsSchema)]
    inputs: Texts,
    /// Add the tokenizer's special tokens. Default: true.
    add_special_tokens: Option<bool>,
    /// Name of the model's prompt to put before each text.
    prompt_name: Option<String>,
}

/// A token. `start` and `stop` are character offsets in the text, `null` for special tokens.
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
pub(crate) async fn tokenize(head: Head, Json(body): Json<TokenizeBody>) -> Result {
    let call = head.for_default();
    let TokenizeBody { inputs, add_special_tokens, prompt_name } = body;
    let prompt = PromptFields { prompt_name, ..Default::default() };
    let encode = EncodeFields { prompt, add_special_tokens, ..Default::default() };
    let encode = encode.for_field("inputs", &call)?;
    let tokens = call.engine.tokenize(inputs.0.into_vec(), encode).await?;
    let tokens = tokens.into_iter().map(Vec::into_iter);
    let text = JsonText::default()
        .list_of(tokens, |tokens| list_steps(tokens, |out, token| write_value(out, &Token::from(token))));
    Ok(Answer::free_text(text, call.share))
}

/// Token ids to decode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct DecodeBody {
    #[schema(value_type = IdListsSchema)]
    ids: IdLists,
    /// Leave special tokens out. Default: true.
    skip_special_tokens: Option<bool>,
}

/// Texts of token ids
#[utoipa::path(
    post, path = "/decode", tag = "text-embeddings-inference", request_body = DecodeBody,
    responses((status = 200, description = "A text for each list of ids", body = Vec<String>))
)]
pub(crate) async fn decode(head: Head, Json(body): Json<DecodeBody>) -> Result {
    let call = head.for_default();
    let texts = call.engine.decode(body.ids.0.into_vec(), body.skip_special_tokens.unwrap_or(true)).await?;
    Ok(Answer::free_text(JsonText::default().list_of(texts, text_steps), call.share))
}
