//! Tensors of a model's files that loading never reads, so that their effect is lost.

use super::capabilities::head::HeadSource;
use super::tensors;
use crate::config::names::bare;
use crate::config::{PositionsConfig, TransformerConfig};
use crate::formats::Weights;
use crate::json::first_names;
use std::convert::Infallible;

/// Tensors that a class of the same model computes, or that its config replaces: the last component of their names.
const BUFFERS: [&str; 9] = [
    "position_ids",
    "token_type_ids",
    "masked_bias",
    "num_batches_tracked",
    "inv_freq",
    "original_inv_freq",
    "cos_cached",
    "sin_cached",
    "embed_scale",
];

/// Causal masks that old code stored: the ends of their names.
const MASKS: [&str; 2] = ["attn.bias", "attention.bias"];

/// First components of the names of heads, without the prefix of a class. A model has the heads of the task that it was
/// trained for.
const HEADS: [&str; 18] = [
    "classifier",
    "cls",
    "decoder",
    "dense",
    "discriminator_predictions",
    "generator_lm_head",
    "generator_predictions",
    "head",
    "lm_head",
    "lm_predictions",
    "mask_predictions",
    "pooler",
    "pre_classifier",
    "qa_outputs",
    "score",
    "vocab_layer_norm",
    "vocab_projector",
    "vocab_transform",
];

/// Heads of classifiers.
const CLASSIFIERS: [&str; 2] = ["classifier", "score"];

/// The same in GGUF files, where dense modules that options replace have names too.
const GGUF_HEADS: [&str; 4] = ["cls", "dense_2", "dense_3", "output"];

/// A warning that names tensors of the files that nothing reads. Buffers and the heads of other tasks are left out.
pub(super) fn warning(config: &TransformerConfig, head: &HeadSource, weights: &Weights) -> Option<String> {
    let of_head = tensors::of_head(config, head);
    let mut read = Vec::new();
    let Ok(()) = config.try_each_tensor(|(name, _)| {
        read.push(name);
        Ok::<(), Infallible>(())
    });
    read.extend_from_slice(&of_head);
    let mut unread = weights.unread(&read);
    let is_gguf = matches!(weights, Weights::Gguf(_));
    unread.retain(|name| match is_gguf {
        true => !(GGUF_HEADS.contains(&first(name)) || *name == "rope_freqs.weight" && is_rotary(config)),
        false => !is_buffer(name) && !is_other_head(name, &of_head) && !is_left_out(name, config),
    });
    unread.sort_unstable();
    let names = first_names(&unread)?;
    Some(format!("the files have tensors that nothing reads, so vectors and scores may be wrong: {names}"))
}

/// A warning that names a classifier's tensors in a model whose config names no class.
pub(super) fn classifier_without_class(class: Option<&str>, head: &HeadSource, weights: &Weights) -> Option<String> {
    let is_unused = class.is_none() && !matches!(weights, Weights::Gguf(_)) && matches!(head, HeadSource::Dense { .. });
    let unread = if is_unused { weights.unread(&[]) } else { Vec::new() };
    let mut names: Vec<&str> = unread.into_iter().filter(|name| CLASSIFIERS.contains(&first(bare(name)))).collect();
    names.sort_unstable();
    let names = first_names(&names)?;
    Some(format!("config.json names no class in `architectures`, so the classifier in the files is not used: {names}"))
}

/// The first component of a name.
fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

fn is_rotary(config: &TransformerConfig) -> bool {
    matches!(config.positions, PositionsConfig::Rotary(_))
}

/// `true` for values that do not come from training.
fn is_buffer(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_mask = |end: &str| name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'));
    BUFFERS.contains(&last) || name.contains("rotary_emb.") || MASKS.iter().any(|end| is_mask(end))
}

/// `true` for a tensor of a head of which the task reads nothing.
fn is_other_head(name: &str, of_head: &[String]) -> bool {
    let head = first(bare(name));
    HEADS.contains(&head) && !of_head.iter().any(|name| first(bare(name)) == head)
}

/// `true` for what the family's own class leaves out: DeBERTa's learned positions, T5's second copy of the word
/// embeddings, and the adapters of jina-embeddings-v3 where the config declares none (another warning names them).
fn is_left_out(name: &str, config: &TransformerConfig) -> bool {
    let is_disentangled = matches!(config.positions, PositionsConfig::Disentangled(_));
    let is_lora = name.contains(".parametrizations.weight.0.lora_");
    let is_second_copy = name == "shared.weight" && config.names.words == "encoder.embed_tokens";
    is_second_copy
        || is_disentangled && bare(name) == "embeddings.position_embeddings.weight"
        || is_lora && config.adapters.is_none()
}
