//! Prompt template of an LLM reranker.

use serde::Deserialize;

const INSTRUCTION: &str = "{instruction}";
const QUERY: &str = "{query}";
const DOCUMENT: &str = "{document}";

/// Pieces of a prompt, in order. Each is encoded separately, so that no token spans two pieces; the document's piece is encoded in
/// two parts where that gives the same tokens.
///
/// The documents of a request share everything before the document. Only the document is truncated.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerankTemplate {
    /// Pieces before the document's, with `{instruction}` and `{query}`.
    #[serde(default)]
    pub before: Vec<String>,
    /// Piece that ends with `{document}`; `{instruction}` and `{query}` may precede it.
    pub document: String,
    /// Fixed pieces after the document's.
    #[serde(default)]
    pub after: Vec<String>,
    /// Expansion of `{instruction}` if there is an instruction; otherwise `{instruction}` is empty.
    #[serde(default = "bare_instruction")]
    pub instruction: String,
    /// Instruction for requests without one.
    #[serde(default)]
    pub default_instruction: Option<String>,
}

fn bare_instruction() -> String {
    INSTRUCTION.to_owned()
}

impl RerankTemplate {
    /// Checks the positions of the placeholders.
    ///
    /// # Errors
    /// A sentence that describes the fault.
    pub fn check(&self) -> Result<(), String> {
        let Self { before, document, after, instruction, .. } = self;
        let Some(label) = document.strip_suffix(DOCUMENT) else {
            return Err(format!("`document` must end with {DOCUMENT}, it is {document:?}"));
        };
        if before.iter().map(String::as_str).chain([label]).any(|piece| piece.contains(DOCUMENT)) {
            return Err(format!("{DOCUMENT} must occur once, at the end of `document`"));
        }
        if !before.iter().map(String::as_str).chain([label]).any(|piece| piece.contains(QUERY)) {
            return Err(format!("{QUERY} must occur in `before` or in `document`"));
        }
        let variable = |piece: &&String| [INSTRUCTION, QUERY, DOCUMENT].iter().any(|name| piece.contains(name));
        if let Some(piece) = after.iter().find(variable) {
            return Err(format!("`after` must be fixed texts without placeholders, it has {piece:?}"));
        }
        if !instruction.contains(INSTRUCTION) || instruction.contains(QUERY) || instruction.contains(DOCUMENT) {
            return Err(format!(
                "`instruction` must contain {INSTRUCTION} and nothing else in braces: {instruction:?}"
            ));
        }
        Ok(())
    }

    /// `true` if an instruction changes the prompt.
    pub fn takes_instruction(&self) -> bool {
        self.before.iter().chain([&self.document]).any(|piece| piece.contains(INSTRUCTION))
    }

    /// Pieces of `before` with an instruction and a query.
    pub fn before(&self, instruction: Option<&str>, query: &str) -> Vec<String> {
        let instruction = self.instruction(instruction);
        self.before.iter().map(|piece| fill(piece, &[(INSTRUCTION, &instruction), (QUERY, query)])).collect()
    }

    /// Text before the document in its piece.
    pub fn head(&self, instruction: Option<&str>, query: &str) -> String {
        let instruction = self.instruction(instruction);
        fill(self.label(), &[(INSTRUCTION, &instruction), (QUERY, query)])
    }

    /// Fixed text directly before the document.
    pub(crate) fn fixed_label(&self) -> &str {
        let label = self.label();
        let end_of = |name: &str| label.rfind(name).map_or(0, |start| start + name.len());
        &label[end_of(INSTRUCTION).max(end_of(QUERY))..]
    }

    fn label(&self) -> &str {
        self.document.strip_suffix(DOCUMENT).unwrap_or(&self.document)
    }

    fn instruction(&self, instruction: Option<&str>) -> String {
        let instruction = instruction.or(self.default_instruction.as_deref()).filter(|text| !text.is_empty());
        instruction.map_or_else(String::new, |text| fill(&self.instruction, &[(INSTRUCTION, text)]))
    }
}

/// Replaces placeholders. Inserted text is not searched again: a query may contain anything.
fn fill(piece: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(piece.len());
    let mut rest = piece;
    while let Some(brace) = rest.find('{') {
        out.push_str(&rest[..brace]);
        rest = &rest[brace..];
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                out.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(document: &str) -> RerankTemplate {
        RerankTemplate {
            before: vec![],
            document: document.to_owned(),
            after: vec![],
            instruction: bare_instruction(),
            default_instruction: None,
        }
    }

    #[test]
    fn placeholders_are_filled_once() {
        let template = template("{instruction}{x}{query} {{query}} {document}");
        let head = template.head(Some("{query}"), "{document}{instruction}");
        assert_eq!(head, "{query}{x}{document}{instruction} {{document}{instruction}} ");
        assert_eq!(template.head(None, "q"), "{x}q {q} ");
    }

    #[test]
    fn an_instruction_brings_its_own_words() {
        let mut template = RerankTemplate {
            before: vec!["a".to_owned(), "{instruction}query: {query}".to_owned()],
            instruction: "instruction: {instruction}\n".to_owned(),
            ..template("document: {document}")
        };
        assert_eq!(template.before(Some("i"), "q"), ["a", "instruction: i\nquery: q"]);
        assert_eq!(template.before(None, "q"), ["a", "query: q"]);
        template.default_instruction = Some("d".to_owned());
        assert_eq!(template.before(None, "q")[1], "instruction: d\nquery: q");
        assert_eq!(template.before(Some(""), "q")[1], "query: q", "an empty instruction is none");
    }

    #[test]
    fn the_fixed_label_ends_at_the_last_placeholder() {
        for (document, label) in [
            ("A: {query} B: {document}", " B: "),
            ("{query}{document}", ""),
            ("{query} {instruction}: {document}", ": "),
            ("document: {document}", "document: "),
        ] {
            assert_eq!(template(document).fixed_label(), label);
        }
    }

    #[test]
    fn misplaced_placeholders_are_refused() {
        assert_eq!(template("{query}{document}").check(), Ok(()));
        for (template, words) in [
            (template("{query}{document}."), "must end with {document}"),
            (template("{document}{query}{document}"), "must occur once"),
            (template("{document}"), "{query} must occur"),
            (RerankTemplate { after: vec!["{query}".to_owned()], ..template("{query}{document}") }, "fixed texts"),
            (RerankTemplate { instruction: "x".to_owned(), ..template("{query}{document}") }, "must contain"),
        ] {
            let problem = template.check().unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
