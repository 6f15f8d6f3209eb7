//! Families of encoders: the differences between them as rows of data.

use super::family::{
    Activations, Adapters, Biases, Family, FfnGlu, Gguf, Mark, Must, Musts, Positions, RelativeAttention, Rotary, Rule,
    UNSCALED, Windows, absent, off,
};
use super::keys::{DISTILBERT_KEYS, ENCODER_KEYS, MODERNBERT_KEYS, NOMIC_KEYS, T5_KEYS};
use crate::config::{
    BERT_HEAD, DEBERTA_HEAD, DECODER_HEAD, DISTILBERT_HEAD, ELECTRA_HEAD, GTE_HEAD, MODERNBERT_HEAD, MaskConfig,
    NormKind, NormPlacement, ROBERTA_HEAD, TensorNames, names,
};
use prefold_kernels::Activation;

const ADAPTERS: (&str, Must) = ("adapters", Must::Absent("weights with the adapters merged into them"));
const NOT_A_DECODER: &Musts = &[off("is_decoder"), off("add_cross_attention"), ADAPTERS];
const ABSOLUTE: &Musts = &[("position_embedding_type", Must::Text("absolute"))];

pub(super) const ENCODER_CLASSES: &[&str] =
    &["Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification"];

pub(super) const BERT: Family = Family {
    model_type: "bert",
    mark: None,
    prefix: "Bert",
    suffixes: ENCODER_CLASSES,
    keys: &ENCODER_KEYS,
    mask: MaskConfig::Full,
    positions: Positions::FromZero,
    scaled_beyond: None,
    query_growth: false,
    token_types: Some(2),
    projected_embeddings: false,
    scale_embeddings: false,
    norm: NormKind::LayerNorm,
    qk_norm: Rule::Fixed(false),
    qk_width_norm: false,
    default_head_dim: None,
    optional_kv_heads: true,
    query_pre_attn_scalar: None,
    unscaled_scores: false,
    relative_attention: None,
    norm_eps: 1e-12,
    norm_placement: NormPlacement::Post,
    first_attention_norm: true,
    biases: Biases::ALL,
    activations: Activations::Any(Activation::Gelu),
    ffn_glu: FfnGlu::Never,
    experts: false,
    convolutions: false,
    adjusts_intermediate_size: false,
    windows: Windows::Never,
    softcaps: false,
    adapters: Adapters::None,
    output_projection: None,
    tie_word_embeddings: Rule::Fixed(true),
    own_code: false,
    gguf: None,
    musts: &[ABSOLUTE, NOT_A_DECODER],
    names: names::BERT,
    classifier: BERT_HEAD,
    classifier_pooling: None,
    classifier_activation: None,
    classifier_bias: None,
    bidirectional_field: false,
};

const ROBERTA: Family = Family {
    model_type: "roberta",
    prefix: "Roberta",
    positions: Positions::AfterPadding,
    names: names::ROBERTA,
    classifier: ROBERTA_HEAD,
    ..BERT
};

const MODERNBERT: Family = Family {
    model_type: "modernbert",
    prefix: "ModernBert",
    keys: &MODERNBERT_KEYS,
    positions: Positions::Rotary(Rotary::TwoBases {
        full: ("global_rope_theta", 160_000.0),
        windowed: ("local_rope_theta", 10_000.0),
        scales_full_alone: false,
    }),
    token_types: None,
    norm_eps: 1e-5,
    norm_placement: NormPlacement::Pre,
    first_attention_norm: false,
    biases: Biases {
        norm: Rule::Field("norm_bias", false),
        ..Biases::attention_and_ffn(Rule::Field("attention_bias", false), Rule::Field("mlp_bias", false))
    },
    ffn_glu: FfnGlu::Always,
    windows: Windows::Local,
    musts: &[&[ADAPTERS]],
    names: names::MODERNBERT,
    classifier: MODERNBERT_HEAD,
    classifier_pooling: Some((&["classifier_pooling"], &["cls", "mean"])),
    classifier_activation: Some("classifier_activation"),
    classifier_bias: Some("classifier_bias"),
    ..BERT
};

