//! Families of decoders: the differences between them as rows of data.

use super::encoders::{BERT, ENCODER_CLASSES};
use super::family::{
    Activations, Adapters, Biases, Family, FfnGlu, Gguf, Mark, Must, Musts, Positions, Rotary, Rule, Width, Windows,
    absent, off,
};
use super::keys::{DECODER_KEYS, GEMMA3_KEYS, LFM2_KEYS};
use crate::config::{DECODER_HEAD, EUROBERT_HEAD, MaskConfig, NormKind, NormPlacement, TensorNames, names, poolings};
use prefold_kernels::Activation;

/// Fields of `config.json` that no family here computes.
const MUSTS: &Musts = &[off("use_mrope"), off("use_qk_norm"), off("qk_layernorm")];
const NO_MLP_BIAS: &Musts = &[("mlp_bias", Must::False("llama only"))];

const ATTENTION_BIAS: Rule = Rule::Field("attention_bias", false);

/// Rotations of one base, with the scaling of transformers' decoders.
const fn rope_theta(default: Option<f64>) -> Positions {
    Positions::Rotary(Rotary::OneBase {
        key: "rope_theta",
        default,
        own_default: None,
        kinds: &["default", "linear", "llama3", "yarn", "dynamic"],
    })
}

const LLAMA: Family = Family {
    model_type: "llama",
    prefix: "Llama",
    suffixes: &["Model", "TextModel", "ForCausalLM", "ForSequenceClassification"],
    musts: &[MUSTS],
    keys: &DECODER_KEYS,
    names: names::DECODER,
    mask: MaskConfig::Causal,
    positions: rope_theta(Some(10_000.0)),
    token_types: None,
    norm: NormKind::RmsNorm,
    norm_placement: NormPlacement::Pre,
    norm_eps: 1e-6,
    biases: Biases::attention_and_ffn(ATTENTION_BIAS, Rule::Field("mlp_bias", false)),
    qk_norm: Rule::Tensor(false),
    optional_kv_heads: true,
    activations: Activations::Only("silu", Activation::Silu),
    ffn_glu: FfnGlu::Always,
    tie_word_embeddings: Rule::Field("tie_word_embeddings", false),
    classifier: DECODER_HEAD,
    classifier_pooling: Some((&["pooling"], poolings::OF_CONFIG)),
    ..BERT
};

const QWEN3: Family = Family {
    model_type: "qwen3",
    prefix: "Qwen3",
    musts: &[MUSTS, NO_MLP_BIAS],
    positions: rope_theta(None),
    biases: Biases::attention_and_ffn(ATTENTION_BIAS, Rule::Tensor(false)),
    qk_norm: Rule::Tensor(true),
    default_head_dim: Some(128),
    optional_kv_heads: false,
    windows: Windows::SomeLayers,
    ..LLAMA
};

const QWEN2: Family = Family {
    model_type: "qwen2",
    prefix: "Qwen2",
    biases: Biases { qkv: Rule::Tensor(true), ..Biases::attention_and_ffn(Rule::Tensor(false), Rule::Tensor(false)) },
    qk_norm: Rule::Tensor(false),
    default_head_dim: None,
    ..QWEN3
};

/// EmbeddingGemma is this without the mask.
pub(super) const GEMMA3: Family = Family {
    model_type: "gemma3_text",
    prefix: "Gemma3",
    bidirectional_field: true,
    musts: &[
        MUSTS,
        &[absent("attn_logit_softcapping"), absent("final_logit_softcapping")],
        NO_MLP_BIAS,
        // transformers 5 then masks as in neither of its two modes: `use_bidirectional_attention` is the field.
        &[("is_causal", Must::Bool(true))],
    ],
    keys: &GEMMA3_KEYS,
    names: names::GEMMA3,
    positions: Positions::Rotary(Rotary::TwoBases {
        full: ("rope_theta", 1_000_000.0),
        windowed: ("rope_local_base_freq", 10_000.0),
        scales_full_alone: true,
    }),
    scale_embeddings: true,
    norm: NormKind::RmsNormPlusOne,
    norm_placement: NormPlacement::PrePost,
    biases: Biases::attention_and_ffn(ATTENTION_BIAS, Rule::Fixed(false)),
    qk_norm: Rule::Fixed(true),
    default_head_dim: Some(256),
    optional_kv_heads: false,
    query_pre_attn_scalar: Some("query_pre_attn_scalar"),
    windows: Windows::Alternating,
    activations: Activations::Only("gelu_pytorch_tanh", Activation::GeluTanh),
    tie_word_embeddings: Rule::Field("tie_word_embeddings", true),
    ..LLAMA
};

/// A bound of the scores, windows in every second layer, one base of rotations and no norms of queries and keys.
const GEMMA2: Family = Family {
    model_type: "gemma2",
    prefix: "Gemma2",
    // The mask of the class does not depend on that field.
    musts: &[MUSTS, NO_MLP_BIAS, &[off("use_bidirectional_attention")]],
    positions: rope_theta(Some(10_000.0)),
    qk_norm: Rule::Fixed(false),
    windows: Windows::EverySecond,
    softcaps: true,
    ..GEMMA3
};

const MISTRAL: Family = Family {
    model_type: "mistral",
    prefix: "Mistral",
    musts: &[MUSTS, NO_MLP_BIAS, &[("attention_bias", Must::False("mistral has no biases"))]],
    positions: rope_theta(None),
    biases: Biases::NONE,
    optional_kv_heads: false,
    windows: Windows::AllLayers(4096),
    ..LLAMA
};

