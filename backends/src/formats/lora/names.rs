//! Names of an adapter's tensors.

/// Prefix of the names in files of peft: the model inside its wrappers.
const WRAPPERS: &str = "base_model.model.";

/// Meaning of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `A` and `B` of a linear layer, and the bias of `B`.
    A,
    B,
    BBias,
    /// `A` and `B` of a table of embeddings.
    EmbeddingA,
    EmbeddingB,
    /// A tensor that replaces the model's own.
    Own,
    /// A copy of the model's own tensor.
    Original,
    /// A part of another method than LoRA.
    Other,
}

/// Endings of the tensors of a module; peft may write its adapter's name, `default`, into them.
const ENDINGS: [(&str, Role); 9] = [
    (".lora_A.weight", Role::A),
    (".lora_B.weight", Role::B),
    (".lora_B.bias", Role::BBias),
    (".lora_A.default.weight", Role::A),
    (".lora_B.default.weight", Role::B),
    (".lora_B.default.bias", Role::BBias),
    (".lora_embedding_A", Role::EmbeddingA),
    (".lora_embedding_B", Role::EmbeddingB),
    (".lora_embedding_A.default", Role::EmbeddingA),
];

/// `true` for the part of a module whose name has the adapter's, which peft's `save_pretrained` leaves out.
pub(super) fn has_adapters_name(tensor: &str) -> bool {
    tensor.contains(".default.") || tensor.ends_with(".default")
}

/// Splits the name of a tensor: the module for parts of LoRA, the tensor's name in the model for others.
pub(super) fn parse(tensor: &str) -> (String, Role) {
    let name = tensor.strip_prefix(WRAPPERS).unwrap_or(tensor);
    let last = (".lora_embedding_B.default", Role::EmbeddingB);
    if let Some((module, role)) =
        ENDINGS.into_iter().chain([last]).find_map(|(end, role)| Some((name.strip_suffix(end)?, role)))
    {
        return (module.to_owned(), role);
    }
    if name.contains(".original_module.") {
        return (name.to_owned(), Role::Original);
    }
    if name.contains("lora_") || name.contains(".token_adapter.") {
        return (name.to_owned(), Role::Other);
    }
    let own = name.replace(".modules_to_save.default.", ".").replace(".modules_to_save.", ".");
    (own.replace(".base_layer.", "."), Role::Own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::names::bare;

    #[test]
    fn names_of_peft() {
        let found = |name: &str| {
            let (name, role) = parse(name);
            (bare(&name).to_owned(), role)
        };
        let query = "encoder.layer.0.attention.self.query";
        for prefix in ["base_model.model.", "base_model.model.bert.", ""] {
            assert_eq!(found(&format!("{prefix}{query}.lora_A.weight")), (query.to_owned(), Role::A));
        }
        assert_eq!(found("base_model.model.x.lora_B.default.weight"), ("x".to_owned(), Role::B));
        assert_eq!(found("base_model.model.x.lora_B.bias"), ("x".to_owned(), Role::BBias));
        assert_eq!(found("base_model.model.x.lora_embedding_A"), ("x".to_owned(), Role::EmbeddingA));
        assert_eq!(found("base_model.model.x.lora_magnitude_vector").1, Role::Other);
        assert_eq!(found("base_model.model.x.token_adapter.trainable_tokens_delta").1, Role::Other);
        for name in ["score.weight", "score.modules_to_save.default.weight", "score.modules_to_save.weight"] {
            assert_eq!(found(&format!("base_model.model.{name}")), ("score.weight".to_owned(), Role::Own));
        }
        assert_eq!(found("base_model.model.model.x.base_layer.bias"), ("x.bias".to_owned(), Role::Own));
        assert_eq!(found("base_model.model.score.original_module.weight").1, Role::Original);
    }
}
