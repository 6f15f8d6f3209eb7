//! Parts of Cohere's requests and responses.

use super::vectors::EmbeddingType;
use prefold_core::shown;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Side of an input to truncate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum CohereTruncate {
    /// Refuse inputs that are too long.
    None,
    /// Leave out the beginning.
    Start,
    /// Leave out the end.
    End,
}

/// Input in parts, whose texts are joined by line breaks.
#[derive(Debug, Deserialize)]
#[serde(from = "CohereInputObject")]
pub(crate) struct CohereInput(pub(crate) String);

/// Input in parts.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CohereInputObject {
    /// Parts, whose texts are joined by line breaks.
    content: Vec<CohereContent>,
}

/// Part of an input.
#[derive(Debug, Deserialize, ToSchema)]
struct CohereContent {
    #[allow(dead_code, reason = "deserializing it checks it")]
    #[serde(rename = "type")]
    kind: CohereContentType,
    text: String,
}

/// Kinds of parts. Images are not supported.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
enum CohereContentType {
    Text,
}

impl<'de> Deserialize<'de> for CohereContentType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*String::deserialize(deserializer)? {
            "text" => Ok(Self::Text),
            "image" | "image_url" => Err(D::Error::custom("must be `text`: images are not supported")),
            other => Err(D::Error::unknown_variant(&shown(other), &["text"])),
        }
    }
}

impl From<CohereInputObject> for CohereInput {
    fn from(CohereInputObject { content }: CohereInputObject) -> Self {
        let texts: Vec<String> = content.into_iter().map(|part| part.text).collect();
        Self(match <[String; 1]>::try_from(texts) {
            Ok([text]) => text,
            Err(texts) => texts.join("\n"),
        })
    }
}

/// Set of element types, sent as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EmbeddingTypes([bool; EmbeddingType::ALL.len()]);

impl EmbeddingTypes {
    /// The types, each once; none if the list is empty.
    pub(crate) fn iter(self) -> impl Iterator<Item = EmbeddingType> {
        EmbeddingType::ALL.into_iter().filter(move |&kind| self.0[kind as usize])
    }
}

impl<'de> Deserialize<'de> for EmbeddingTypes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EmbeddingTypesVisitor)
    }
}

struct EmbeddingTypesVisitor;

impl<'de> Visitor<'de> for EmbeddingTypesVisitor {
    type Value = EmbeddingTypes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of `float`, `int8`, `uint8`, `binary`, `ubinary` and `base64`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EmbeddingTypes, A::Error> {
        let mut types = EmbeddingTypes::default();
        while let Some(kind) = seq.next_element::<EmbeddingType>()? {
            types.0[kind as usize] = true;
        }
        Ok(types)
    }
}

/// Selection of passages of documents, in a rerank request.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RelevantSpans {
    #[allow(dead_code, reason = "deserializing it checks it")]
    mode: RelevantSpansMode,
}

/// Modes of the selection. Selecting passages is not supported.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum RelevantSpansMode {
    Disabled,
}

/// Metadata of Cohere's responses.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct CohereMeta {
    api_version: ApiVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    billed_units: Option<BilledUnits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<CohereTokens>,
}

/// Version of Cohere's API.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct ApiVersion {
    version: &'static str,
}

/// Cohere's billing units.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
struct BilledUnits {
    /// Tokens of all inputs, for embeddings.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<usize>,
    /// One per hundred documents, for reranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    search_units: Option<usize>,
}

/// Tokens of a request.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct CohereTokens {
    /// Tokens of all inputs after truncation, prompts included.
    input_tokens: usize,
}

impl CohereMeta {
    /// Metadata of a response that costs nothing.
    pub(crate) fn new(version: &'static str) -> Self {
        Self { api_version: ApiVersion { version }, billed_units: None, tokens: None }
    }

    /// Metadata of embeddings.
    pub(crate) fn of_tokens(version: &'static str, input_tokens: usize) -> Self {
        let billed_units = BilledUnits { input_tokens: Some(input_tokens), ..BilledUnits::default() };
        Self { billed_units: Some(billed_units), tokens: Some(CohereTokens { input_tokens }), ..Self::new(version) }
    }

    /// Metadata of a ranking.
    pub(crate) fn of_search(version: &'static str, search_units: usize) -> Self {
        let billed_units = BilledUnits { search_units: Some(search_units), ..BilledUnits::default() };
        Self { billed_units: Some(billed_units), ..Self::new(version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_type_counts_once_however_often_it_is_sent() {
        let many: Vec<&str> = ["ubinary", "float", "base64"].into_iter().cycle().take(3000).collect();
        let types: EmbeddingTypes = serde_json::from_value(json!(many)).unwrap();
        let expected = [EmbeddingType::Float, EmbeddingType::Ubinary, EmbeddingType::Base64];
        assert_eq!(types.iter().collect::<Vec<_>>(), expected);
        assert!(EmbeddingType::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
        assert_eq!(serde_json::from_value::<EmbeddingTypes>(json!([])).unwrap().iter().count(), 0);
    }

    #[test]
    fn the_texts_of_an_input_are_joined() {
        let text = |parts: serde_json::Value| {
            serde_json::from_value::<CohereInput>(json!({ "content": parts }))
                .map(|input| input.0)
                .map_err(|e| e.to_string())
        };
        let part = |text: &str| json!({ "type": "text", "text": text });
        assert_eq!(text(json!([part("a")])), Ok("a".to_owned()));
        assert_eq!(text(json!([part("a"), part("b")])), Ok("a\nb".to_owned()));
        assert_eq!(text(json!([])), Ok(String::new()));
        let image = text(json!([part("a"), { "type": "image_url", "image_url": { "url": "data:" } }]));
        assert!(image.unwrap_err().contains("must be `text`: images are not supported"));
    }
}