/// Mistral with queries that grow with their position.
const MINISTRAL3: Family = Family {
    model_type: "ministral3",
    prefix: "Ministral3",
    norm_eps: 1e-5,
    default_head_dim: Some(128),
    query_growth: true,
    windows: Windows::AllOrNone,
    ..MISTRAL
};

/// Short convolutions instead of attention in most layers.
const LFM2: Family = Family {
    model_type: "lfm2",
    prefix: "Lfm2",
    suffixes: &["Model", "ForCausalLM"],
    // Without a causal mask the convolutions would have to lose theirs too, which these fields do not say.
    musts: &[
        MUSTS,
        &[("is_causal", Must::Bool(true)), off("use_bidirectional_attention"), ("tie_embedding", Must::Bool(true))],
    ],
    keys: &LFM2_KEYS,
    names: names::LFM2,
    positions: rope_theta(Some(1_000_000.0)),
    norm_eps: 1e-5,
    biases: Biases::NONE,
    qk_norm: Rule::Fixed(true),
    optional_kv_heads: false,
    convolutions: true,
    adjusts_intermediate_size: true,
    tie_word_embeddings: Rule::Field("tie_word_embeddings", true),
    ..LLAMA
};

/// LFM2 as an encoder: attention and convolutions to both sides.
const LFM2_BIDIRECTIONAL: Family = Family {
    mark: Some(Mark::Model("modeling_lfm2_bidirectional.Lfm2BidirectionalModel")),
    suffixes: &["BidirectionalModel", "BidirectionalForMaskedLM"],
    own_code: true,
    mask: MaskConfig::Full,
    musts: &[MUSTS],
    ..LFM2
};

/// Llama without the mask, and with the classes and heads of an encoder.
const EUROBERT: Family = Family {
    model_type: "eurobert",
    prefix: "EuroBert",
    gguf: Some(Gguf::of("eurobert")),
    suffixes: ENCODER_CLASSES,
    own_code: true,
    mask: MaskConfig::Full,
    norm_eps: 1e-5,
    activations: Activations::Any(Activation::Silu),
    classifier: EUROBERT_HEAD,
    classifier_pooling: Some((&["classifier_pooling", "clf_pooling"], &["bos", "mean", poolings::LATE])),
    ..LLAMA
};

const JINA5_OF_EUROBERT: Family = Family {
    model_type: "jina_embeddings_v5",
    prefix: "JinaEmbeddingsV5",
    suffixes: &["Model"],
    gguf: None,
    adapters: Adapters::Folders,
    ..EUROBERT
};

pub(super) static DECODERS: [Family; 19] = [
    // Before those whose `model_type` they have: decoders that were trained without the causal mask.
    // voyage-4-nano.
    Family {
        mark: Some(Mark::Class("Qwen3BidirectionalModel")),
        own_code: true,
        mask: MaskConfig::Full,
        output_projection: Some(Width::Labels),
        names: TensorNames { output_projection: "linear", ..names::DECODER },
        ..QWEN3
    },
    // gte-Qwen2 and what was trained from it, stella_en_1.5B among them.
    Family { mark: Some(Mark::Model("modeling_qwen.Qwen2Model")), own_code: true, mask: MaskConfig::Full, ..QWEN2 },
    // jina-embeddings-v5 of EuroBERT, then of Qwen3. The former may name EuroBERT's type.
    Family { mark: Some(Mark::Off("is_decoder")), ..JINA5_OF_EUROBERT },
    Family { model_type: "eurobert", mark: Some(Mark::Class("JinaEmbeddingsV5Model")), ..JINA5_OF_EUROBERT },
    Family {
        model_type: "jina_embeddings_v5",
        prefix: "JinaEmbeddingsV5",
        suffixes: &["Model"],
        own_code: true,
        adapters: Adapters::Folders,
        ..QWEN3
    },
    // Perplexity's: Qwen3 without the mask.
    Family {
        model_type: "bidirectional_pplx_qwen3",
        prefix: "PPLXQwen3",
        own_code: true,
        mask: MaskConfig::Full,
        ..QWEN3
    },
    // BidirLM 0.6B and 1.7B: Qwen3 without the mask. Those of Gemma 3 name their activation in another field.
    Family {
        model_type: "bidirlm",
        mark: Some(Mark::Field("hidden_act", "silu")),
        prefix: "BidirLM",
        suffixes: &["Model"],
        own_code: true,
        mask: MaskConfig::Full,
        ..QWEN3
    },
    Family { gguf: Some(Gguf::of("qwen3")), ..QWEN3 },
    Family { gguf: Some(Gguf::of("qwen2")), ..QWEN2 },
    // Mistral's files name `llama`, too.
    Family { gguf: Some(Gguf { interleaved_rope: true, ..Gguf::of("llama") }), ..LLAMA },
    MISTRAL,
    MINISTRAL3,
    // NVIDIA's: Llama without the mask.
    Family {
        model_type: "llama_bidirec",
        prefix: "LlamaBidirectional",
        gguf: Some(Gguf { interleaved_rope: true, ..Gguf::of("llama-embed") }),
        own_code: true,
        mask: MaskConfig::Full,
        ..LLAMA
    },
    GEMMA3,
    GEMMA2,
    // Before the decoder, whose `model_type` it has.
    LFM2_BIDIRECTIONAL,
    // As later versions of transformers have it.
    Family { model_type: "lfm2_bidirectional", mark: None, own_code: false, ..LFM2_BIDIRECTIONAL },
    LFM2,
    EUROBERT,
];
