//! Tokenizer routes of TEI and vLLM: `/tokenize`, `/decode`, `/detokenize`.

use super::Result;
use super::two_apis::{Apis, SharedBody, answered};
use crate::error::ErrorIn;
use crate::state::call::Head;
use crate::wire::answer::Answer;
use crate::wire::body::{Json, RawBody};
use crate::wire::encode_fields::EncodeFields;
use crate::wire::inputs::{IdLists, Texts};
use crate::wire::json_writer::{split_around, text_steps};
use crate::wire::pieces::{JsonText, framed, list_steps, write_value};
use crate::wire::prompt::PromptFields;
use crate::wire::refused::Messages;
use crate::wire::schema::{IdListsSchema, TextsSchema};
use prefold_core::{Error, TokenInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Texts to encode. `inputs` is for TEI's response, `prompt` for vLLM's.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TokenizeBody {
    /// For a list of tokens with their texts and places for each text.
    #[schema(value_type = Option<TextsSchema>)]
    inputs: Option<Texts>,
    /// For the token ids of one text.
    prompt: Option<String>,
    /// Any name is accepted, because there is one model.
    model: Option<String>,
    /// Add the tokenizer's special tokens. Default: true.
    add_special_tokens: Option<bool>,
    /// Name of the model's prompt to put before each text.
    prompt_name: Option<String>,
    /// With `prompt`: return the vocabulary's string of each token too.
    return_token_strs: Option<bool>,
    /// Not supported.
    #[schema(ignore)]
    #[allow(dead_code, reason = "deserializing it refuses it")]
    messages: Option<Messages>,
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
    fn from(TokenInfo { id, text, special, start, stop, .. }: TokenInfo) -> Self {
        Self { id, text, special, start, stop }
    }
}

/// Token ids of a text, as in vLLM's API.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct TokenIds {
    count: usize,
    /// Maximum tokens of an input.
    max_model_len: usize,
    tokens: Vec<u32>,
    /// The vocabulary's string of each token if requested, else null.
    token_strs: Option<Vec<String>>,
}

/// The two forms of the response.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: tokens are written one by one")]
pub(crate) enum Tokenized {
    Tokens(Vec<Vec<Token>>),
    Ids(TokenIds),
}

/// Tokens of texts
///
/// With `inputs`, TEI's list of tokens for each text; with `prompt`, vLLM's token ids of one text.
#[utoipa::path(
    post, path = "/tokenize", tag = "text-embeddings-inference",
    request_body(content = TokenizeBody, example = json!({ "inputs": ["Use flock."] })),
    responses((status = 200, description = "The tokens", body = Tokenized))
)]
pub(crate) async fn tokenize(head: Head, body: RawBody) -> std::result::Result<Answer, ErrorIn> {
    answered(body, |body| tokenize_either(head, body)).await
}

impl SharedBody for TokenizeBody {
    fn apis(&self) -> Apis {
        Apis { tei: self.inputs.is_some(), vllm: self.prompt.is_some() }
    }
}

async fn tokenize_either(head: Head, body: TokenizeBody) -> Result {
    let call = head.for_model(body.model.as_deref());
    let TokenizeBody { inputs, prompt, add_special_tokens, prompt_name, return_token_strs, .. } = body;
    let (texts, field) = match (inputs, prompt) {
        (Some(inputs), None) => (inputs.0.into_vec(), "inputs"),
        (None, Some(prompt)) => (vec![prompt], "prompt"),
        (Some(_), Some(_)) => return Err(Error::invalid("prompt", "cannot be combined with `inputs`").into()),
        (None, None) => return Err(Error::invalid("inputs", "is missing; send either `inputs` or `prompt`").into()),
    };
    let prompts = PromptFields { prompt_name, ..Default::default() };
    let encode = EncodeFields { prompt: prompts, add_special_tokens, ..Default::default() };
    let encode = encode.for_field(field, &call)?;
    let mut tokens = call.engine.tokenize(texts, encode).await?;
    let text = if field == "inputs" {
        let tokens = tokens.into_iter().map(Vec::into_iter);
        JsonText::default()
            .list_of(tokens, |tokens| list_steps(tokens, |out, token| write_value(out, &Token::from(token))))
    } else {
        let tokens = tokens.pop().unwrap_or_default();
        let max_model_len = call.engine.info().capabilities.max_input_length;
        ids_of_prompt(tokens, max_model_len, return_token_strs == Some(true))
    };
    Ok(Answer::free_text(text, call.share))
}

/// vLLM's response.
fn ids_of_prompt(tokens: Vec<TokenInfo>, max_model_len: usize, with_texts: bool) -> JsonText {
    let token_strs = with_texts.then(Vec::new);
    let response = TokenIds { count: tokens.len(), max_model_len, tokens: Vec::new(), token_strs };
    let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    let texts = JsonText::default().list_of(tokens, |token| text_steps(token.token));
    JsonText::around(&response, [("tokens", JsonText::default().values(ids)), ("token_strs", texts)])
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
    post, path = "/decode", tag = "text-embeddings-inference",
    request_body(content = DecodeBody, example = json!({ "ids": [1, 2, 3] })),
    responses((status = 200, description = "A text for each list of ids", body = Vec<String>))
)]
pub(crate) async fn decode(head: Head, Json(body): Json<DecodeBody>) -> Result {
    let call = head.for_default();
    let texts = call.engine.decode(body.ids.0.into_vec(), body.skip_special_tokens.unwrap_or(true)).await?;
    Ok(Answer::free_text(JsonText::default().list_of(texts, text_steps), call.share))
}

/// Token ids to decode, named as in vLLM.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct DetokenizeBody {
    #[schema(value_type = Vec<u32>)]
    tokens: IdLists,
    /// Any name is accepted, because there is one model.
    model: Option<String>,
}

/// The text of token ids.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Detokenized {
    prompt: String,
}

/// Text of token ids
///
/// vLLM's decoding of one list of ids, with its special tokens.
#[utoipa::path(
    post, path = "/detokenize", tag = "vLLM",
    request_body(content = DetokenizeBody, example = json!({ "tokens": [1, 2, 3] })),
    responses((status = 200, description = "The text", body = Detokenized))
)]
pub(crate) async fn detokenize(head: Head, Json(body): Json<DetokenizeBody>) -> Result {
    let call = head.for_model(body.model.as_deref());
    let ids = body.tokens.only_list("tokens")?;
    let texts = call.engine.decode(vec![ids], false).await?;
    let text = texts.into_iter().next().unwrap_or_default();
    let (before, after) = split_around(&Detokenized { prompt: String::new() }, "\"\"");
    Ok(Answer::free_text(JsonText::default().steps(framed(before, text_steps(text), after)), call.share))
}