const NOMIC_MUSTS: &Musts = &[ADAPTERS, off("prenorm"), off("causal"), off("parallel_block"), off("use_rms_norm")];

/// Sizes in the spellings of the published code and of transformers. GPT-2's config, on which the code builds, lets some of the latter overrule
/// the former, others not.
const NOMIC_SIZES: &Musts = &[
    ("n_embd", Must::As("hidden_size")),
    ("n_layer", Must::As("num_hidden_layers")),
    ("n_head", Must::As("num_attention_heads")),
    ("n_inner", Must::As("intermediate_size")),
];
const NOMIC_ATTENTION: &Musts = &[("scale_attn_weights", Must::Bool(true)), off("scale_attn_by_inverse_layer_idx")];
const NOMIC_ROTATIONS: &Musts = &[
    SAME_BASE,
    ("rotary_emb_fraction", Must::Number(1.0)),
    off("rotary_emb_interleaved"),
    absent("rotary_emb_scale_base"),
];

/// The base in the spellings of the published code and of transformers.
const SAME_BASE: (&str, Must) = ("rotary_emb_base", Must::As("rope_theta"));

/// The base in the published code's field, and the default of transformers' own class.
const fn rotary_emb_base(own_default: f64) -> Positions {
    Positions::Rotary(Rotary::OneBase {
        key: "rotary_emb_base",
        default: Some(10_000.0),
        own_default: Some(own_default),
        kinds: UNSCALED,
    })
}

/// nomic-embed-text v1 and v1.5, in the spellings of the published code and of transformers 5.
const NOMIC: Family = Family {
    model_type: "nomic_bert",
    prefix: "NomicBert",
    keys: &NOMIC_KEYS,
    positions: rotary_emb_base(1_000.0),
    scaled_beyond: Some(("rotary_scaling_factor", "max_trained_positions")),
    biases: Biases {
        qkv: Rule::Field("qkv_proj_bias", false),
        // The published code gives both projections of attention the one field.
        attention_output: Rule::Field("qkv_proj_bias", false),
        feed_forward_input: Rule::Field("mlp_fc1_bias", false),
        feed_forward_output: Rule::Field("mlp_fc2_bias", false),
        norm: Rule::Fixed(true),
    },
    ffn_glu: FfnGlu::ByName,
    own_code: true,
    musts: &[NOMIC_MUSTS, NOMIC_SIZES, NOMIC_ATTENTION, NOMIC_ROTATIONS, &[("num_experts", Must::Number(0.0))]],
    names: names::NOMIC,
    ..BERT
};

/// nomic-embed-text-v2-moe.
const NOMIC_EXPERTS: Family = Family {
    mark: Some(Mark::Field("activation_function", "gelu")),
    ffn_glu: FfnGlu::Never,
    experts: true,
    musts: &[
        NOMIC_MUSTS,
        NOMIC_SIZES,
        NOMIC_ATTENTION,
        NOMIC_ROTATIONS,
        &[off("expert_choice_router"), off("moe_normalize_expert_weights")],
        &[("num_shared_experts", Must::Number(0.0)), ("ffn_div", Must::Number(1.0))],
    ],
    names: names::NOMIC_EXPERTS,
    ..NOMIC
};

/// Rotations of Alibaba-NLP's code and of transformers' class for it, which have different defaults.
const fn new_rotations(default: f64) -> Positions {
    Positions::Rotary(Rotary::OneBase {
        key: "rope_theta",
        default: Some(default),
        own_default: None,
        kinds: &["default", "ntk"],
    })
}

