//! Rerank recipe of a causal language model: its prompt and the tokens whose logits are the score.

use super::template::RerankTemplate;
use serde::Deserialize;

/// Built-in recipes by name. Sources: the model card of Qwen3-Reranker, and `mxbai_rerank_v2.py` of mixedbread-ai/mxbai-rerank.
const BUILTIN: [(&str, &str); 2] = [
    ("qwen3-reranker", include_str!("../../recipes/qwen3-reranker.json")),
    ("mxbai-rerank-v2", include_str!("../../recipes/mxbai-rerank-v2.json")),
];

/// Prompt, and the tokens whose logits at its end give the score.
///
/// With `negative` the raw score is the difference of the two logits, whose sigmoid is the softmax over the two; without it,
/// the logit of `positive`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerankRecipe {
    /// Text of the token for "relevant".
    pub positive: String,
    /// Text of the token for "not relevant".
    #[serde(default)]
    pub negative: Option<String>,
    /// The prompt.
    pub template: RerankTemplate,
}

impl RerankRecipe {
    /// Name of the recipe for Qwen3-Reranker.
    pub const QWEN3: &'static str = "qwen3-reranker";

    /// Names of the built-in recipes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// Built-in recipe of this name.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn builtin(name: &str) -> Result<Self, String> {
        match BUILTIN.iter().find(|(known, _)| *known == name) {
            Some((_, json)) => Self::from_json(json),
            None => {
                let known: Vec<_> = Self::names().collect();
                Err(format!("there is no rerank recipe `{name}` ({})", known.join(", ")))
            }
        }
    }

    /// Recipe from the content of a JSON file.
    ///
    /// # Errors
    /// A sentence that describes the fault.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let recipe: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        recipe.template.check()?;
        Ok(recipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_that_comes_along_is_sound() {
        for name in RerankRecipe::names() {
            assert!(RerankRecipe::builtin(name).is_ok(), "{name}: {:?}", RerankRecipe::builtin(name));
        }
        assert!(RerankRecipe::names().any(|name| name == RerankRecipe::QWEN3));
        let problem = RerankRecipe::builtin("nothing").unwrap_err();
        assert!(problem.contains("qwen3-reranker, mxbai-rerank-v2"), "{problem}");
    }

    #[test]
    fn mxbai_prompts_are_those_of_its_library() {
        let RerankRecipe { positive, negative, template } = RerankRecipe::builtin("mxbai-rerank-v2").unwrap();
        assert_eq!((positive.as_str(), negative.as_deref()), ("1", Some("0")));
        let prompt = |instruction| {
            let before = template.before(instruction, "why?").concat();
            [before, template.head(instruction, "why?"), "because".to_owned(), template.after.concat()].concat()
        };
        let whole = prompt(None);
        assert!(whole.contains("<|im_start|>user\nquery: why?\ndocument: because\nYou are a search"), "{whole}");
        assert!(whole.ends_with("\nRelevance:<|im_end|>\n<|im_start|>assistant\n"), "{whole}");
        assert!(prompt(Some("be strict")).contains("user\ninstruction: be strict\nquery: why?\ndocument: because\n"));
    }

    #[test]
    fn a_file_that_is_wrong_says_how() {
        for (json, words) in [
            ("{", "EOF"),
            (r#"{"positive": "yes"}"#, "template"),
            (r#"{"positive": "yes", "template": {"document": "x"}}"#, "must end with {document}"),
            (r#"{"positive": "yes", "template": {"document": "{query}{document}"}, "scale": 2}"#, "scale"),
        ] {
            let problem = RerankRecipe::from_json(json).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
