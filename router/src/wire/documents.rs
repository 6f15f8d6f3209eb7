//! Texts that may be objects: queries and documents.

use super::many::Many;
use super::refused::Image;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A string, or an object with `text`.
#[derive(Debug, PartialEq)]
pub(crate) struct Document(pub(crate) String);

/// A document, or a list of documents.
#[derive(Debug, PartialEq)]
pub(crate) struct Documents(Many<Document>);

impl Documents {
    /// The texts.
    pub(crate) fn into_texts(self) -> Many<String> {
        let texts: Vec<String> = self.0.into_vec().into_iter().map(|document| document.0).collect();
        texts.into()
    }
}

/// The field `text` of an object.
///
/// # Errors
/// The object has none, or has an image.
pub(super) fn text_of<'de, A: MapAccess<'de>>(map: A) -> Result<String, A::Error> {
    #[derive(Deserialize)]
    struct Object {
        text: String,
        #[allow(dead_code, reason = "deserializing it checks it")]
        image: Option<Image>,
    }
    Object::deserialize(MapAccessDeserializer::new(map)).map(|object| object.text)
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an object with the field `text`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Document, E> {
        Ok(Document(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Document, A::Error> {
        text_of(map).map(Document)
    }
}

impl<'de> Deserialize<'de> for Documents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentsVisitor)
    }
}

struct DocumentsVisitor;

impl<'de> Visitor<'de> for DocumentsVisitor {
    type Value = Documents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document or a list of documents, each a string or an object with the field `text`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Documents, E> {
        Ok(Documents(vec![Document(text.to_owned())].into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Documents, A::Error> {
        Ok(Documents(vec![Document(text_of(map)?)].into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Documents, A::Error> {
        Many::deserialize(SeqAccessDeserializer::new(seq)).map(Documents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::parse;

    #[derive(Debug, Deserialize)]
    struct Body {
        documents: Documents,
    }

    #[test]
    fn one_or_many_texts_or_objects() {
        for (documents, texts) in [
            (r#""a""#, &["a"][..]),
            (r#"{"text": "a", "title": "t"}"#, &["a"]),
            (r#"["a", {"text": "b"}]"#, &["a", "b"]),
            ("[]", &[]),
        ] {
            let body = parse::<Body>(format!(r#"{{"documents": {documents}}}"#).as_bytes()).unwrap().value;
            assert_eq!(body.documents.into_texts().into_vec(), texts, "{documents}");
        }
        for (documents, error) in [
            ("5", "`documents`: invalid type: integer `5`, expected a document or a list of documents"),
            (
                r#"["a", 5]"#,
                "`documents[1]`: invalid type: integer `5`, expected a string or an object with the field `text`",
            ),
            (r#"[{"title": "b"}]"#, "`documents[0].text`: missing field"),
            (r#"[{"image": "b"}]"#, "`documents[0].image`: not supported"),
            (r#"["a", {"text": "a", "image": "b"}]"#, "`documents[1].image`: not supported"),
        ] {
            let found = parse::<Body>(format!(r#"{{"documents": {documents}}}"#).as_bytes()).unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
