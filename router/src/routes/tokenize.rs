//! TEI's tokenizer routes: `/tokenize`, `/decode`.

use super::Result;
use crate::answer::Answer;
use crate::app::App;
use crate::extract::{EncodeFields, IdLists, Json, Texts};
use axum::extract::State;
use prefold_core::TokenInfo;
use serde::{Deserialize, Serialize};

/// `POST /tokenize`
#[derive(Debug, Deserialize)]
pub(crate) struct TokenizeBody {
    inputs: Texts,
    /// True when absent.
    add_special_tokens: Option<bool>,
    prompt_name: Option<String>,
}

/// One token. `start` and `stop` are characters of the text, `null` for special tokens.
#[derive(Debug, Serialize)]
struct Token {
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

/// `POST /tokenize`: a list of tokens for each text.
pub(crate) async fn tokenize(State(app): State<App>, Json(body): Json<TokenizeBody>) -> Result {
    let TokenizeBody { inputs, add_special_tokens, prompt_name } = body;
    let encode = EncodeFields { prompt_name, add_special_tokens, ..Default::default() };
    let tokens = app.engine.tokenize(inputs.0, encode.for_field("inputs")).await?;
    let tokens: Vec<Vec<Token>> =
        tokens.into_iter().map(|tokens| tokens.into_iter().map(Token::from).collect()).collect();
    Ok(Answer::free(&tokens))
}

/// `POST /decode`
#[derive(Debug, Deserialize)]
pub(crate) struct DecodeBody {
    ids: IdLists,
    /// True when absent.
    skip_special_tokens: Option<bool>,
}

/// `POST /decode`: a text for each list of ids.
pub(crate) async fn decode(State(app): State<App>, Json(body): Json<DecodeBody>) -> Result {
    let texts = app.engine.decode(body.ids.0, body.skip_special_tokens.unwrap_or(true)).await?;
    Ok(Answer::free(&texts))
}