/// gte-v1.5, gte-multilingual, snowflake-arctic-embed-m-v2.0 and stella_400M, whose code is Alibaba-NLP/new-impl.
const NEW: Family = Family {
    model_type: "new",
    prefix: "New",
    positions: new_rotations(10_000.0),
    token_types: Some(0),
    biases: Biases { feed_forward_input: Rule::Fixed(false), ..Biases::ALL },
    ffn_glu: FfnGlu::Always,
    own_code: true,
    musts: &[
        &[ADAPTERS, off("logn_attention_scale"), ("pack_qkv", Must::Bool(true))],
        &[("position_embedding_type", Must::Text("rope")), ("layer_norm_type", Must::Text("layer_norm"))],
    ],
    names: names::GTE,
    classifier: GTE_HEAD,
    ..BERT
};

const GEGLU: &Musts = &[("feed_forward_type", Must::Text("geglu"))];

/// jina-embeddings-v2, whose code is jinaai/jina-bert-implementation.
pub(super) const JINA_V2: Family = Family {
    mark: Some(Mark::Field("position_embedding_type", "alibi")),
    prefix: "JinaBert",
    positions: Positions::Alibi,
    biases: Biases { feed_forward_input: Rule::Fixed(false), ..Biases::ALL },
    ffn_glu: FfnGlu::Always,
    own_code: true,
    musts: &[NOT_A_DECODER, GEGLU],
    names: names::JINA_V2,
    ..BERT
};

/// jina-embeddings-v2-base-code, which has other names and norms of q and k.
pub(super) const JINA_V2_CODE: Family = Family {
    mark: Some(Mark::Repository("jinaai/jina-bert-v2-qk-post-norm")),
    qk_width_norm: true,
    musts: &[NOT_A_DECODER, GEGLU, &[("position_embedding_type", Must::Text("alibi"))]],
    names: names::JINA_V2_CODE,
    ..JINA_V2
};

/// jina-reranker-v2: XLM-RoBERTa by jinaai/xlm-roberta-flash-implementation, which names tensors as it pleases.
const XLM_ROBERTA_FLASH: Family = Family {
    model_type: "xlm-roberta",
    mark: Some(Mark::Config("XLMRobertaFlashConfig")),
    prefix: "XLMRoberta",
    own_code: true,
    musts: &[ABSOLUTE, NOT_A_DECODER, &[absent("lora_adaptations")]],
    names: names::XLM_ROBERTA_FLASH,
    ..ROBERTA
};

/// jina-embeddings-v3: the same with rotary positions and an adapter for each task.
pub(super) const JINA_V3: Family = Family {
    mark: Some(Mark::Field("position_embedding_type", "rotary")),
    positions: rotary_emb_base(20_000.0),
    adapters: Adapters::Stacked,
    musts: &[
        NOT_A_DECODER,
        &[absent("rotary_emb_dim"), off("rotary_emb_interleaved"), absent("rotary_emb_scale_base")],
        &[SAME_BASE, absent("truncate_dim")],
    ],
    names: TensorNames { positions: "", ..names::XLM_ROBERTA_FLASH },
    ..XLM_ROBERTA_FLASH
};

/// DeBERTa v2 and v3.
const DEBERTA: Family = Family {
    model_type: "deberta-v2",
    prefix: "DebertaV2",
    positions: Positions::Disentangled,
    token_types: Some(0),
    norm_eps: 1e-7,
    musts: &[
        &[ADAPTERS, ("relative_attention", Must::Given(true)), ("position_biased_input", Must::Given(false))],
        &[("pooler_hidden_act", Must::Text("gelu")), ("conv_kernel_size", Must::Number(0.0))],
        &[absent("attention_head_size")],
    ],
    names: names::DEBERTA,
    classifier: DEBERTA_HEAD,
    ..BERT
};

const T5_DISTANCE: Option<&str> = Some("relative_attention_max_distance");

