//! Templates of texts with placeholders for the fields of a line, such as `query: {query} passage: {text}`.

use std::fmt;

/// Prompt with placeholders `{name}`: a letter or underscore, then letters, digits and underscores.
///
/// Other braces are literal, so that prompts may contain JSON. Values are inserted unchanged and never searched for
/// placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Field(String),
}

/// The line lacks a field that the template uses.
#[derive(Debug, PartialEq, Eq)]
pub struct MissingField(pub String);

impl fmt::Display for MissingField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the template's {{{}}} is not a field of the line", self.0)
    }
}

impl std::error::Error for MissingField {}

impl Template {
    /// Parses a template; every text is valid.
    pub fn new(text: &str) -> Self {
        Self::with_fields(text, |_| true)
    }

    /// Parses a template with placeholders for known fields only; other names in braces are literal.
    pub fn with_fields(text: &str, is_field: impl Fn(&str) -> bool) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find('{') {
            let after = &rest[brace + 1..];
            match after.find('}').map(|end| &after[..end]).filter(|name| is_name(name) && is_field(name)) {
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

    /// True if the template has the placeholder `{name}`.
    pub fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Segment::Field(field) if field == name))
    }

    /// The text with each placeholder replaced by `field(name)`.
    pub fn render<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> Result<String, MissingField> {
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

/// A flag's text with its escapes `\n`, `\t` and `\\` replaced. Other backslashes are literal.
pub fn unescape(flag: &str) -> String {
    let mut text = String::with_capacity(flag.len());
    let mut characters = flag.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('\\') | None => text.push('\\'),
            Some(other) => text.extend(['\\', other]),
        }
    }
    text
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
    fn unknown_fields_are_literal_where_the_fields_are_known() {
        let template = Template::with_fields("{a}{text}{{text}}", |name| name == "text");
        assert_eq!(template.render(|_| Some("t")).unwrap(), "{a}t{t}");
        assert!(template.has("text") && !template.has("a"));
    }

    #[test]
    fn escapes_are_replaced() {
        assert_eq!(unescape(r"a\nb\tc\\n\d\"), "a\nb\tc\\n\\d\\");
    }
}
