//! Adapters of a model: low-rank changes of its weights, among which a request chooses.

/// Adapters as LoRA has them ([arXiv 2106.09685](https://arxiv.org/abs/2106.09685)): each changes the table of words, that of token types
/// and every matrix of the layers from `W` to `W + scale * B A`, with `A` of `rank` rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdaptersConfig {
    /// In the order of their weights.
    pub(crate) tasks: Vec<AdapterTask>,
    pub(crate) rank: usize,
    pub(crate) scale: f32,
}

/// The texts that an adapter is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterTask {
    pub(crate) name: String,
    /// Prompt of these texts; empty for none.
    pub(crate) instruction: String,
}

impl AdaptersConfig {
    pub(crate) fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Rows of the first factors of all adapters together.
    pub(crate) fn width(&self) -> usize {
        self.count() * self.rank
    }
}

/// Name of an adapter's first factor `A`, from the name of the matrix without `.weight`: of a product `[adapters, rank, in]`, of a table
/// `[adapters, rows, rank]`.
pub(crate) fn first_factor(name: &str) -> String {
    format!("{name}.parametrizations.weight.0.lora_A")
}

/// Name of an adapter's second factor `B`: of a product `[adapters, out, rank]`, of a table `[adapters, rank, width]`.
pub(crate) fn second_factor(name: &str) -> String {
    format!("{name}.parametrizations.weight.0.lora_B")
}

/// Name of a matrix that has adapters, in files of torch's parametrizations.
pub(crate) fn parametrized(name: &str) -> String {
    format!("{name}.parametrizations.weight.original")
}
