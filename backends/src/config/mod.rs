//! Description of a transformer as data. Readers of file formats fill it in; the model is loaded and run by it.

pub(crate) mod adapters;
pub(crate) mod derived;
mod head;
pub(crate) mod names;
pub(crate) mod poolings;
mod positions;
mod rope;
pub(crate) mod tensors;

pub(crate) use adapters::{AdapterTask, AdaptersConfig, Instruction};
pub(crate) use head::{
    BERT_HEAD, ClassifierHead, DEBERTA_HEAD, DECODER_HEAD, DISTILBERT_HEAD, ELECTRA_HEAD, EUROBERT_HEAD, GTE_HEAD,
    HeadActivation, HeadName, MODERNBERT_HEAD, ROBERTA_HEAD,
};
pub(crate) use names::TensorNames;
pub(crate) use positions::{
    DisentangledConfig, DistanceBias, LearnedPositions, PositionsConfig, QueryGrowth, RelativeBuckets, RotaryConfig,
    alibi_slopes,
};
pub(crate) use rope::{RopeConfig, RopeScaling, Yarn};

use crate::error::LoadError;
use prefold_core::Folding;
use prefold_kernels::Activation;
use std::ops::Range;

/// Maximum labels of a classifier, far above any real one.
pub(crate) const MAX_LABELS: usize = 1 << 16;

/// All settings of a transformer's computation. Readers refuse a checkpoint with settings that this type cannot express.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransformerConfig {
    /// Name of the family, for display.
    pub(crate) model_type: String,
    /// Rows of the word embeddings; 0 for static embeddings whose number of rows is not yet known.
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    /// Width of the final states; if it differs from `hidden_size`, a projection follows the last norm.
    pub(crate) output_size: usize,
    pub(crate) num_layers: usize,
    pub(crate) norm: NormConfig,
    pub(crate) embeddings: EmbeddingsConfig,
    pub(crate) attention: AttentionConfig,
    pub(crate) feed_forward: FeedForwardConfig,
    pub(crate) positions: PositionsConfig,
    /// Short convolutions, which some layers have instead of attention.
    pub(crate) convolutions: Option<ConvolutionConfig>,
    /// `true` for each layer with a short convolution; empty in models without. `[num_layers]`
    pub(crate) convolution_layers: Vec<bool>,
    /// A token sees tokens less than this many positions away; `None`: all that the mask allows. `[num_layers]`
    pub(crate) sliding_windows: Vec<Option<usize>>,
    /// The word embeddings are also the language model's head.
    pub(crate) tie_word_embeddings: bool,
    /// Bound of the language model's logits, `softcap * tanh(logit / softcap)`.
    pub(crate) logit_softcap: Option<f32>,
    /// Tokens of the longest input that the positions allow.
    pub(crate) max_position_embeddings: usize,
    pub(crate) names: TensorNames,
    /// The head of its sequence classifiers.
    pub(crate) classifier: ClassifierHead,
    /// LoRA adapters, selected by the request's task.
    pub(crate) adapters: Option<AdaptersConfig>,
}

/// Norms of all layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NormConfig {
    pub(crate) kind: NormKind,
    pub(crate) placement: NormPlacement,
    /// The first layer's attention has a norm, as in the other layers.
    pub(crate) first_attention: bool,
    pub(crate) eps: f32,
}

/// Kind of a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// RMSNorm with a weight.
    RmsNorm,
    /// RMSNorm with a weight plus 1.
    RmsNormPlusOne,
    /// LayerNorm with a weight and a bias.
    LayerNorm,
    /// LayerNorm with a weight.
    LayerNormNoBias,
}

/// Place of the norms of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormPlacement {
    /// Pre-norm: on the block's input, and once more after the last layer.
    Pre,
    /// Post-norm: on the sum of the block's input and output.
    Post,
    /// Sandwich norm: on the block's input and on its output before the sum, and once more after the last layer.
    PrePost,
}

