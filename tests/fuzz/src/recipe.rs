//! Rerank recipes: the file given by `--rerank-recipe`, and its prompt.

use prefold_core::RerankRecipe;

/// Used as instruction and query; placeholders in it must stay literal.
const QUERY: &str = "{document}{query}{instruction}";

/// Target: a recipe is refused, or its prompt contains instruction, query and document.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(recipe) = RerankRecipe::from_json(text) else { return };
    let template = recipe.template;
    for instruction in [None, Some(""), Some(QUERY)] {
        let mut prompt = template.before(instruction, QUERY);
        assert_eq!(prompt.len(), template.before.len());
        prompt.push(template.head(instruction, QUERY));
        assert!(prompt.iter().any(|piece| piece.contains(QUERY)), "the query is not in {prompt:?}");
    }
}
