//! OpenAPI schemas of inputs with hand-written deserialization; no values of these types exist.
#![allow(dead_code, reason = "they are only described")]

use utoipa::ToSchema;

/// Inputs of the model: a text, a list of texts, a list of token ids, a list of such lists, or a list of texts and such
/// lists.
#[derive(ToSchema)]
#[schema(title = "Inputs")]
#[serde(untagged)]
pub(crate) enum InputsSchema {
    #[schema(title = "text")]
    Text(String),
    Ids(Vec<u32>),
    Many(Vec<InputSchema>),
}

/// A text, or the token ids of one.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum InputSchema {
    Text(String),
    Ids(Vec<u32>),
}

/// A text or a list of texts.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum TextsSchema {
    Text(String),
    Texts(Vec<String>),
}

/// A list of token ids or a list of such lists.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum IdListsSchema {
    Ids(Vec<u32>),
    Lists(Vec<Vec<u32>>),
}

/// A text, a pair (a flat list of two), or a list of lists with one or two texts each.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum SequencesSchema {
    Text(String),
    Pair(Vec<String>),
    Batch(Vec<Vec<String>>),
}

/// A text, a list of texts, or a list of lists of texts, which count as one list.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum TokenTextsSchema {
    Text(String),
    Texts(Vec<String>),
    Lists(Vec<Vec<String>>),
}

/// A text, or an object that holds it.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum DocumentSchema {
    Text(String),
    Object { text: String },
}