/// The encoder of T5 and of what was trained from it, also inside models with a decoder, whose tensors are not read.
const T5: Family = Family {
    model_type: "t5",
    prefix: "T5",
    suffixes: &["EncoderModel", "Model", "ForConditionalGeneration", "WithLMHeadModel"],
    keys: &T5_KEYS,
    positions: Positions::Relative,
    relative_attention: Some(RelativeAttention { max_distance: T5_DISTANCE, per_layer: false }),
    unscaled_scores: true,
    token_types: None,
    norm: NormKind::RmsNorm,
    norm_placement: NormPlacement::Pre,
    norm_eps: 1e-6,
    default_head_dim: Some(64),
    biases: Biases::NONE,
    activations: Activations::Any(Activation::Relu),
    ffn_glu: FfnGlu::ByPrefix("relu"),
    musts: &[NOT_A_DECODER],
    names: names::T5,
    ..BERT
};

pub(super) static ENCODERS: [Family; 21] = [
    // Before those whose `model_type` they have.
    JINA_V3,
    XLM_ROBERTA_FLASH,
    Family { gguf: Some(Gguf { marks: &["blk.0.attn_norm_2.weight"], ..Gguf::of("jina-bert-v2") }), ..JINA_V2_CODE },
    Family { gguf: Some(Gguf::of("jina-bert-v2")), ..JINA_V2 },
    Family { gguf: Some(Gguf { lost: "the bias of the experts", ..Gguf::of("nomic-bert-moe") }), ..NOMIC_EXPERTS },
    BERT,
    // Files of BERT, RoBERTa, XLM-RoBERTa and CamemBERT are alike in GGUF; converters leave out the head of BERT's classifiers.
    Family { gguf: Some(Gguf { marks: &["token_types.weight"], classifier: true, ..Gguf::of("bert") }), ..ROBERTA },
    Family { model_type: "xlm-roberta", prefix: "XLMRoberta", ..ROBERTA },
    Family {
        model_type: "xlm-roberta-xl",
        prefix: "XLMRobertaXL",
        norm_placement: NormPlacement::Pre,
        token_types: Some(1),
        norm_eps: 1e-5,
        names: names::XLM_ROBERTA_XL,
        ..ROBERTA
    },
    Family { model_type: "camembert", prefix: "Camembert", ..ROBERTA },
    Family {
        model_type: "mpnet",
        prefix: "MPNet",
        positions: Positions::AfterOne,
        token_types: None,
        relative_attention: Some(RelativeAttention { max_distance: None, per_layer: false }),
        names: names::MPNET,
        classifier: ROBERTA_HEAD,
        ..BERT
    },
    Family {
        model_type: "distilbert",
        prefix: "DistilBert",
        gguf: Some(Gguf { classifier: true, ..Gguf::of("bert") }),
        keys: &DISTILBERT_KEYS,
        token_types: None,
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
    DEBERTA,
    T5,
    Family { model_type: "mt5", prefix: "MT5", ffn_glu: FfnGlu::ByPrefix("gated-gelu"), ..T5 },
    Family {
        model_type: "umt5",
        prefix: "UMT5",
        relative_attention: Some(RelativeAttention { max_distance: T5_DISTANCE, per_layer: true }),
        ffn_glu: FfnGlu::ByPrefix("gated-gelu"),
        names: names::UMT5,
        ..T5
    },
    Family { gguf: Some(Gguf { classifier: true, scales_windows: true, ..Gguf::of("modern-bert") }), ..MODERNBERT },
    Family { gguf: Some(Gguf::of("nomic-bert")), ..NOMIC },
    NEW,
    Family { model_type: "gte", prefix: "Gte", positions: new_rotations(160_000.0), token_types: Some(1), ..NEW },
];

/// A table and the mean of its rows: Model2Vec and the module `StaticEmbedding` of sentence-transformers.
pub(crate) const STATIC: Family = Family {
    model_type: "static_embedding",
    positions: Positions::None,
    token_types: None,
    norm_eps: f32::EPSILON as f64,
    biases: Biases::NONE,
    // No heads.
    default_head_dim: Some(0),
    musts: &[],
    names: TensorNames::table("embedding"),
    classifier: DECODER_HEAD,
    ..BERT
};
