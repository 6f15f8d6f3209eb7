//! Names of settings in files.

/// The names of a setting in `config.json`, in the spellings that files have; none if the family has no such setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) json: &'static [&'static str],
}

/// The names of the settings of a family.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) vocab_size: Key,
    pub(crate) hidden_size: Key,
    pub(crate) num_layers: Key,
    pub(crate) num_heads: Key,
    /// Heads of keys and values; as many as of queries where the family has no such setting.
    pub(crate) num_kv_heads: Key,
    /// Width of a head; the states are divided among the heads where the family has no such setting.
    pub(crate) head_dim: Key,
    pub(crate) intermediate_size: Key,
    pub(crate) activation: Key,
    pub(crate) norm_eps: Key,
    pub(crate) max_positions: Key,
    pub(crate) token_types: Key,
}

impl Key {
    const NONE: Self = Self::new(&[]);

    const fn new(json: &'static [&'static str]) -> Self {
        Self { json }
    }
}

pub(super) const ENCODER_KEYS: Keys = Keys {
    vocab_size: Key::new(&["vocab_size"]),
    hidden_size: Key::new(&["hidden_size"]),
    num_layers: Key::new(&["num_hidden_layers"]),
    num_heads: Key::new(&["num_attention_heads"]),
    num_kv_heads: Key::NONE,
    head_dim: Key::NONE,
    intermediate_size: Key::new(&["intermediate_size"]),
    activation: Key::new(&["hidden_act"]),
    norm_eps: Key::new(&["layer_norm_eps"]),
    max_positions: Key::new(&["max_position_embeddings"]),
    token_types: Key::new(&["type_vocab_size"]),
};

pub(super) const DECODER_KEYS: Keys = Keys {
    num_kv_heads: Key::new(&["num_key_value_heads"]),
    head_dim: Key::new(&["head_dim"]),
    norm_eps: Key::new(&["rms_norm_eps"]),
    ..ENCODER_KEYS
};

pub(super) const GEMMA3_KEYS: Keys = Keys { activation: Key::new(&["hidden_activation"]), ..DECODER_KEYS };

pub(super) const DISTILBERT_KEYS: Keys = Keys {
    hidden_size: Key::new(&["dim"]),
    num_layers: Key::new(&["n_layers"]),
    num_heads: Key::new(&["n_heads"]),
    intermediate_size: Key::new(&["hidden_dim"]),
    activation: Key::new(&["activation"]),
    ..ENCODER_KEYS
};

pub(super) const MODERNBERT_KEYS: Keys = Keys {
    activation: Key::new(&["hidden_activation"]),
    norm_eps: Key::new(&["norm_eps", "layer_norm_eps"]),
    ..ENCODER_KEYS
};

pub(super) const NOMIC_KEYS: Keys = Keys {
    hidden_size: Key::new(&["n_embd", "hidden_size"]),
    num_layers: Key::new(&["n_layer", "num_hidden_layers"]),
    num_heads: Key::new(&["n_head", "num_attention_heads"]),
    intermediate_size: Key::new(&["n_inner", "intermediate_size"]),
    activation: Key::new(&["activation_function", "hidden_act"]),
    norm_eps: Key::new(&["layer_norm_epsilon", "layer_norm_eps"]),
    max_positions: Key::new(&["n_positions", "max_position_embeddings"]),
    ..ENCODER_KEYS
};
