//! Names of tensors in GGUF files and in Hugging Face's.

use crate::config::{MaskConfig, NormPlacement};
use crate::formats::families::Family;

/// Names of a family's tensors, without `.weight` and `.bias`: GGUF's and Hugging Face's.
#[derive(Debug)]
pub(crate) struct Naming {
    /// Hugging Face's name of the layers.
    layers: &'static str,
    /// Parts of a layer.
    layer_parts: Vec<(&'static str, &'static str)>,
    /// Tensors outside the layers.
    whole_parts: Vec<(&'static str, &'static str)>,
    /// Matrices of all experts of a layer: complete names in Hugging Face's files.
    experts: Vec<(&'static str, &'static str)>,
    /// The bias of the experts, which converters leave out.
    experts_bias: &'static str,
}

/// The matrices of all experts of a layer, `[experts, intermediate, hidden]` and `[experts, hidden, intermediate]`.
pub(super) const EXPERTS_UP: &str = "ffn_up_exps";
pub(super) const EXPERTS_DOWN: &str = "ffn_down_exps";

/// Dense modules of sentence-transformers, in their order.
pub(super) const DENSE: [&str; 2] = ["dense_2", "dense_3"];

impl Naming {
    /// The names of a family's tensors.
    pub(crate) fn new(family: &Family) -> Self {
        let names = &family.names;
        let [attention_norm, attention_output_norm, feed_forward_norm] = match family.norm_placement {
            NormPlacement::Post if names.attention_output_norm.is_empty() => {
                ["attn_output_norm", "", "layer_output_norm"]
            }
            NormPlacement::Post => ["attn_norm_2", "attn_output_norm", "layer_output_norm"],
            NormPlacement::Pre | NormPlacement::PrePost => ["attn_norm", "post_attention_norm", "ffn_norm"],
        };
        // Gate and up projection in one matrix have the name of the up projection.
        let gate = if names.gate == names.up { "" } else { names.gate };
        let [q, k, v] = if names.q == names.v { ["attn_qkv", "", ""] } else { ["attn_q", "attn_k", "attn_v"] };
        let layer_parts = [
            (attention_norm, names.attention_norm),
            (q, names.q),
            (k, names.k),
            (v, names.v),
            ("attn_output", names.output),
            ("attn_q_norm", names.q_norm),
            ("attn_k_norm", names.k_norm),
            (attention_output_norm, names.attention_output_norm),
            (feed_forward_norm, names.feed_forward_norm),
            ("post_ffw_norm", names.feed_forward_output_norm),
            ("ffn_gate", gate),
            ("ffn_up", names.up),
            ("ffn_down", names.down),
            ("ffn_gate_inp", names.router),
        ];
        let experts = [(EXPERTS_UP, names.experts_up), (EXPERTS_DOWN, names.experts_down)];
        let is_classifier = family.gguf.is_some_and(|gguf| gguf.classifier);
        let head = family.classifier.layers.iter().take_while(|_| is_classifier);
        let head = ["cls", "cls.output"].into_iter().zip(head);
        let head = head.flat_map(|(gguf, layer)| [(gguf, layer.name), ("cls.norm", layer.norm)]);
        let whole_parts = [
            ("token_embd", names.words),
            ("position_embd", names.positions),
            ("token_types", names.token_types),
            ("token_embd_norm", names.embedding_norm),
            ("output_norm", names.final_norm),
            ("output", if family.mask == MaskConfig::Causal { "lm_head" } else { "" }),
        ];
        let is_dense = family.gguf.is_some_and(|gguf| gguf.dense);
        let dense = DENSE.into_iter().filter(|_| is_dense).map(|name| (name, name));
        let is_there = |(gguf, name): &(&str, &str)| !gguf.is_empty() && !name.is_empty();
        Self {
            layers: names.layers,
            layer_parts: layer_parts.into_iter().filter(is_there).collect(),
            whole_parts: whole_parts.into_iter().chain(head).filter(is_there).chain(dense).collect(),
            experts: experts.into_iter().filter(is_there).collect(),
            experts_bias: names.experts_bias,
        }
    }

