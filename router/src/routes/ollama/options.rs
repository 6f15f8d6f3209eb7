//! Fields that Ollama's requests have for other models than embedding models.

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use utoipa::ToSchema;

/// Options of the model. The others are about generation and hardware; the header `x-ignored-fields` names those that are set.
#[derive(Debug, Default, PartialEq, ToSchema)]
pub(super) struct OllamaOptions {
    /// Maximum tokens of an input, at most the model's limit, which applies if this is absent or not positive.
    num_ctx: Option<i64>,
}

impl OllamaOptions {
    /// Tokens of an input, if fewer than `limit`.
    pub(super) fn max_tokens(&self, limit: usize) -> Option<usize> {
        self.num_ctx.and_then(|tokens| usize::try_from(tokens).ok()).filter(|tokens| (1..limit).contains(tokens))
    }
}

impl<'de> Deserialize<'de> for OllamaOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OptionsVisitor)
    }
}

struct OptionsVisitor;

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = OllamaOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OllamaOptions, A::Error> {
        let mut options = OllamaOptions::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == "num_ctx" {
                options.num_ctx = map.next_value()?;
            } else {
                // Clients send null for options that are not set; a value is recorded as ignored by the deserializer.
                map.next_value::<Option<IgnoredAny>>()?;
            }
        }
        Ok(options)
    }
}

/// Time for which a model stays loaded, which is always here: a number of seconds, or a duration such as `5m`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a number of seconds or a duration such as \"5m\"")]
#[allow(dead_code, reason = "deserializing it checks it")]
pub(super) enum KeepAlive {
    Seconds(f64),
    Duration(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::{Parsed, parse};

    #[derive(Debug, Deserialize)]
    struct Body {
        options: Option<OllamaOptions>,
        #[allow(dead_code, reason = "deserializing it checks it")]
        keep_alive: Option<KeepAlive>,
    }

    #[test]
    fn options_that_are_set_and_not_read_are_named() {
        let body = br#"{"options": {"num_ctx": 9, "temperature": 0.5, "stop": null}, "keep_alive": "5m"}"#;
        let Parsed { value: Body { options, .. }, ignored: names, .. } = parse::<Body>(body).unwrap();
        assert_eq!(options, Some(OllamaOptions { num_ctx: Some(9) }));
        assert_eq!(names.first_refused(), Some("options.temperature"));
        let names =
            parse::<Body>(br#"{"options": {"stop": null, "num_ctx": null}, "keep_alive": -1}"#).unwrap().ignored;
        assert_eq!(names.first_refused(), None);
        for wrong in [r#"{"options": []}"#, r#"{"options": {"num_ctx": "a"}}"#, r#"{"keep_alive": []}"#] {
            assert!(parse::<Body>(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_context_shortens_inputs_only() {
        for (num_ctx, expected) in
            [(None, None), (Some(8), Some(8)), (Some(16), None), (Some(0), None), (Some(-1), None)]
        {
            assert_eq!(OllamaOptions { num_ctx }.max_tokens(16), expected, "{num_ctx:?}");
        }
    }
}
