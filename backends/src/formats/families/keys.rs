//! Names of settings in files.

/// The names of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// In `config.json`, in the spellings that files have; none if the family has no such setting.
    pub(crate) json: &'static [&'static str],
    /// In GGUF files, behind the architecture; empty if their tensors tell it.
    pub(crate) gguf: &'static str,
    /// In GGUF files without that key; empty if there is no other.
    pub(crate) gguf_otherwise: &'static str,
}

/// The names of the settings of a family.
pub(crate) struct Keys {
    pub(crate) hidden_size: Key,
    pub(crate) num_layers: Key,
    pub(crate) num_heads: Key,
    /// Heads of keys and values; the number of query heads if the family has no such setting.
    pub(crate) num_kv_heads: Key,
    /// Width of a head; the states are divided among the heads where the family has no such setting.
    pub(crate) head_dim: Key,
    pub(crate) intermediate_size: Key,
    pub(crate) activation: Key,
    pub(crate) norm_eps: Key,
    pub(crate) max_positions: Key,
}

impl Key {
    const NONE: Self = Self::new(&[], "");

    const fn new(json: &'static [&'static str], gguf: &'static str) -> Self {
        Self { json, gguf, gguf_otherwise: "" }
    }

    /// The setting in other spellings of `config.json`.
    const fn spelled(self, json: &'static [&'static str]) -> Self {
        Self { json, ..self }
    }

    /// The setting with another key in GGUF files that lack the first.
    const fn otherwise(self, gguf_otherwise: &'static str) -> Self {
        Self { gguf_otherwise, ..self }
    }
}

pub(super) const ENCODER_KEYS: Keys = Keys {
    hidden_size: Key::new(&["hidden_size"], "embedding_length"),
    num_layers: Key::new(&["num_hidden_layers"], "block_count"),
    num_heads: Key::new(&["num_attention_heads"], "attention.head_count"),
    num_kv_heads: Key::NONE,
    head_dim: Key::NONE,
    intermediate_size: Key::new(&["intermediate_size"], "feed_forward_length"),
    activation: Key::new(&["hidden_act"], ""),
    norm_eps: Key::new(&["layer_norm_eps"], "attention.layer_norm_epsilon"),
    max_positions: Key::new(&["max_position_embeddings"], "context_length"),
};

pub(super) const DECODER_KEYS: Keys = Keys {
    num_kv_heads: Key::new(&["num_key_value_heads"], "attention.head_count_kv"),
    head_dim: Key::new(&["head_dim"], "attention.key_length"),
    norm_eps: Key::new(&["rms_norm_eps"], "attention.layer_norm_rms_epsilon"),
    ..ENCODER_KEYS
};

pub(super) const LFM2_KEYS: Keys = Keys {
    intermediate_size: DECODER_KEYS.intermediate_size.spelled(&["block_ff_dim", "intermediate_size"]),
    norm_eps: DECODER_KEYS.norm_eps.spelled(&["norm_eps"]),
    ..DECODER_KEYS
};

pub(super) const GEMMA3_KEYS: Keys =
    Keys { activation: DECODER_KEYS.activation.spelled(&["hidden_activation"]), ..DECODER_KEYS };

pub(super) const DISTILBERT_KEYS: Keys = Keys {
    // The usual names overrule the class's own ones (`attribute_map` in transformers).
    hidden_size: ENCODER_KEYS.hidden_size.spelled(&["hidden_size", "dim"]),
    num_layers: ENCODER_KEYS.num_layers.spelled(&["num_hidden_layers", "n_layers"]),
    num_heads: ENCODER_KEYS.num_heads.spelled(&["num_attention_heads", "n_heads"]),
    intermediate_size: ENCODER_KEYS.intermediate_size.spelled(&["hidden_dim"]),
    activation: ENCODER_KEYS.activation.spelled(&["activation"]),
    // Its class has 1e-12, whatever the config says.
    norm_eps: ENCODER_KEYS.norm_eps.spelled(&[]),
    ..ENCODER_KEYS
};

pub(super) const MODERNBERT_KEYS: Keys = Keys {
    activation: ENCODER_KEYS.activation.spelled(&["hidden_activation"]),
    // Converters write `norm_eps` under the name of RMSNorm, and `layer_norm_eps`, which its class ignores, under the usual one.
    norm_eps: ENCODER_KEYS.norm_eps.spelled(&["norm_eps"]).otherwise(DECODER_KEYS.norm_eps.gguf),
    ..ENCODER_KEYS
};

pub(super) const T5_KEYS: Keys = Keys {
    // As DistilBERT's.
    hidden_size: Key::new(&["hidden_size", "d_model"], ""),
    num_layers: Key::new(&["num_hidden_layers", "num_layers"], ""),
    num_heads: Key::new(&["num_attention_heads", "num_heads"], ""),
    head_dim: Key::new(&["head_dim", "d_kv"], ""),
    intermediate_size: Key::new(&["d_ff"], ""),
    activation: Key::new(&["feed_forward_proj"], ""),
    norm_eps: Key::new(&["layer_norm_epsilon"], ""),
    max_positions: Key::NONE,
    ..ENCODER_KEYS
};

pub(super) const NOMIC_KEYS: Keys = Keys {
    hidden_size: ENCODER_KEYS.hidden_size.spelled(&["n_embd", "hidden_size"]),
    num_layers: ENCODER_KEYS.num_layers.spelled(&["n_layer", "num_hidden_layers"]),
    num_heads: ENCODER_KEYS.num_heads.spelled(&["n_head", "num_attention_heads"]),
    intermediate_size: ENCODER_KEYS.intermediate_size.spelled(&["n_inner", "intermediate_size"]),
    activation: ENCODER_KEYS.activation.spelled(&["activation_function", "hidden_act"]),
    norm_eps: ENCODER_KEYS.norm_eps.spelled(&["layer_norm_epsilon", "layer_norm_eps"]),
    max_positions: ENCODER_KEYS.max_positions.spelled(&["n_positions", "max_position_embeddings"]),
    ..ENCODER_KEYS
};
