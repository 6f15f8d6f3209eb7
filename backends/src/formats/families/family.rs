//! A family of models as a row of data: how its files are recognised, how they spell their settings, and how it computes.

use super::keys::Keys;
use crate::config::{ClassifierHead, MaskConfig, NormKind, NormPlacement, TensorNames};
use prefold_kernels::Activation;

/// One family.
pub(crate) struct Family {
    pub(crate) model_type: &'static str,
    /// The mark that distinguishes the family from others of its `model_type`.
    pub(crate) mark: Option<Mark>,
    /// Prefix of the names in `architectures`, and their suffixes.
    pub(crate) prefix: &'static str,
    pub(crate) suffixes: &'static [&'static str],
    /// Checkpoints bring Python code, which computes what this row says.
    pub(crate) own_code: bool,
    /// Fields of `config.json` that must have one value where they are present.
    pub(crate) musts: &'static [&'static Musts],
    /// The family's files in GGUF, where they can be read.
    pub(crate) gguf: Option<Gguf>,
    pub(crate) keys: &'static Keys,
    pub(crate) names: TensorNames,

    /// The mask, unless a field of `config.json` lifts a causal one.
    pub(crate) mask: MaskConfig,
    pub(crate) positions: Positions,
    /// The field that scales rotations of inputs longer than the model was trained on, by their length, and the field of that
    /// length. Scaled inputs are refused.
    pub(crate) scaled_beyond: Option<(&'static str, &'static str)>,
    /// Queries grow with their position (`llama_4_scaling_beta` in the parameters of RoPE).
    pub(crate) query_growth: bool,
    /// Default of the number of token types, where inputs have them.
    pub(crate) token_types: Option<usize>,
    /// `embedding_size` may be another than `hidden_size`.
    pub(crate) projected_embeddings: bool,
    /// Embeddings are multiplied by the root of `hidden_size`.
    pub(crate) scale_embeddings: bool,
    /// Kind of the norms; a LayerNorm may lack its bias.
    pub(crate) norm: NormKind,
    pub(crate) norm_placement: NormPlacement,
    /// The attention of the first layer has a norm.
    pub(crate) first_attention_norm: bool,
    /// Default of the norms' epsilon.
    pub(crate) norm_eps: f64,
    pub(crate) biases: Biases,
    /// Queries and keys are normalised per head.
    pub(crate) qk_norm: Rule,
    /// Queries, and keys, are normalised over all heads together.
    pub(crate) qk_width_norm: bool,
    /// Scores have learned biases by distance.
    pub(crate) relative_attention: Option<RelativeAttention>,
    /// Default of `head_dim`; if absent, `hidden_size / num_heads`.
    pub(crate) default_head_dim: Option<usize>,
    /// `num_kv_heads` may be missing and is then `num_heads`. Other families have a fixed default, which no real checkpoint relies
    /// on.
    pub(crate) optional_kv_heads: bool,
    /// Field by whose root scores are divided, instead of the root of `head_dim`.
    pub(crate) query_pre_attn_scalar: Option<&'static str>,
    /// Scores are the products of queries and keys, without a factor.
    pub(crate) unscaled_scores: bool,
    pub(crate) windows: Windows,
    /// Attention scores and the language model's logits are bounded (`attn_logit_softcapping`, `final_logit_softcapping`).
    pub(crate) softcaps: bool,
    pub(crate) activations: Activations,
    pub(crate) ffn_glu: FfnGlu,
    /// Short convolutions replace attention in the layers that `layer_types` or `full_attn_idxs` say.
    pub(crate) convolutions: bool,
    /// The width of the feed-forward block is rounded up from two thirds of the one in the file.
    pub(crate) adjusts_intermediate_size: bool,
    /// Experts, `num_experts` of them, replace the feed-forward block in some layers.
    pub(crate) experts: bool,
    /// LoRA adapters, which the checkpoint stores separately.
    pub(crate) adapters: Adapters,
    /// The width to which a linear layer projects the states after the last norm.
    pub(crate) output_projection: Option<Width>,
    /// The embedding matrix is the language model's head too.
    pub(crate) tie_word_embeddings: Rule,
    /// Head of the family's classifiers.
    pub(crate) classifier: ClassifierHead,
    /// The field of its pooling in models without a causal mask, in the spellings that files have, and the poolings that it may name.
    pub(crate) classifier_pooling: Option<(&'static [&'static str], &'static [&'static str])>,
    /// The field of its activation.
    pub(crate) classifier_activation: Option<&'static str>,
    /// The field that gives all of its layers a bias.
    pub(crate) classifier_bias: Option<&'static str>,
    /// transformers' class reads `use_bidirectional_attention`.
    pub(crate) bidirectional_field: bool,
}

/// LoRA adapters of a family, one for each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapters {
    None,
    /// `lora_adaptations` names them; they are among the model's tensors.
    Stacked,
    /// `task_names` names them; each is in a folder of its own, as peft writes it.
    Folders,
}

/// Source of a width in `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// The number of labels.
    Labels,
}

