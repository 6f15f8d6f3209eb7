//! Families of encoders: the differences between them as rows of data.

use super::common::{Must, NTK, RopeKinds, UNSCALED};
use super::encoder_keys::{DISTILBERT_KEYS, Keys, MODERNBERT_KEYS, NOMIC_KEYS, USUAL};
use crate::config::{
    BERT_HEAD, ClassifierHead, DEBERTA_HEAD, DISTILBERT_HEAD, ELECTRA_HEAD, GTE_HEAD, MODERNBERT_HEAD, Placement,
    ROBERTA_HEAD, TensorNames, names,
};

/// One family.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// The mark that tells the family from others of its `model_type`.
    pub(super) only_with: Option<Mark>,
    /// Prefix of `architectures`.
    pub(super) prefix: &'static str,
    pub(super) keys: &'static Keys,
    pub(super) positions: Positions,
    /// The field that scales rotations of inputs longer than the model was trained on, by their length, and the field of that
    /// length. Scaled inputs are refused.
    pub(super) scaled_beyond: Option<(&'static str, &'static str)>,
    /// Default of `type_vocab_size`, where inputs have token types.
    pub(super) token_types: Option<usize>,
    /// `embedding_size` may be another than `hidden_size`.
    pub(super) projected_embeddings: bool,
    /// Queries, and keys, are normalised over all heads together.
    pub(super) qk_width_norm: bool,
    /// Scores have biases by distance.
    pub(super) relative_bias: bool,
    /// Default of the norms' epsilon.
    pub(super) norm_eps: f64,
    pub(super) placement: Placement,
    /// The attention of the first layer has a norm.
    pub(super) first_attention_norm: bool,
    pub(super) biases: Biases,
    pub(super) gate: Gate,
    /// `num_experts` of them take the place of the feed-forward block in some layers.
    pub(super) experts: bool,
    /// Attention is local (`local_attention`) but in every so many layers (`global_attn_every_n_layers`).
    pub(super) local_attention: bool,
    /// `lora_adaptations` are adapters beside the weights.
    pub(super) adapters: bool,
    /// Checkpoints bring Python code, which computes what this row says.
    pub(super) own_code: bool,
    /// Fields that must have one value where they are present.
    pub(super) musts: &'static [(&'static str, Must)],
    pub(super) names: TensorNames,
    pub(super) classifier: ClassifierHead,
    /// The fields of the classifier's pooling and activation.
    pub(super) classifier_fields: Option<[&'static str; 2]>,
}

