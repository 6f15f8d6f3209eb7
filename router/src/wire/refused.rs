//! Fields of other servers that nothing serves. Any value is an error that names the field, which says more than a field that is missing.

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

/// Declares types of which no value can be sent, except null in an `Option`.
macro_rules! refused {
    ($($(#[doc = $doc:literal])+ $name:ident: $problem:literal;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(D::Error::custom($problem))
            }
        }
    )+};
}

refused! {
    /// Chat messages of vLLM's API.
    Messages: "chat messages are not supported, because no chat template is applied: send the text itself";

    /// Labels, or a trained classifier, of Jina's classification; labels of Hugging Face's zero-shot classification.
    OwnLabels: "not supported: the labels are those of the served model";

    /// vLLM's size of the chunks of a text that have a vector each.
    ChunkSize: "late chunking is not supported: every input has a vector of its own";

    /// Image of a text in Jina's API.
    Image: "not supported: the served model reads texts";
}

/// Declares types of which one value can be sent.
macro_rules! only {
    ($($(#[doc = $doc:literal])+ $name:ident of $type:ty: $allowed:expr, $problem:literal;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub(crate) struct $name;

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let allowed: fn(&$type) -> bool = $allowed;
                if allowed(&<$type>::deserialize(deserializer)?) { Ok(Self) } else { Err(D::Error::custom($problem)) }
            }
        }
    )+};
}

only! {
    /// Cohere's fields of a document to read.
    RankFields of Vec<String>: |fields| fields.iter().all(|field| field == "text"),
        "not supported, except for `text`, which is the only field that is read: send each document as one text";

    /// Images of Cohere's API.
    Images of Vec<IgnoredAny>: Vec::is_empty, "not supported: the served model embeds texts";

    /// Jina's pooling of inputs that are read as one text.
    LateChunking of bool: |asked| !asked, "not supported: every input has a vector of its own";

    /// Jina's vectors of tokens.
    Multivector of bool: |asked| !asked,
        "not supported: /pooling with the `task` `token_embed` answers a vector for each token";

    /// vLLM's limit of a query.
    QueryTokens of usize: |tokens| *tokens == 0,
        "not supported, except for 0: the query is not truncated; shorten it, or its documents by `max_tokens_per_doc`";
}

/// Padding of texts to a length.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Padding {
    DoNotPad,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::parse;

    #[derive(Debug, Deserialize)]
    struct Body {
        #[allow(dead_code, reason = "deserializing it checks it")]
        input: String,
        #[allow(dead_code, reason = "deserializing it checks it")]
        messages: Option<Messages>,
        #[allow(dead_code, reason = "deserializing it checks it")]
        padding: Option<Padding>,
    }

    #[test]
    fn what_is_refused_is_named() {
        for (body, error) in [
            (r#"{"messages": [{"role": "user"}]}"#, "`messages`: chat messages are not supported"),
            (r#"{"input": "a", "messages": ""}"#, "`messages`: chat messages are not supported"),
            (
                r#"{"input": "a", "padding": "max_length"}"#,
                "`padding`: unknown value `max_length`, expected `do_not_pad`",
            ),
        ] {
            let found = parse::<Body>(body.as_bytes()).unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
        for body in [r#"{"input": "a", "messages": null}"#, r#"{"input": "a", "padding": "do_not_pad"}"#] {
            assert!(parse::<Body>(body.as_bytes()).is_ok(), "{body}");
        }
    }
}
