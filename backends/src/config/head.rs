//! The head of a sequence classifier.

use prefold_core::Pooling;
use prefold_kernels::Activation;

/// The layers between the states of a sequence and its logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClassifierHead {
    pub(crate) pooling: Pooling,
    /// A decoder's padding token. As in transformers, the last other token is pooled, even if a text itself ends with
    /// padding tokens.
    pub(crate) padding: Option<u32>,
    /// A field of the config whose value must be `hidden_size`.
    pub(crate) width: Option<&'static str>,
    /// `layers` are applied to the state of each token, and the logits are pooled instead of the states.
    pub(crate) late: bool,
    /// All layers have a bias.
    pub(crate) biased: bool,
    /// The activation in the config, which replaces each [`HeadActivation::Of`].
    pub(crate) activation: Option<Activation>,
    /// The layers of a sequence classifier. The last one has a row for each label, the others as many rows as a state has values.
    pub(crate) layers: &'static [HeadName],
    /// The layers of a token classifier; empty if the family has none.
    pub(crate) of_tokens: &'static [HeadName],
}

impl ClassifierHead {
    /// The tensor that marks the file of a classifier.
    pub(crate) fn weight(&self) -> String {
        self.layers.last().map_or_else(String::new, |last| format!("{}.weight", last.name))
    }

    /// `true` if a layer has a bias.
    pub(crate) fn has_bias(&self, layer: &HeadName) -> bool {
        self.biased || layer.bias
    }

    /// The activation of a layer.
    pub(crate) fn activation_of(&self, layer: &HeadName) -> HeadActivation {
        match layer.activation {
            HeadActivation::Of(own) => HeadActivation::Of(self.activation.unwrap_or(own)),
            fixed => fixed,
        }
    }
}

/// A layer of a head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeadName {
    /// Name of the tensors, without `.weight` and `.bias`.
    pub(crate) name: &'static str,
    pub(crate) bias: bool,
    pub(crate) activation: HeadActivation,
    /// Name of the LayerNorm after the activation, without `.weight`; empty for none. It has a bias if the model's norms have one.
    pub(crate) norm: &'static str,
}

impl HeadName {
    /// A layer with a bias.
    pub(crate) const fn biased(name: &'static str, activation: HeadActivation) -> Self {
        Self { name, bias: true, activation, norm: "" }
    }
}

/// Activation after a layer of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadActivation {
    Identity,
    Tanh,
    Of(Activation),
}

/// The head of Llama and the families derived from it.
pub(crate) const DECODER_HEAD: ClassifierHead = ClassifierHead {
    pooling: Pooling::LastToken,
    padding: None,
    width: None,
    late: false,
    biased: false,
    activation: None,
    layers: &[HeadName { name: "score", bias: false, activation: HeadActivation::Identity, norm: "" }],
    of_tokens: &[],
};

/// The layer of most token classifiers.
const OF_TOKENS: &[HeadName] = &[HeadName::biased("classifier", HeadActivation::Identity)];

/// A head on the state of the first token.
const fn on_first_token(layers: &'static [HeadName]) -> ClassifierHead {
    ClassifierHead {
        pooling: Pooling::Cls,
        padding: None,
        width: None,
        late: false,
        biased: false,
        activation: None,
        layers,
        of_tokens: OF_TOKENS,
    }
}

/// BERT's.
pub(crate) const BERT_HEAD: ClassifierHead = on_first_token(&[
    HeadName::biased("bert.pooler.dense", HeadActivation::Tanh),
    HeadName::biased("classifier", HeadActivation::Identity),
]);

/// RoBERTa's, which MPNet shares.
pub(crate) const ROBERTA_HEAD: ClassifierHead = on_first_token(&[
    HeadName::biased("classifier.dense", HeadActivation::Tanh),
    HeadName::biased("classifier.out_proj", HeadActivation::Identity),
]);

/// DeBERTa's.
pub(crate) const DEBERTA_HEAD: ClassifierHead = ClassifierHead {
    width: Some("pooler_hidden_size"),
    ..on_first_token(&[
        HeadName::biased("pooler.dense", HeadActivation::Of(Activation::Gelu)),
        HeadName::biased("classifier", HeadActivation::Identity),
    ])
};

/// DistilBERT's.
pub(crate) const DISTILBERT_HEAD: ClassifierHead = on_first_token(&[
    HeadName::biased("pre_classifier", HeadActivation::Of(Activation::Relu)),
    HeadName::biased("classifier", HeadActivation::Identity),
]);

/// ELECTRA's.
pub(crate) const ELECTRA_HEAD: ClassifierHead = on_first_token(&[
    HeadName::biased("classifier.dense", HeadActivation::Of(Activation::Gelu)),
    HeadName::biased("classifier.out_proj", HeadActivation::Identity),
]);

const MODERNBERT_LAYERS: &[HeadName] = &[
    HeadName { name: "head.dense", bias: false, activation: HeadActivation::Of(Activation::Gelu), norm: "head.norm" },
    HeadName::biased("classifier", HeadActivation::Identity),
];

/// ModernBERT's; its config sets pooling, activation and biases.
pub(crate) const MODERNBERT_HEAD: ClassifierHead =
    ClassifierHead { of_tokens: MODERNBERT_LAYERS, ..on_first_token(MODERNBERT_LAYERS) };

/// EuroBERT's; its config sets the pooling.
pub(crate) const EUROBERT_HEAD: ClassifierHead = ClassifierHead {
    pooling: Pooling::Mean,
    late: true,
    ..on_first_token(&[
        HeadName::biased("dense", HeadActivation::Of(Activation::Gelu)),
        HeadName::biased("classifier", HeadActivation::Identity),
    ])
};

/// The head of `new` and `gte`.
pub(crate) const GTE_HEAD: ClassifierHead = on_first_token(&[
    HeadName::biased("new.pooler.dense", HeadActivation::Tanh),
    HeadName::biased("classifier", HeadActivation::Identity),
]);
