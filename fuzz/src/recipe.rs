//! Rerank recipes: the file that `--rerank-recipe` names, and the prompt made of it.

use prefold_core::RerankRecipe;

/// Stands for an instruction and a query. Not looked through again once it is in the prompt.
const QUERY: &str = "{document}{query}{instruction}";

/// A recipe is refused, or its prompt holds what it should.
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
