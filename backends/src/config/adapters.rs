//! LoRA adapters of a model: low-rank changes of its weights, selected by the request's task.

/// LoRA ([arXiv 2106.09685](https://arxiv.org/abs/2106.09685)): each adapter changes every linear layer from `W` to `W + scale * B A`, with
/// `rank` rows in `A` (`lora_a`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdaptersConfig {
    /// Names of the adapters, in the order of their weights.
    pub(crate) names: Vec<String>,
    pub(crate) tasks: Vec<AdapterTask>,
    /// Index of the adapter of texts without a task; `None` for no adapter.
    pub(crate) default: Option<usize>,
    /// The adapters change the word embeddings and the token type embeddings too.
    pub(crate) of_tables: bool,
    pub(crate) rank: usize,
    pub(crate) scale: f32,
}

/// A task, and the adapter of its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterTask {
    pub(crate) name: String,
    /// Index of the adapter.
    pub(crate) adapter: usize,
    pub(crate) instruction: Instruction,
}

/// Prompt of a task's texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// The text in the config; empty for none.
    Text(String),
    /// The model's prompt of this name.
    Prompt(&'static str),
    /// The model's default prompt.
    Default,
}

impl AdaptersConfig {
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Rows of `lora_a` of all adapters together.
    pub(crate) fn width(&self) -> usize {
        self.count() * self.rank
    }
}

/// Endings of the names of `lora_a` and `lora_b`, behind the name of the matrix without `.weight`.
pub(crate) const FIRST: &str = ".parametrizations.weight.0.lora_A";
pub(crate) const SECOND: &str = ".parametrizations.weight.0.lora_B";

/// Tensor name of `lora_a`, from the name of the matrix without `.weight`. Shape: `[adapters, rank, in]` for a linear layer,
/// `[adapters, rows, rank]` for embeddings.
pub(crate) fn first_factor(name: &str) -> String {
    format!("{name}{FIRST}")
}

/// Tensor name of `lora_b`. Shape: `[adapters, out, rank]` for a linear layer, `[adapters, rank, width]` for embeddings.
pub(crate) fn second_factor(name: &str) -> String {
    format!("{name}{SECOND}")
}

/// Tensor name of a matrix with adapters, in files with torch's parametrizations.
pub(crate) fn parametrized(name: &str) -> String {
    format!("{name}.parametrizations.weight.original")
}