/// Embeddings of a token, in addition to its word embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct EmbeddingsConfig {
    /// Width of the tables; if it differs from `hidden_size`, a projection follows.
    pub(crate) size: usize,
    /// Rows of the table of token types; 0 for none.
    pub(crate) token_types: usize,
    /// The sum is normalised.
    pub(crate) norm: bool,
    /// Factor on the sum.
    pub(crate) scale: f32,
}

/// Attention mask: the tokens that a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaskConfig {
    /// The token itself and those before it.
    Causal,
    /// All tokens of the sequence.
    Full,
}

impl MaskConfig {
    /// Folding that the mask allows.
    pub(crate) fn folding(self) -> Folding {
        match self {
            Self::Causal => Folding::Prefix,
            Self::Full => Folding::Whole,
        }
    }
}

/// Attention block of all layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AttentionConfig {
    pub(crate) num_heads: usize,
    pub(crate) num_kv_heads: usize,
    pub(crate) head_dim: usize,
    /// The q, k and v projections have biases.
    pub(crate) qkv_bias: bool,
    /// The output projection has a bias.
    pub(crate) output_bias: bool,
    /// Queries and keys are normalised per head before rotation.
    pub(crate) qk_norm: bool,
    /// Queries and keys are each normalised over all heads together, by the model's kind of norm.
    pub(crate) qk_width_norm: bool,
    /// Factor on the scores; `None` for `1 / sqrt(head_dim)`.
    pub(crate) scale: Option<f32>,
    pub(crate) mask: MaskConfig,
    /// Bound of the scores, `softcap * tanh(score / softcap)`.
    pub(crate) softcap: Option<f32>,
    /// Biases of the scores.
    pub(crate) distance_bias: Option<DistanceBias>,
}

impl AttentionConfig {
    /// Width of all query heads.
    pub(crate) fn q_width(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Width of all key heads, and of all value heads.
    pub(crate) fn kv_width(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }
}

/// Short convolutions: each channel alone is mixed over neighbouring tokens, between two gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConvolutionConfig {
    /// Neighbours of a token, itself included.
    pub(crate) kernel: usize,
    /// The convolution and the projections around it have biases.
    pub(crate) bias: bool,
}

impl ConvolutionConfig {
    /// The neighbours of a token, by their distance from it: with a causal mask itself and those before it, otherwise those around it.
    pub(crate) fn offsets(self, mask: MaskConfig) -> Range<isize> {
        let first = -(self.own(mask) as isize);
        first..first + self.kernel as isize
    }

    /// The neighbour that is the token itself.
    pub(crate) fn own(self, mask: MaskConfig) -> usize {
        match mask {
            MaskConfig::Causal => self.kernel - 1,
            MaskConfig::Full => self.kernel / 2,
        }
    }
}

/// Feed-forward block of all layers: up and down projections, with a gate or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FeedForwardConfig {
    pub(crate) intermediate_size: usize,
    /// The up projection and the gate have biases.
    pub(crate) input_bias: bool,
    /// The down projection has a bias.
    pub(crate) output_bias: bool,
    /// The activation is applied to a gate, which is multiplied with the up projection. Without a gate it is applied to the up
    /// projection.
    pub(crate) ffn_glu: bool,
    pub(crate) activation: Activation,
    /// Experts, which replace the block in some layers.
    pub(crate) experts: Option<ExpertsConfig>,
}

/// Experts: plain feed-forward blocks without biases. A row gets the sum of the outputs of its best experts, weighted by a softmax over
/// all, and one shared bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpertsConfig {
    pub(crate) num_experts: usize,
    /// Experts of a row.
    pub(crate) top_k: usize,
    /// Of each group of this many layers, the second has experts.
    pub(crate) every_n_layers: usize,
}

impl TransformerConfig {
    /// The short convolution of a layer, if it has one instead of attention.
    pub(crate) fn convolution(&self, layer: usize) -> Option<ConvolutionConfig> {
        self.convolutions.filter(|_| self.convolution_layers.get(layer) == Some(&true))
    }

    /// The experts of a layer.
    pub(crate) fn experts(&self, layer: usize) -> Option<ExpertsConfig> {
        self.feed_forward.experts.filter(|experts| layer % experts.every_n_layers == 1)
    }