/// A mark that tells a family from others of its `model_type`.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// A field and its value.
    Field(&'static str, &'static str),
    /// The class that `AutoConfig` is in `auto_map`; `model_type` may be missing then.
    Code(&'static str),
    /// The repository of that class, in `auto_map` or in `_name_or_path`.
    Repository(&'static str),
}

/// The positions of a family.
#[derive(Clone, Copy)]
pub(super) enum Positions {
    /// Learned; row 0 of the table is the first token's.
    FromZero,
    /// Learned; the row after that of the padding token, `pad_token_id`, is the first token's.
    AfterPadding,
    /// The same with 1, whatever the config says.
    AfterOne,
    /// Rotary.
    Rotary(Rotary),
    /// None but the biases of scores by distance.
    Alibi,
    /// Embeddings of distances in the scores.
    Disentangled,
}

/// The bases of rotary positions.
#[derive(Clone, Copy)]
pub(super) enum Rotary {
    /// One for all layers; the field and the default of the base.
    OneBase { key: &'static str, default: Option<f64>, kinds: RopeKinds },
    /// One for layers without a window and one for those with a window.
    TwoBases { full: (&'static str, f64), windowed: (&'static str, f64) },
}

/// Biases of products and norms.
pub(super) struct Biases {
    pub(super) qkv: Bias,
    pub(super) attention_output: Bias,
    pub(super) feed_forward_input: Bias,
    pub(super) feed_forward_output: Bias,
    pub(super) norm: Bias,
}

/// Presence of a bias.
#[derive(Clone, Copy)]
pub(super) enum Bias {
    Always,
    Never,
    /// A field says so; its default.
    Field(&'static str, bool),
}

/// Kind of the feed-forward block.
#[derive(Clone, Copy)]
pub(super) enum Gate {
    /// No gate.
    Never,
    /// A gate, and the activation that the config names.
    Always,
    /// A gate; the activation is named after the two (`swiglu`).
    ByName,
}

const ALL_BIASES: Biases = Biases {
    qkv: Bias::Always,
    attention_output: Bias::Always,
    feed_forward_input: Bias::Always,
    feed_forward_output: Bias::Always,
    norm: Bias::Always,
};

const ABSOLUTE: (&str, Must) = ("position_embedding_type", Must::Text("absolute"));
const NOT_A_DECODER: [(&str, Must); 2] =
    [("is_decoder", Must::Bool(false)), ("add_cross_attention", Must::Bool(false))];
const BERT_MUSTS: [(&str, Must); 3] = [ABSOLUTE, NOT_A_DECODER[0], NOT_A_DECODER[1]];

const BERT: Family = Family {
    model_type: "bert",
    only_with: None,
    prefix: "Bert",
    keys: &USUAL,
    positions: Positions::FromZero,
    scaled_beyond: None,
    token_types: Some(2),
    projected_embeddings: false,
    qk_width_norm: false,
    relative_bias: false,
    norm_eps: 1e-12,
    placement: Placement::After,
    first_attention_norm: true,
    biases: ALL_BIASES,
    gate: Gate::Never,
    experts: false,
    local_attention: false,
    adapters: false,
    own_code: false,
    musts: &BERT_MUSTS,
    names: names::BERT,
    classifier: BERT_HEAD,
    classifier_fields: None,
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
    }),
    token_types: None,
    norm_eps: 1e-5,
    placement: Placement::Before,
    first_attention_norm: false,
    biases: Biases {
        qkv: Bias::Field("attention_bias", false),
        attention_output: Bias::Field("attention_bias", false),
        feed_forward_input: Bias::Field("mlp_bias", false),
        feed_forward_output: Bias::Field("mlp_bias", false),
        norm: Bias::Field("norm_bias", false),
    },
    gate: Gate::Always,
    local_attention: true,
    musts: &[("classifier_bias", Must::Bool(false))],
    names: names::MODERNBERT,
    classifier: MODERNBERT_HEAD,
    classifier_fields: Some(["classifier_pooling", "classifier_activation"]),
    ..BERT
};

const NOMIC_MUSTS: [(&str, Must); 10] = [
    ("prenorm", Must::Bool(false)),
    ("causal", Must::Bool(false)),
    ("parallel_block", Must::Bool(false)),
    ("use_rms_norm", Must::Bool(false)),
    ("rotary_emb_fraction", Must::Number(1.0)),
    ("rotary_emb_interleaved", Must::Bool(false)),
    ("rotary_emb_scale_base", Must::Absent),
    ("scale_attn_weights", Must::Bool(true)),
    ("scale_attn_by_inverse_layer_idx", Must::Bool(false)),
    ("num_experts", Must::Number(0.0)),
];

/// nomic-embed-text v1 and v1.5, in the spelling of the published code and in that of transformers 5.
const NOMIC: Family = Family {
    model_type: "nomic_bert",
    prefix: "NomicBert",
    keys: &NOMIC_KEYS,
    positions: Positions::Rotary(Rotary::OneBase { key: "rotary_emb_base", default: Some(10_000.0), kinds: UNSCALED }),
    scaled_beyond: Some(("rotary_scaling_factor", "max_trained_positions")),
    biases: Biases {
        qkv: Bias::Field("qkv_proj_bias", false),
        // The published code gives both projections of attention the one field.
        attention_output: Bias::Field("qkv_proj_bias", false),
        feed_forward_input: Bias::Field("mlp_fc1_bias", false),
        feed_forward_output: Bias::Field("mlp_fc2_bias", false),
        norm: Bias::Always,
    },
    gate: Gate::ByName,
    own_code: true,
    musts: &NOMIC_MUSTS,
    names: names::NOMIC,
    ..BERT
};

/// nomic-embed-text-v2-moe.
const NOMIC_EXPERTS: Family = Family {
    only_with: Some(Mark::Field("activation_function", "gelu")),
    gate: Gate::Never,
    experts: true,
    musts: &[
        NOMIC_MUSTS[0],
        NOMIC_MUSTS[1],
        NOMIC_MUSTS[2],
        NOMIC_MUSTS[3],
        NOMIC_MUSTS[4],
        NOMIC_MUSTS[5],
        NOMIC_MUSTS[6],
        NOMIC_MUSTS[7],
        NOMIC_MUSTS[8],
        ("expert_choice_router", Must::Bool(false)),
        ("moe_normalize_expert_weights", Must::Bool(false)),
        ("num_shared_experts", Must::Number(0.0)),
        ("ffn_div", Must::Number(1.0)),
    ],
    names: names::NOMIC_EXPERTS,
    ..NOMIC
};

/// gte-v1.5, gte-multilingual, snowflake-arctic-embed-m-v2.0 and stella_400M, whose code is Alibaba-NLP/new-impl.
const NEW: Family = Family {
    model_type: "new",
    prefix: "New",
    positions: Positions::Rotary(Rotary::OneBase { key: "rope_theta", default: Some(10_000.0), kinds: NTK }),
    token_types: Some(0),
    biases: Biases { feed_forward_input: Bias::Never, ..ALL_BIASES },
    gate: Gate::Always,
    own_code: true,
    musts: &[
        ("position_embedding_type", Must::Text("rope")),
        ("layer_norm_type", Must::Text("layer_norm")),
        ("logn_attention_scale", Must::Bool(false)),
        ("pack_qkv", Must::Bool(true)),
    ],
    names: names::GTE,
    classifier: GTE_HEAD,
    ..BERT
};

/// jina-embeddings-v2, whose code is jinaai/jina-bert-implementation.
const JINA_V2: Family = Family {
    only_with: Some(Mark::Field("position_embedding_type", "alibi")),
    prefix: "JinaBert",
    positions: Positions::Alibi,
    biases: Biases { feed_forward_input: Bias::Never, ..ALL_BIASES },
    gate: Gate::Always,
    own_code: true,
    musts: &[NOT_A_DECODER[0], NOT_A_DECODER[1], ("feed_forward_type", Must::Text("geglu"))],
    names: names::JINA_V2,
    ..BERT
};

/// jina-embeddings-v2-base-code, which has other names and norms of q and k.
const JINA_V2_CODE: Family = Family {
    only_with: Some(Mark::Repository("jinaai/jina-bert-v2-qk-post-norm")),
    qk_width_norm: true,
    musts: &[
        NOT_A_DECODER[0],
        NOT_A_DECODER[1],
        ("feed_forward_type", Must::Text("geglu")),
        ("position_embedding_type", Must::Text("alibi")),
    ],
    names: names::JINA_V2_CODE,
    ..JINA_V2
};

/// jina-reranker-v2: XLM-RoBERTa by jinaai/xlm-roberta-flash-implementation, which names tensors as it pleases.
const XLM_ROBERTA_FLASH: Family = Family {
    model_type: "xlm-roberta",
    only_with: Some(Mark::Code("XLMRobertaFlashConfig")),
    prefix: "XLMRoberta",
    own_code: true,
    musts: &[ABSOLUTE, NOT_A_DECODER[0], NOT_A_DECODER[1], ("lora_adaptations", Must::Absent)],
    names: names::XLM_ROBERTA_FLASH,
    ..ROBERTA
};

/// jina-embeddings-v3: the same with rotary positions and an adapter for each task.
const JINA_V3: Family = Family {
    only_with: Some(Mark::Field("position_embedding_type", "rotary")),
    positions: Positions::Rotary(Rotary::OneBase { key: "rotary_emb_base", default: Some(10_000.0), kinds: UNSCALED }),
    adapters: true,
    musts: &[
        NOT_A_DECODER[0],
        NOT_A_DECODER[1],
        ("rotary_emb_dim", Must::Absent),
        ("rotary_emb_interleaved", Must::Bool(false)),
        ("rotary_emb_scale_base", Must::Absent),
        ("truncate_dim", Must::Absent),
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
        ("relative_attention", Must::Bool(true)),
        ("position_biased_input", Must::Bool(false)),
        ("conv_kernel_size", Must::Number(0.0)),
        ("pooler_hidden_act", Must::Text("gelu")),
        ("attention_head_size", Must::Absent),
    ],
    names: names::DEBERTA,
    classifier: DEBERTA_HEAD,
    ..BERT
};

pub(super) static FAMILIES: [Family; 17] = [
    // Before those whose `model_type` they have.
    JINA_V3,
    XLM_ROBERTA_FLASH,
    JINA_V2_CODE,
    JINA_V2,
    NOMIC_EXPERTS,
    BERT,
    ROBERTA,
    Family { model_type: "xlm-roberta", prefix: "XLMRoberta", ..ROBERTA },
    Family { model_type: "camembert", prefix: "Camembert", ..ROBERTA },
    Family {
        model_type: "mpnet",
        prefix: "MPNet",
        positions: Positions::AfterOne,
        token_types: None,
        relative_bias: true,
        names: names::MPNET,
        classifier: ROBERTA_HEAD,
        ..BERT
    },
    Family {
        model_type: "distilbert",
        prefix: "DistilBert",
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
    MODERNBERT,
    NOMIC,
    NEW,
    Family { model_type: "gte", prefix: "Gte", token_types: Some(1), ..NEW },
];

/// Suffixes of `architectures`.
pub(super) const HEADS: [&str; 5] =
    ["Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification"];
