//! Prompt templates with placeholders for the fields of a workload line.

use std::fmt;

/// Named templates, for `--preset`.
const PRESETS: [(&str, &str); 4] = [
    ("text", "{text}"),
    // The embedding template of tests/workloads/README.md.
    (
        "chat-embedding",
        "<|im_start|>system\nYou are a helpful assistant specialized in embedding text for retrieval \
         tasks.<|im_end|>\n<|im_start|>user\n{query} embed the following sentences that is part of bing query dataset, \
         with target to help find relevant web documents. {passage}<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "qwen3-embedding",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:{text}",
    ),
    // Prompt of the Qwen3 rerankers, and of the pairs that arXiv 2601.15013 embeds in its end-to-end measurements
    // (benchmark/simple_msmarco_embed.py in github.com/michaelfeil/radix-mlp).
    (
        "qwen3-reranker",
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct \
         provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given \
         a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: \
         {passage}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
];

/// Prompt with placeholders `{name}`: a letter or underscore, then letters, digits and underscores.
///
/// Other braces are literal, so that prompts may contain JSON. Values are inserted unchanged and never searched for
/// placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Field(String),
}

/// The line lacks a field that the template uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingField(pub(crate) String);

impl fmt::Display for MissingField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the template's {{{}}} is not a field of the line", self.0)
    }
}

impl std::error::Error for MissingField {}

impl Template {
    /// Parses a template; every text is valid.
    pub(crate) fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find('{') {
            let after = &rest[brace + 1..];
            match after.find('}').map(|end| &after[..end]).filter(|name| is_name(name)) {
                Some(name) => {
                    literal.push_str(&rest[..brace]);
                    parts.push(Segment::Literal(std::mem::take(&mut literal)));
                    parts.push(Segment::Field(name.to_owned()));
                    rest = &after[name.len() + 1..];
                }
                None => {
                    literal.push_str(&rest[..=brace]);
                    rest = after;
                }
            }
        }
        literal.push_str(rest);
        parts.push(Segment::Literal(literal));
        parts.retain(|part| *part != Segment::Literal(String::new()));
        Self { parts }
    }

    /// Template from the command line, where `\n` is a line feed.
    pub(crate) fn from_flag(text: &str) -> Self {
        Self::new(&text.replace("\\n", "\n"))
    }

    /// Template of a preset, or an error that lists the presets.
    pub(crate) fn preset(name: &str) -> Result<Self, String> {
        match PRESETS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Ok(Self::new(text)),
            None => {
                let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
                Err(format!("there is no such preset; there are {}", names.join(", ")))
            }
        }
    }

    /// The text with each placeholder replaced by `field(name)`.
    pub(crate) fn render<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> Result<String, MissingField> {
        let mut text = String::new();
        for part in &self.parts {
            text.push_str(match part {
                Segment::Literal(literal) => literal,
                Segment::Field(name) => field(name).ok_or_else(|| MissingField(name.clone()))?,
            });
        }
        Ok(text)
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str) -> Result<String, MissingField> {
        Template::new(template).render(|name| match name {
            "query" => Some("why {passage}?"),
            "passage" => Some("because"),
            "_x1" => Some(""),
            _ => None,
        })
    }

    #[test]
    fn places_are_filled_once() {
        for (template, expected) in [
            ("", ""),
            ("no place", "no place"),
            ("{query}", "why {passage}?"),
            ("a {query}{passage} z", "a why {passage}?because z"),
            ("{_x1}|", "|"),
            ("ünï {passage} 🦀", "ünï because 🦀"),
        ] {
            assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn other_braces_stand_for_themselves() {
        for literal in ["{}", "{", "}", "{1}", "{a b}", r#"{"a": {"b": 1}}"#, "{{", "{ü}", "{no end"] {
            assert_eq!(render(literal).as_deref(), Ok(literal));
        }
        assert_eq!(render(r#"{"q": "{passage}"}"#).unwrap(), r#"{"q": "because"}"#);
        assert_eq!(render("{{passage}}").unwrap(), "{because}");
    }

    #[test]
    fn a_missing_field_is_named() {
        assert_eq!(render("{passage} {title}"), Err(MissingField("title".to_owned())));
        assert!(MissingField("title".to_owned()).to_string().contains("{title}"));
    }

    #[test]
    fn presets_have_places_and_others_are_listed() {
        for (name, _) in PRESETS {
            let template = Template::preset(name).unwrap();
            let places = template.parts.iter().filter(|part| matches!(part, Segment::Field(_))).count();
            assert!(places >= 1, "{name}");
        }
        assert!(Template::preset("nix").unwrap_err().contains("chat-embedding"));
    }
}
