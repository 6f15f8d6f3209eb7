//! Templates of texts, such as `query: {query} passage: {text}`.

use std::str::FromStr;

const TEXT: &str = "{text}";
/// Placeholder of `prefold bench` for the text of a rerank request.
const PASSAGE: &str = "{passage}";
const QUERY: &str = "{query}";

/// Fixed text around the placeholders of a text and its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Fixed(String),
    Query,
    Text,
}

impl FromStr for Template {
    type Err = String;

    /// `\n`, `\t` and `\\` are the usual escapes; braces other than the placeholders' are literal.
    fn from_str(s: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = s;
        while !rest.is_empty() {
            let next = [(TEXT, Segment::Text), (PASSAGE, Segment::Text), (QUERY, Segment::Query)].into_iter();
            let found =
                next.filter_map(|(name, part)| Some((rest.find(name)?, name, part))).min_by_key(|found| found.0);
            let Some((at, name, part)) = found else { break };
            parts.extend([Segment::Fixed(unescape(&rest[..at])), part]);
            rest = &rest[at + name.len()..];
        }
        parts.push(Segment::Fixed(unescape(rest)));
        if !parts.contains(&Segment::Text) {
            return Err(format!("must contain {TEXT}"));
        }
        Ok(Self { parts })
    }
}

impl Template {
    /// The template with its placeholders filled.
    ///
    /// # Errors
    /// The template has a query and the text has none.
    pub(crate) fn fill(&self, query: Option<&str>, text: &str) -> Result<String, String> {
        let parts = self.parts.iter().map(|part| match part {
            Segment::Fixed(fixed) => Ok(fixed.as_str()),
            Segment::Text => Ok(text),
            Segment::Query => query.ok_or_else(|| format!("has no query, but the template contains {QUERY}")),
        });
        parts.collect()
    }
}

fn unescape(s: &str) -> String {
    let mut text = String::with_capacity(s.len());
    let mut characters = s.chars();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_escapes_are_undone() {
        let template: Template = r"{a}\n{query} \\ {text}{passage}\d".parse().unwrap();
        assert_eq!(template.fill(Some("q{text}"), "t").unwrap(), "{a}\nq{text} \\ tt\\d");
        assert!(template.fill(None, "t").unwrap_err().contains("has no query"));
        assert_eq!("{text}".parse::<Template>().unwrap().fill(None, "t").unwrap(), "t");
        assert!("{query}".parse::<Template>().unwrap_err().contains("{text}"));
    }
}
