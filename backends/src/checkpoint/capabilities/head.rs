//! Description of a head: the computation between the final states and the outputs.

use crate::checkpoint::sentence_transformers::dense::VectorModule;
use prefold_core::Pooling;

/// Source of a head's layers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HeadSource {
    /// Pooling, whose modes' vectors are concatenated, then modules in order. The engine scales to unit length.
    Dense { pooling: Vec<Pooling>, modules: Vec<VectorModule>, routes: Routes },
    /// Rows of the output matrix for the negative and the positive token, or only the positive one, applied to the last token's state.
    TokenRows(Vec<RerankToken>),
    /// Head of a sequence classifier.
    Classifier { num_labels: usize },
    /// Head of a token classifier.
    TokenClassifier { num_labels: usize },
}

/// Further modules by task; empty in most models.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Routes {
    pub(crate) modules: Vec<Vec<VectorModule>>,
    /// Index in `modules` by task number, 0 being no task.
    pub(crate) of: Vec<usize>,
}

/// A token whose logit enters the score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RerankToken {
    pub(crate) text: String,
    pub(crate) id: u32,
}
