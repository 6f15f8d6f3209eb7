//! Families of encoders: the differences between them as rows of data.

use crate::config::{BERT_HEAD, ClassifierHead, DISTILBERT_HEAD, ELECTRA_HEAD, ROBERTA_HEAD, TensorNames, names};

/// One family.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// Prefix of `architectures`.
    pub(super) prefix: &'static str,
    pub(super) keys: &'static Keys,
    pub(super) positions: Positions,
    /// Inputs have token types.
    pub(super) token_types: bool,
    /// `embedding_size` may be another than `hidden_size`.
    pub(super) projected_embeddings: bool,
    /// Scores have biases by distance.
    pub(super) relative_bias: bool,
    /// Default of `layer_norm_eps`.
    pub(super) norm_eps: f64,
    pub(super) names: TensorNames,
    pub(super) classifier: ClassifierHead,
}

/// Names of the sizes in `config.json`.
pub(super) struct Keys {
    pub(super) hidden_size: &'static str,
    pub(super) num_layers: &'static str,
    pub(super) num_heads: &'static str,
    pub(super) intermediate_size: &'static str,
    pub(super) activation: &'static str,
}

/// The rows of the table of positions.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Positions {
    /// Row 0 is the first token's.
    FromZero,
    /// The row after that of the padding token, `pad_token_id`, is the first token's.
    AfterPadding,
    /// The same with 1, whatever the config says.
    AfterOne,
}

const USUAL: Keys = Keys {
    hidden_size: "hidden_size",
    num_layers: "num_hidden_layers",
    num_heads: "num_attention_heads",
    intermediate_size: "intermediate_size",
    activation: "hidden_act",
};

const DISTILBERT_KEYS: Keys = Keys {
    hidden_size: "dim",
    num_layers: "n_layers",
    num_heads: "n_heads",
    intermediate_size: "hidden_dim",
    activation: "activation",
};

const BERT: Family = Family {
    model_type: "bert",
    prefix: "Bert",
    keys: &USUAL,
    positions: Positions::FromZero,
    token_types: true,
    projected_embeddings: false,
    relative_bias: false,
    norm_eps: 1e-12,
    names: names::BERT,
    classifier: BERT_HEAD,
};

const ROBERTA: Family = Family {
    model_type: "roberta",
    prefix: "Roberta",
    positions: Positions::AfterPadding,
    names: names::ROBERTA,
    classifier: ROBERTA_HEAD,
    ..BERT
};

pub(super) const FAMILIES: [Family; 7] = [
    BERT,
    ROBERTA,
    Family { model_type: "xlm-roberta", prefix: "XLMRoberta", ..ROBERTA },
    Family { model_type: "camembert", prefix: "Camembert", ..ROBERTA },
    Family {
        model_type: "mpnet",
        prefix: "MPNet",
        positions: Positions::AfterOne,
        token_types: false,
        relative_bias: true,
        names: names::MPNET,
        classifier: ROBERTA_HEAD,
        ..BERT
    },
    Family {
        model_type: "distilbert",
        prefix: "DistilBert",
        keys: &DISTILBERT_KEYS,
        token_types: false,
        names: names::DISTILBERT,
        classifier: DISTILBERT_HEAD,
        ..BERT
    },
    Family {
        model_type: "electra",
        prefix: "Electra",
        projected_embeddings: true,
        names: names::ELECTRA,
        classifier: ELECTRA_HEAD,
        ..BERT
    },
];

/// Suffixes of `architectures`.
pub(super) const HEADS: [&str; 4] = ["Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification"];