/// A mark that distinguishes a family from others of its `model_type`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mark {
    /// A field and its value.
    Field(&'static str, &'static str),
    /// The class that `AutoConfig` is in `auto_map`, without its module; `model_type` may be missing then.
    Config(&'static str),
    /// The class that `AutoModel` is in `auto_map`, with its module.
    Model(&'static str),
    /// One of `architectures`.
    Class(&'static str),
    /// A field that is false.
    Off(&'static str),
    /// The repository of the class of `AutoConfig`, in `auto_map` or in `_name_or_path`.
    Repository(&'static str),
}

/// The files of a family in GGUF.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gguf {
    /// `general.architecture`.
    pub(crate) architecture: &'static str,
    /// Tensors that distinguish this family from later families of its architecture.
    pub(crate) marks: &'static [&'static str],
    /// Converters reorder the rows of q and k for a rotation of neighbours (2i, 2i + 1).
    pub(crate) interleaved_rope: bool,
    /// Files may have the head of a classifier.
    pub(crate) classifier: bool,
    /// Files may have Dense modules of sentence-transformers.
    pub(crate) dense: bool,
    /// A linear scaling of RoPE applies to layers with a window too, as llama.cpp runs the files.
    pub(crate) scales_windows: bool,
    /// Parts that the converter leaves out, for a warning; empty for nothing that changes vectors.
    pub(crate) lost: &'static str,
}

impl Gguf {
    /// Files of an architecture of its own, without any of that.
    pub(super) const fn of(architecture: &'static str) -> Self {
        Self {
            architecture,
            marks: &[],
            interleaved_rope: false,
            classifier: false,
            dense: false,
            scales_windows: false,
            lost: "",
        }
    }
}

/// The value that a field must have where it is present.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Must {
    Bool(bool),
    /// The value, which must be there, because the class's default is the other one.
    Given(bool),
    /// False. The words say what is supported.
    False(&'static str),
    Number(f64),
    Text(&'static str),
    /// The value of another field, which is another spelling of the setting, where that is present too.
    As(&'static str),
    /// None: the field turns a feature on. The words say what is supported.
    Absent(&'static str),
}

/// Fields and their values.
pub(crate) type Musts = [(&'static str, Must)];

/// A field that must be false.
pub(super) const fn off(field: &'static str) -> (&'static str, Must) {
    (field, Must::Bool(false))
}

/// A field that must be absent or null.
pub(super) const fn absent(field: &'static str) -> (&'static str, Must) {
    (field, Must::Absent("null"))
}

/// Learned biases of scores by distance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelativeAttention {
    /// Field of the distance from which all distances share a bucket; `None` if the code has default buckets, whatever
    /// the config says.
    pub(crate) max_distance: Option<&'static str>,
    /// Each layer has biases of its own.
    pub(crate) per_layer: bool,
}

/// The presence of a bias or norm.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Fixed(bool),
    /// A field of `config.json` says so; its default. In GGUF the tensor decides.
    Field(&'static str, bool),
    /// Fixed for all models with a `config.json`. In GGUF the tensor decides.
    Tensor(bool),
}

/// Biases of linear layers and norms.
pub(crate) struct Biases {
    pub(crate) qkv: Rule,
    pub(crate) attention_output: Rule,
    pub(crate) feed_forward_input: Rule,
    pub(crate) feed_forward_output: Rule,
    pub(crate) norm: Rule,
}

impl Biases {
    pub(super) const ALL: Self = Self::attention_and_ffn(Rule::Fixed(true), Rule::Fixed(true));
    pub(super) const NONE: Self = Self::attention_and_ffn(Rule::Fixed(false), Rule::Fixed(false));

    /// Of both linear layers of attention and both of the feed-forward block; norms have theirs.
    pub(super) const fn attention_and_ffn(attention: Rule, feed_forward: Rule) -> Self {
        Self {
            qkv: attention,
            attention_output: attention,
            feed_forward_input: feed_forward,
            feed_forward_output: feed_forward,
            norm: Rule::Fixed(true),
        }
    }
}

/// The positions of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Positions {
    /// Learned; row 0 of the table is the first token's.
    FromZero,
    /// Learned; the first token has row `pad_token_id + 1`.
    AfterPadding,
    /// The same with 1, whatever the config says.
    AfterOne,
    Rotary(Rotary),
    /// None but the biases of scores by distance.
    Alibi,
    /// Relative position embeddings in the scores.
    Disentangled,
    /// None, except for learned biases of scores by distance, which allow inputs of any length.
    Relative,
    /// None.
    None,
}

/// The bases of rotary positions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rotary {
    /// One for all layers: its field outside of the object of the scaling, its default, the default of transformers' own class where that
    /// differs from the published code's (which reads no such object), and the kinds of scaling that the family knows.
    OneBase { key: &'static str, default: Option<f64>, own_default: Option<f64>, kinds: &'static [&'static str] },
    /// One for layers without a window and one for those with a window: fields and defaults. `rope_scaling` applies to the
    /// former alone with `scales_full_alone`, otherwise to both.
    TwoBases { full: (&'static str, f64), windowed: (&'static str, f64), scales_full_alone: bool },
}

/// No scaling of rotations.
pub(crate) const UNSCALED: &[&str] = &["default"];

/// Source of a family's sliding windows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Windows {
    Never,
    /// `sliding_window`, with a default, for the layers in `layer_types`; without types for all layers.
    AllLayers(usize),
    /// `sliding_window` for all layers, which have none without it.
    AllOrNone,
    /// `layer_types`, or with `use_sliding_window` the layers from `max_window_layers` on.
    SomeLayers,
    /// All layers but every so many, by `layer_types` or `sliding_window_pattern`; without a causal mask half of the window is on
    /// either side.
    Alternating,
    /// `sliding_window` in the layers that `layer_types` says, otherwise in the first and every second layer after it.
    EverySecond,
    /// `local_attention` tokens in all layers but every so many (`global_attn_every_n_layers`).
    Local,
}

/// The activations of the feed-forward block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Activations {
    /// The one that the config names; its default.
    Any(Activation),
    /// One, by its name.
    Only(&'static str, Activation),
}

/// The gate of the feed-forward block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FfnGlu {
    Never,
    /// A gate, and the activation that the config names.
    Always,
    /// A gate; the activation is named after the two (`swiglu`).
    ByName,
    /// A gate if `gated-` precedes the name of the activation; the default of both.
    ByPrefix(&'static str),
}