    /// `true` for static embeddings: no layers, and the mean of the word embeddings is a text's embedding.
    pub(crate) fn is_table(&self) -> bool {
        self.num_layers == 0
    }

    /// `true` if attention has two norms: of its input or of the last sum, and another one of its output or of an inner sum.
    pub(crate) fn has_attention_output_norm(&self) -> bool {
        match self.norm.placement {
            NormPlacement::Pre => false,
            NormPlacement::Post => !self.names.attention_output_norm.is_empty(),
            NormPlacement::PrePost => true,
        }
    }

    /// `true` for a causal language model: its head predicts the next token from those before it. Encoders have no head of this kind, and
    /// a decoder trained without the mask predicts nothing any more. Whether the files contain the head is another question.
    pub(crate) fn is_language_model(&self) -> bool {
        self.attention.mask == MaskConfig::Causal
    }

    /// A weight whose stored type represents all: the first layer's first projection, or the word embeddings of a model without layers.
    pub(crate) fn typical_weight(&self) -> String {
        if self.is_table() {
            return format!("{}.weight", self.names.words);
        }
        match self.convolution(0) {
            None => self.names.first_projection(),
            Some(_) => format!("{}{}.weight", self.names.layer(0), self.names.convolution_input),
        }
    }

    /// The keys that a token sees, for display.
    pub(crate) fn attention_name(&self) -> &'static str {
        if self.is_table() {
            return "no";
        }
        match (self.attention.mask, self.sliding_windows.iter().any(Option::is_some)) {
            (MaskConfig::Causal, false) => "causal",
            (MaskConfig::Causal, true) => "causal, windowed",
            (MaskConfig::Full, false) => "full",
            (MaskConfig::Full, true) => "full, windowed",
        }
    }

    /// Checks that the sizes are possible and fit each other.
    ///
    /// # Errors
    /// A size is impossible; the error names `file`.
    pub(crate) fn validate(&self, file: &str) -> Result<(), LoadError> {
        // Limits far above any model, but so low that the product of any three is below 2^63.
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 18),
            ("the width of the final states", self.output_size, 1 << 18),
            ("intermediate_size", self.feed_forward.intermediate_size, 1 << 20),
            ("num_hidden_layers", self.num_layers, 1 << 12),
            ("num_attention_heads", self.attention.num_heads, 1 << 12),
            ("num_key_value_heads", self.attention.num_kv_heads, 1 << 12),
            ("head_dim", self.attention.head_dim, 1 << 12),
            ("max_position_embeddings", self.max_position_embeddings, 1 << 31),
            ("embedding_size", self.embeddings.size, 1 << 18),
            ("type_vocab_size", self.embeddings.token_types + 1, 1 << 16),
        ];
        for (name, value, limit) in sizes {
            if value == 0 || value > limit {
                return Err(LoadError::invalid(file, format!("`{name}` must be from 1 to {limit}, it is {value}")));
            }
        }
        if !self.attention.num_heads.is_multiple_of(self.attention.num_kv_heads) {
            let (heads, kv_heads) = (self.attention.num_heads, self.attention.num_kv_heads);
            let problem =
                format!("`num_attention_heads` ({heads}) must be a multiple of `num_key_value_heads` ({kv_heads})");
            return Err(LoadError::invalid(file, problem));
        }
        let is_rotary = matches!(self.positions, PositionsConfig::Rotary(_));
        if is_rotary && !self.attention.head_dim.is_multiple_of(2) {
            return Err(LoadError::invalid(
                file,
                format!(
                    "`head_dim` must be even, it is {} (without that field, `hidden_size` / `num_attention_heads`)",
                    self.attention.head_dim
                ),
            ));
        }
        if !(self.norm.eps > 0.0 && self.norm.eps < 1.0) {
            let name = match self.norm.kind {
                NormKind::RmsNorm | NormKind::RmsNormPlusOne => "rms_norm_eps",
                NormKind::LayerNorm | NormKind::LayerNormNoBias => "layer_norm_eps",
            };
            let problem = format!("`{name}` must be between 0 and 1, it is {}", self.norm.eps);
            return Err(LoadError::invalid(file, problem));
        }
        Ok(())
    }
}
