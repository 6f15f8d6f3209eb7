//! Names of the sizes of encoders in `config.json`.

/// Names of the sizes in `config.json`, each in the spellings that files have.
pub(super) struct Keys {
    pub(super) hidden_size: &'static [&'static str],
    pub(super) num_layers: &'static [&'static str],
    pub(super) num_heads: &'static [&'static str],
    pub(super) intermediate_size: &'static [&'static str],
    pub(super) activation: &'static [&'static str],
    pub(super) norm_eps: &'static [&'static str],
    pub(super) max_positions: &'static [&'static str],
}

pub(super) const USUAL: Keys = Keys {
    hidden_size: &["hidden_size"],
    num_layers: &["num_hidden_layers"],
    num_heads: &["num_attention_heads"],
    intermediate_size: &["intermediate_size"],
    activation: &["hidden_act"],
    norm_eps: &["layer_norm_eps"],
    max_positions: &["max_position_embeddings"],
};

pub(super) const DISTILBERT_KEYS: Keys = Keys {
    hidden_size: &["dim"],
    num_layers: &["n_layers"],
    num_heads: &["n_heads"],
    intermediate_size: &["hidden_dim"],
    activation: &["activation"],
    ..USUAL
};

pub(super) const MODERNBERT_KEYS: Keys =
    Keys { activation: &["hidden_activation"], norm_eps: &["norm_eps", "layer_norm_eps"], ..USUAL };

pub(super) const NOMIC_KEYS: Keys = Keys {
    hidden_size: &["n_embd", "hidden_size"],
    num_layers: &["n_layer", "num_hidden_layers"],
    num_heads: &["n_head", "num_attention_heads"],
    intermediate_size: &["n_inner", "intermediate_size"],
    activation: &["activation_function", "hidden_act"],
    norm_eps: &["layer_norm_epsilon", "layer_norm_eps"],
    max_positions: &["n_positions", "max_position_embeddings"],
};
