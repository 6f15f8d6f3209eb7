//! The shapes of inputs that are read by hand, as the API's description shows them. Nothing is made of these types.
#![allow(dead_code, reason = "they are only described")]

use utoipa::ToSchema;

/// What to run through the model: a text, a list of texts, a list of token ids, a list of such lists, or a list of texts
/// and such lists.
#[derive(ToSchema)]
#[schema(title = "Inputs")]
pub(crate) enum InputsSchema {
    #[schema(title = "text")]
    #[serde(untagged)]
    Text(String),
    #[serde(untagged)]
    Ids(Vec<u32>),
    #[serde(untagged)]
    Many(Vec<InputSchema>),
}

/// A text, or the token ids of one.
#[derive(ToSchema)]
pub(crate) enum InputSchema {
    #[serde(untagged)]
    Text(String),
    #[serde(untagged)]
    Ids(Vec<u32>),
}

/// A text or a list of texts.
#[derive(ToSchema)]
pub(crate) enum TextsSchema {
    #[serde(untagged)]
    Text(String),
    #[serde(untagged)]
    Texts(Vec<String>),
}

/// A list of token ids or a list of such lists.
#[derive(ToSchema)]
pub(crate) enum IdListsSchema {
    #[serde(untagged)]
    Ids(Vec<u32>),
    #[serde(untagged)]
    Lists(Vec<Vec<u32>>),
}

/// A text, a pair (a flat list of two), or a list of lists with one or two texts each.
#[derive(ToSchema)]
pub(crate) enum SequencesSchema {
    #[serde(untagged)]
    Text(String),
    #[serde(untagged)]
    Pair(Vec<String>),
    #[serde(untagged)]
    Batch(Vec<Vec<String>>),
}

/// A text, or an object that holds it.
#[derive(ToSchema)]
pub(crate) enum DocumentSchema {
    #[serde(untagged)]
    Text(String),
    #[serde(untagged)]
    Object { text: String },
}
