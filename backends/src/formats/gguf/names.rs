//! Names of tensors in GGUF files and in Hugging Face's.

/// Parts of a layer: GGUF's name and Hugging Face's.
const LAYER_PARTS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Tensors outside the layers: GGUF's name and Hugging Face's.
const WHOLE_PARTS: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// `blk.3.attn_q.weight` to `attn_q.weight`.
pub(crate) fn layer_part(gguf: &str) -> Option<&str> {
    let (layer, part) = gguf.strip_prefix("blk.")?.split_once('.')?;
    layer.parse::<usize>().is_ok().then_some(part)
}

/// `blk.3.attn_q.weight` to `model.layers.3.self_attn.q_proj.weight`.
pub(crate) fn hugging_face_name(gguf: &str) -> Option<String> {
    if let Some((_, name)) = WHOLE_PARTS.iter().find(|(part, _)| *part == gguf) {
        return Some((*name).to_owned());
    }
    let (part, kind) = layer_part(gguf)?.rsplit_once('.')?;
    let layer = gguf.split('.').nth(1)?;
    let (_, name) = LAYER_PARTS.iter().find(|(known, _)| *known == part)?;
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{name}.{kind}"))
}

/// The reverse of [`hugging_face_name`].
pub(crate) fn gguf_name(name: &str) -> Option<String> {
    if let Some((part, _)) = WHOLE_PARTS.iter().find(|(_, known)| *known == name) {
        return Some((*part).to_owned());
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let (gguf, _) = LAYER_PARTS.iter().find(|(_, known)| *known == part)?;
    Some(format!("blk.{layer}.{gguf}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (gguf, name) in [
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("output.weight", "lm_head.weight"),
            ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
            ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
        ] {
            assert_eq!(hugging_face_name(gguf).as_deref(), Some(name));
            assert_eq!(gguf_name(name).as_deref(), Some(gguf));
        }
        for unknown in ["blk.x.attn_q.weight", "blk.0.attn_q.scale", "blk.0.ssm_a.weight", "other"] {
            assert_eq!(hugging_face_name(unknown), None, "{unknown}");
        }
    }
}
