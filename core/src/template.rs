//! The prompt of a yes/no reranker, as data.

/// `prefix`, then instruction, query and document each after its label, then `suffix`.
///
/// The order keeps what a request's documents share in front: all of them share the whole prefix up
/// to the document. `prefix` and `suffix` must end and begin where the tokenizer splits in any case
/// (a line feed before fixed text, a special token), so that their ids can be computed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RerankTemplate {
    /// Everything before the body.
    pub prefix: String,
    /// Before the instruction.
    pub instruction_label: String,
    /// Between instruction and query.
    pub query_label: String,
    /// Between query and document.
    pub document_label: String,
    /// Everything after the document.
    pub suffix: String,
    /// Used when a request brings no instruction.
    pub default_instruction: String,
}

impl RerankTemplate {
    /// Qwen3-Reranker's prompt as its model card publishes it.
    pub fn qwen3() -> Self {
        Self {
            prefix: "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the \
                     Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
                .to_owned(),
            instruction_label: "<Instruct>: ".to_owned(),
            query_label: "\n<Query>: ".to_owned(),
            document_label: "\n<Document>: ".to_owned(),
            suffix: "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n".to_owned(),
            default_instruction: "Given a web search query, retrieve relevant passages that answer the query".to_owned(),
        }
    }

    /// What stands between `prefix` and the document.
    pub fn head(&self, instruction: Option<&str>, query: &str) -> String {
        let instruction = instruction.unwrap_or(&self.default_instruction);
        let Self { instruction_label, query_label, document_label, .. } = self;
        format!("{instruction_label}{instruction}{query_label}{query}{document_label}")
    }
}
