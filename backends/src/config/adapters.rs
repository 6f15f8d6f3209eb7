//! LoRA adapters of a model: low-rank changes of its weights, selected by the request's task.

/// LoRA ([arXiv 2106.09685](https://arxiv.org/abs/2106.09685)): each adapter changes the word embeddings, the token type embeddings and
/// every linear layer from `W` to `W + scale * B A`, with `rank` rows in `A` (`lora_a`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdaptersConfig {
    /// In the order of their weights.
    pub(crate) tasks: Vec<AdapterTask>,
    pub(crate) rank: usize,
    pub(crate) scale: f32,
}

/// The task of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterTask {
    pub(crate) name: String,
    /// Prompt of the task's texts; empty for none.
    pub(crate) instruction: String,
}

impl AdaptersConfig {
    pub(crate) fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Rows of `lora_a` of all adapters together.
    pub(crate) fn width(&self) -> usize {
        self.count() * self.rank
    }
}

/// Tensor name of `lora_a`, from the name of the matrix without `.weight`. Shape: `[adapters, rank, in]` for a linear layer,
/// `[adapters, rows, rank]` for embeddings.
pub(crate) fn first_factor(name: &str) -> String {
    format!("{name}.parametrizations.weight.0.lora_A")
}

/// Tensor name of `lora_b`. Shape: `[adapters, out, rank]` for a linear layer, `[adapters, rank, width]` for embeddings.
pub(crate) fn second_factor(name: &str) -> String {
    format!("{name}.parametrizations.weight.0.lora_B")
}

/// Tensor name of a matrix with adapters, in files with torch's parametrizations.
pub(crate) fn parametrized(name: &str) -> String {
    format!("{name}.parametrizations.weight.original")
}
