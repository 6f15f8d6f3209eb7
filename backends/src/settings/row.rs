//! Rows of the list.

use crate::formats::gguf::METADATA;

/// Treatment of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// It has the effect that it has in the libraries; a value that is not supported is refused.
    Followed,
    /// Every value but the default is refused, by name.
    Refused,
    /// It has no effect, and is named in the log, in `/info` and by `check-model` unless it has its default.
    Named,
    /// As `Named`, but only in the models where it has an effect in the libraries, by code that does not walk the list.
    NamedInSome,
    /// It has no effect on answers in the libraries either: it is for training, saving, decoding or speed.
    Inert,
}

/// Fields of a kind of file with one mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) file: File,
    pub(crate) mark: Mark,
    /// The library, its version and the file in which it reads the fields.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the document"))]
    pub(crate) read_in: &'static str,
    /// Names, with the default as JSON where it matters: a value that is null, false or empty is a default anyway.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum File {
    Config,
    /// `rope_parameters` and `rope_scaling` of `config.json`; also a set in them for one type of layers.
    Rope,
    TokenizerConfig,
    Tokenizer,
    SpecialTokens,
    /// A special token that is stored as an object.
    SpecialToken,
    AddedTokens,
    Prompts,
    Transformer,
    Modules,
    Pooling,
    Dense,
    LayerNorm,
    Dropout,
    Normalize,
    LogitScore,
    Router,
    /// `parameters` of a Router.
    RouterParameters,
    AdapterConfig,
    Index,
    /// The field is a key, without the architecture before it.
    Gguf,
    /// The field is the name of a file.
    Other,
}

impl File {
    /// Name in a model's folder, or in a module's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Config => "config.json",
            Self::Rope => "config.json, in `rope_parameters` and `rope_scaling`",
            Self::TokenizerConfig => "tokenizer_config.json",
            Self::Tokenizer => "tokenizer.json",
            Self::SpecialTokens => "special_tokens_map.json",
            Self::SpecialToken => "special_tokens_map.json and tokenizer_config.json, in a token",
            Self::AddedTokens => "added_tokens.json",
            Self::Prompts => "config_sentence_transformers.json",
            Self::Transformer => "sentence_bert_config.json",
            Self::Modules => "modules.json",
            Self::Pooling => "Pooling/config.json",
            Self::Dense => "Dense/config.json",
            Self::LayerNorm => "LayerNorm/config.json",
            Self::Dropout => "Dropout/config.json",
            Self::Normalize => "Normalize/config.json",
            Self::LogitScore => "LogitScore/config.json",
            Self::Router => "router_config.json",
            Self::RouterParameters => "router_config.json, in `parameters`",
            Self::AdapterConfig => "adapter_config.json",
            Self::Index => "model.safetensors.index.json",
            Self::Gguf => METADATA,
            Self::Other => "other files",
        }
    }

    /// The kind of an object in a field, if its fields have rows of their own.
    pub(super) fn of_object(self, field: &str) -> Option<Self> {
        match (self, field) {
            (Self::Config, "rope_parameters" | "rope_scaling") => Some(Self::Rope),
            (Self::Rope, "full_attention" | "sliding_attention") => Some(Self::Rope),
            (Self::TokenizerConfig | Self::SpecialTokens, field) if field.ends_with("_token") => {
                Some(Self::SpecialToken)
            }
            (Self::Router, "parameters") => Some(Self::RouterParameters),
            _ => None,
        }
    }

    /// The kind of a module's config, by the module's class; `None` for a class without fields.
    pub(crate) fn of_module(class: &str) -> Option<Self> {
        match class {
            "Pooling" => Some(Self::Pooling),
            "Dense" => Some(Self::Dense),
            "LayerNorm" => Some(Self::LayerNorm),
            "Dropout" => Some(Self::Dropout),
            "Normalize" => Some(Self::Normalize),
            "LogitScore" => Some(Self::LogitScore),
            _ => None,
        }
    }
}
