//! Names of tensors in GGUF files and in Hugging Face's.

/// Names of the tensors of a kind of model, without `.weight` and `.bias`: GGUF's and Hugging Face's.
#[derive(Debug)]
pub(crate) struct Naming {
    /// Hugging Face's name of the layers.
    layers: &'static str,
    /// Parts of a layer.
    layer_parts: &'static [(&'static str, &'static str)],
    /// Tensors outside the layers.
    whole_parts: &'static [(&'static str, &'static str)],
    /// The models that have these, for display.
    pub(crate) families: &'static str,
}

pub(crate) const DECODER: Naming = Naming {
    layers: "model.layers",
    layer_parts: &[
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
    ],
    whole_parts: &[("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")],
    families: "Llama, Qwen2 and Qwen3",
};

pub(crate) const ENCODER: Naming = Naming {
    layers: "bert.encoder.layer",
    layer_parts: &[
        ("attn_q", "attention.self.query"),
        ("attn_k", "attention.self.key"),
        ("attn_v", "attention.self.value"),
        ("attn_output", "attention.output.dense"),
        ("attn_output_norm", "attention.output.LayerNorm"),
        ("ffn_up", "intermediate.dense"),
        ("ffn_down", "output.dense"),
        ("layer_output_norm", "output.LayerNorm"),
    ],
    whole_parts: &[
        ("token_embd", "bert.embeddings.word_embeddings"),
        ("position_embd", "bert.embeddings.position_embeddings"),
        ("token_types", "bert.embeddings.token_type_embeddings"),
        ("token_embd_norm", "bert.embeddings.LayerNorm"),
        // RoBERTa's head, and DistilBERT's.
        ("cls", "classifier.dense"),
        ("cls.output", "classifier.out_proj"),
        ("cls", "pre_classifier"),
        ("cls.output", "classifier"),
    ],
    families: "BERT, RoBERTa, XLM-RoBERTa and DistilBERT",
};

pub(crate) const NOMIC: Naming = Naming {
    layers: "bert.encoder.layers",
    layer_parts: &[
        ("attn_qkv", "attn.Wqkv"),
        ("attn_output", "attn.out_proj"),
        ("attn_output_norm", "norm1"),
        ("ffn_up", "mlp.fc11"),
        ("ffn_gate", "mlp.fc12"),
        ("ffn_down", "mlp.fc2"),
        ("layer_output_norm", "norm2"),
    ],
    whole_parts: &[
        ("token_embd", "bert.embeddings.word_embeddings"),
        ("token_types", "bert.embeddings.token_type_embeddings"),
        ("token_embd_norm", "bert.emb_ln"),
    ],
    families: "Nomic BERT",
};

impl Naming {
    /// `blk.3.attn_q.weight` to `model.layers.3.self_attn.q_proj.weight`.
    pub(crate) fn hugging_face_name(&self, gguf: &str) -> Option<String> {
        let (part, kind) = parameter(gguf)?;
        if let Some((_, name)) = self.whole_parts.iter().find(|(known, _)| *known == part) {
            return Some(format!("{name}.{kind}"));
        }
        let part = layer_part(part)?;
        let layer = gguf.split('.').nth(1)?;
        let (_, name) = self.layer_parts.iter().find(|(known, _)| *known == part)?;
        Some(format!("{}.{layer}.{name}.{kind}", self.layers))
    }

    /// The reverse of [`hugging_face_name`](Self::hugging_face_name).
    fn gguf_name(&self, name: &str) -> Option<String> {
        let (part, kind) = parameter(name)?;
        if let Some((gguf, _)) = self.whole_parts.iter().find(|(_, known)| *known == part) {
            return Some(format!("{gguf}.{kind}"));
        }
        let (layer, part) = part.strip_prefix(self.layers)?.strip_prefix('.')?.split_once('.')?;
        let (gguf, _) = self.layer_parts.iter().find(|(_, known)| *known == part)?;
        Some(format!("blk.{layer}.{gguf}.{kind}"))
    }
}

/// Name in a GGUF file of a tensor by Hugging Face's name.
pub(crate) fn gguf_name(name: &str) -> Option<String> {
    [DECODER, ENCODER, NOMIC].iter().find_map(|naming| naming.gguf_name(name))
}

/// `blk.3.attn_q.weight` to `attn_q.weight`.
pub(crate) fn layer_part(gguf: &str) -> Option<&str> {
    let (layer, part) = gguf.strip_prefix("blk.")?.split_once('.')?;
    layer.parse::<usize>().is_ok().then_some(part)
}

/// `attn_q.weight` to `attn_q` and `weight`.
fn parameter(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(_, kind)| matches!(*kind, "weight" | "bias"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (naming, gguf, name) in [
            (&DECODER, "token_embd.weight", "model.embed_tokens.weight"),
            (&DECODER, "output.weight", "lm_head.weight"),
            (&DECODER, "blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
            (&DECODER, "blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
            (&ENCODER, "token_embd_norm.bias", "bert.embeddings.LayerNorm.bias"),
            (&ENCODER, "cls.output.weight", "classifier.out_proj.weight"),
            (&ENCODER, "blk.12.attn_output.weight", "bert.encoder.layer.12.attention.output.dense.weight"),
            (&ENCODER, "blk.0.layer_output_norm.bias", "bert.encoder.layer.0.output.LayerNorm.bias"),
            (&NOMIC, "blk.1.attn_qkv.weight", "bert.encoder.layers.1.attn.Wqkv.weight"),
            (&NOMIC, "token_embd_norm.bias", "bert.emb_ln.bias"),
        ] {
            assert_eq!(naming.hugging_face_name(gguf).as_deref(), Some(name));
            assert_eq!(gguf_name(name).as_deref(), Some(gguf));
        }
        assert_eq!(gguf_name("pre_classifier.bias").as_deref(), Some("cls.bias"));
        for unknown in ["blk.x.attn_q.weight", "blk.0.attn_q.scale", "blk.0.ssm_a.weight", "other"] {
            assert_eq!(DECODER.hugging_face_name(unknown), None, "{unknown}");
            assert_eq!(ENCODER.hugging_face_name(unknown), None, "{unknown}");
        }
    }
}
