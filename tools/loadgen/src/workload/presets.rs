//! Templates by name, for `--preset`.

use prefold_tools::template::Template;

/// Names and texts of the templates.
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

/// Template of a preset.
///
/// # Errors
/// There is no such preset; the message lists them.
pub(crate) fn preset(name: &str) -> Result<Template, String> {
    match PRESETS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(Template::new(text)),
        None => {
            let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
            Err(format!("there is no such preset; there are {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_placeholders_and_others_are_listed() {
        for (name, _) in PRESETS {
            let template = preset(name).unwrap();
            assert!(["text", "passage"].iter().any(|field| template.has(field)), "{name}");
        }
        assert!(preset("nix").unwrap_err().contains("chat-embedding"));
    }
}
