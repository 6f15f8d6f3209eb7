//! Description of a head: the computation between the final states and the outputs.

use super::st_modules::DenseModule;
use prefold_core::Pooling;

/// Source of a head's layers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HeadSource {
    /// Pooling, whose vectors follow one another where it has several modes, then dense layers in order. The engine scales to unit length, whatever `modules.json` says.
    Dense { pooling: Vec<Pooling>, modules: Vec<DenseModule>, routes: Routes },
    /// Rows of the output matrix at the last token: for the negative and the positive token, or the positive one alone.
    TokenRows(Vec<RerankToken>),
    /// The head of a sequence classifier.
    Classifier { num_labels: usize },
    /// The head of a classifier of tokens.
    TokenClassifier { num_labels: usize },
}

/// Dense layers behind the others for texts of different tasks; none in most models.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Routes {
    pub(crate) modules: Vec<Vec<DenseModule>>,
    /// Index of the route of texts by the number of their task, first that of texts without one.
    pub(crate) of: Vec<usize>,
}

/// A token whose logit enters the score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RerankToken {
    pub(crate) text: String,
    pub(crate) id: u32,
}