    /// `true` if a tensor is one of the family's.
    pub(crate) fn knows(&self, gguf: &str) -> bool {
        let Some((part, _)) = parameter(gguf) else { return false };
        let is_part = |parts: &[(&str, &str)], part: &str| parts.iter().any(|(known, _)| *known == part);
        let is_of_layer = |part: &str| is_part(&self.layer_parts, part) || is_part(&self.experts, part);
        is_part(&self.whole_parts, part) || layer_part(part).is_some_and(is_of_layer)
    }

    /// `model.layers.3.self_attn.q_proj.weight` to `blk.3.attn_q.weight`.
    pub(crate) fn gguf_name(&self, name: &str) -> Option<String> {
        if let Some((layer, part)) = self.of_layer(name)
            && let Some((gguf, _)) = self.experts.iter().find(|(_, known)| *known == part)
        {
            return Some(format!("blk.{layer}.{gguf}.weight"));
        }
        let (part, kind) = parameter(name)?;
        if let Some((gguf, _)) = self.whole_parts.iter().find(|(_, known)| *known == part) {
            return Some(format!("{gguf}.{kind}"));
        }
        let (layer, part) = self.of_layer(part)?;
        let (gguf, _) = self.layer_parts.iter().find(|(_, known)| *known == part)?;
        Some(format!("blk.{layer}.{gguf}.{kind}"))
    }

    /// `true` for the bias of a layer's experts.
    pub(super) fn is_experts_bias(&self, name: &str) -> bool {
        self.of_layer(name).is_some_and(|(_, part)| part == self.experts_bias)
    }

    /// The number of a layer, and the name of a part of it.
    fn of_layer<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        name.strip_prefix(self.layers)?.strip_prefix('.')?.split_once('.')
    }
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
    use crate::formats::families;

    #[test]
    fn names_of_each_architecture() {
        let naming = |model_type: &str| {
            Naming::new(families::of_gguf().map(|(it, _)| it).find(|it| it.model_type == model_type).unwrap())
        };
        for (model_type, gguf, name) in [
            ("llama", "token_embd.weight", "model.embed_tokens.weight"),
            ("llama", "output.weight", "lm_head.weight"),
            ("qwen2", "blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
            ("qwen3", "blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
            ("roberta", "token_embd_norm.bias", "roberta.embeddings.LayerNorm.bias"),
            ("roberta", "cls.output.weight", "classifier.out_proj.weight"),
            ("roberta", "blk.12.attn_output.weight", "roberta.encoder.layer.12.attention.output.dense.weight"),
            ("roberta", "blk.0.layer_output_norm.bias", "roberta.encoder.layer.0.output.LayerNorm.bias"),
            ("distilbert", "cls.bias", "pre_classifier.bias"),
            ("modernbert", "cls.norm.weight", "head.norm.weight"),
            ("nomic_bert", "blk.1.attn_qkv.weight", "bert.encoder.layers.1.attn.Wqkv.weight"),
            ("nomic_bert", "blk.1.ffn_gate_inp.weight", "bert.encoder.layers.1.mlp.router.layer.weight"),
            ("nomic_bert", "token_embd_norm.bias", "bert.emb_ln.bias"),
            ("nomic_bert", "blk.1.ffn_down_exps.weight", "bert.encoder.layers.1.mlp.experts.mlp.w2"),
            ("modernbert", "blk.0.ffn_up.weight", "model.layers.0.mlp.Wi.weight"),
            ("gemma3_text", "blk.2.post_ffw_norm.weight", "model.layers.2.post_feedforward_layernorm.weight"),
            ("gemma3_text", "dense_3.weight", "dense_3.weight"),
            ("xlm-roberta", "blk.1.attn_qkv.bias", "roberta.encoder.layers.1.mixer.Wqkv.bias"),
        ] {
            let naming = naming(model_type);
            assert_eq!(naming.gguf_name(name).as_deref(), Some(gguf));
            assert!(naming.knows(gguf), "{gguf}");
        }
        for unknown in ["blk.x.attn_q.weight", "blk.0.attn_q.scale", "blk.0.ssm_a.weight", "other"] {
            assert!(!naming("llama").knows(unknown) && !naming("roberta").knows(unknown), "{unknown}");
        }
        assert!(!naming("nomic_bert").knows("cls.weight") && !naming("roberta").knows("output.weight"));
    }
}
