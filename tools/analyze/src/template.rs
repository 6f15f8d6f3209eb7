//! Template of the analysed texts.

use prefold_tools::template::{Template, unescape};
use std::str::FromStr;

/// Placeholders of the text. `passage` is the placeholder of `prefold bench` for the text of a rerank request.
const TEXT: [&str; 2] = ["text", "passage"];
const QUERY: &str = "query";

/// Template with the placeholders of a text and its query.
#[derive(Debug, Clone)]
pub(crate) struct TextTemplate(Template);

impl FromStr for TextTemplate {
    type Err = &'static str;

    fn from_str(flag: &str) -> Result<Self, Self::Err> {
        let template = Template::with_fields(&unescape(flag), |name| TEXT.contains(&name) || name == QUERY);
        if TEXT.iter().any(|name| template.has(name)) { Ok(Self(template)) } else { Err("must contain {text}") }
    }
}

impl TextTemplate {
    /// The template with its placeholders filled.
    ///
    /// # Errors
    /// The template has a query and the text has none.
    pub(crate) fn fill(&self, query: Option<&str>, text: &str) -> Result<String, String> {
        let field = |name: &str| if name == QUERY { query } else { Some(text) };
        self.0.render(field).map_err(|_| format!("has no query, but the template contains {{{QUERY}}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let template: TextTemplate = r"{a}\n{query} {text}{passage}".parse().unwrap();
        assert_eq!(template.fill(Some("q{text}"), "t").unwrap(), "{a}\nq{text} tt");
        assert!(template.fill(None, "t").unwrap_err().contains("has no query"));
        assert_eq!("{text}".parse::<TextTemplate>().unwrap().fill(None, "t").unwrap(), "t");
        assert!("{query}".parse::<TextTemplate>().unwrap_err().contains("{text}"));
    }
}
