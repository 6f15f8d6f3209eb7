//! Sizes, activations, norms and biases.

use super::*;

/// No lists with a kind for each layer, whose length could contradict the number of layers.
fn plain_layers() -> Value {
    json!({"layer_types": null, "full_attn_idxs": null})
}

const WIDTHS: [usize; 5] = [32, 64, 128, 256, 1024];
const LAYERS: [usize; 5] = [1, 2, 3, 6, 24];
const HEADS: [usize; 5] = [1, 2, 4, 8, 16];
const INNER: [usize; 5] = [8, 48, 100, 512, 11_008];
const LENGTHS: [usize; 5] = [64, 128, 512, 2048, 8192];
const EPSILONS: [f64; 5] = [1e-12, 1e-7, 1e-6, 1e-5, 1e-3];

pub(super) fn cases() -> Vec<Case> {
    let decoders = DECODERS.concat();
    let encoders = ENCODERS.concat();
    let usual = [ABSOLUTE, OTHERS, MODERNBERT].concat();
    [widths(&usual, &decoders), blocks(&usual, &decoders), norms(&decoders)]
        .into_iter()
        .flatten()
        .chain([same(&[&encoders, &decoders], "vocab_size", json!({}), json!([2, 100, 1000, 32_000, 250_002]), |it| {
            json!(it.vocab_size)
        })])
        .collect()
}

fn widths(usual: &[&'static str], decoders: &[&'static str]) -> Vec<Case> {
    let width: fn(&TransformerConfig) -> Value = |it| json!(it.hidden_size);
    let of_heads: fn(&TransformerConfig) -> Value = |it| json!(4 * it.attention.head_dim);
    let four = json!({"num_attention_heads": 4, "embedding_size": 8});
    let of_nomic = json!({"n_head": 4, "n_embd": null});
    vec![
        same(&[usual, decoders], "hidden_size", four.clone(), json!(WIDTHS), width),
        same(
            &[usual, LLAMA, QWEN2, LFM2],
            "hidden_size",
            and(&four, json!({"head_dim": null})),
            json!(WIDTHS),
            of_heads,
        ),
        same(&[DISTILBERT], "dim", json!({}), json!(WIDTHS), width),
        same(&[DISTILBERT], "dim", json!({"n_heads": 4}), json!(WIDTHS), of_heads),
        same(&[NOMIC], "n_embd", json!({"n_head": 4}), json!(WIDTHS), width),
        same(&[NOMIC], "n_embd", json!({"n_head": 4}), json!(WIDTHS), of_heads),
        same(&[NOMIC], "hidden_size", of_nomic, json!(WIDTHS), width),
        same(&[T5], "d_model", json!({}), json!(WIDTHS), width),
        // Beside the class's own name, which they overrule.
        same(&[DISTILBERT, T5], "hidden_size", json!({}), json!(WIDTHS), width),
        same(&[&["electra-tiny"]], "embedding_size", json!({"hidden_size": 32}), json!([1, 4, 8, 16, 32]), |it| {
            json!(it.embeddings.size)
        }),
        gives(
            &[&["electra-tiny"]],
            "embedding_size",
            json!({"hidden_size": 32}),
            json!([[null, 32], [64, REFUSED]]),
            |it| json!(it.embeddings.size),
        ),
    ]
}

fn blocks(usual: &[&'static str], decoders: &[&'static str]) -> Vec<Case> {
    let layers: fn(&TransformerConfig) -> Value = |it| json!(it.num_layers);
    let heads: fn(&TransformerConfig) -> Value = |it| json!([it.attention.num_heads, it.sliding_windows.len()][0]);
    let head_dim: fn(&TransformerConfig) -> Value = |it| json!(it.attention.head_dim);
    let inner: fn(&TransformerConfig) -> Value = |it| json!(it.feed_forward.intermediate_size);
    let one = json!({"hidden_size": 128, "num_key_value_heads": 1, "n_head": null, "embedding_size": 8});
    let sixteen = json!({"hidden_size": 128, "num_attention_heads": 16});
    let exact = json!({"block_auto_adjust_ff_dim": false});
    let others: Vec<&str> = decoders.iter().copied().filter(|it| !LFM2.contains(it)).collect();
    vec![
        same(&[usual, decoders], "num_hidden_layers", plain_layers(), json!(LAYERS), layers),
        same(&[DISTILBERT], "n_layers", json!({}), json!(LAYERS), layers),
        same(&[NOMIC], "n_layer", json!({}), json!(LAYERS), layers),
        same(&[NOMIC], "num_hidden_layers", json!({"n_layer": null}), json!(LAYERS), layers),
        same(&[T5], "num_layers", json!({}), json!(LAYERS), layers),
        same(&[DISTILBERT, T5], "num_hidden_layers", json!({}), json!(LAYERS), layers),
        same(&[usual, decoders], "num_attention_heads", one, json!(HEADS), heads),
        same(&[DISTILBERT], "n_heads", json!({"dim": 128}), json!(HEADS), heads),
        same(&[NOMIC], "n_head", json!({"n_embd": 128}), json!(HEADS), heads),
        same(&[NOMIC], "num_attention_heads", json!({"n_embd": 128, "n_head": null}), json!(HEADS), heads),
        same(&[T5], "num_heads", json!({}), json!(HEADS), heads),
        same(&[DISTILBERT], "num_attention_heads", json!({"dim": 128}), json!(HEADS), heads),
        same(&[T5], "num_attention_heads", json!({}), json!(HEADS), heads),
        same(&[decoders], "num_key_value_heads", sixteen, json!(HEADS), |it| json!(it.attention.num_kv_heads)),
        same(&[decoders], "head_dim", json!({}), json!([2, 8, 64, 128, 256]), head_dim),
        same(&[T5], "d_kv", json!({}), json!([2, 8, 64, 128, 256]), head_dim),
        same(&[T5], "head_dim", json!({}), json!([2, 8, 64, 128, 256]), head_dim),
        same(&[usual, &others], "intermediate_size", json!({}), json!(INNER), inner),
        same(&[DISTILBERT], "hidden_dim", json!({}), json!(INNER), inner),
        same(&[NOMIC], "n_inner", json!({}), json!(INNER), inner),
        same(&[NOMIC], "intermediate_size", json!({"n_inner": null}), json!(INNER), inner),
        same(&[T5], "d_ff", json!({}), json!(INNER), inner),
        same(&[LFM2], "block_ff_dim", exact.clone(), json!(INNER), inner),
        same(
            &[LFM2],
            "intermediate_size",
            and(&exact, json!({"block_ff_dim": null, "block_auto_adjust_ff_dim": false})),
            json!(INNER),
            inner,
        ),
        same(&[usual, decoders], "max_position_embeddings", json!({"pad_token_id": 1}), json!(LENGTHS), |it| match it
            .positions
        {
            crate::config::PositionsConfig::Learned(positions) => json!(positions.rows),
            _ => json!(it.max_position_embeddings),
        }),
        same(&[DISTILBERT], "max_position_embeddings", json!({}), json!(LENGTHS), |it| {
            json!(it.max_position_embeddings)
        }),
        same(&[NOMIC], "n_positions", json!({}), json!(LENGTHS), |it| json!(it.max_position_embeddings)),
        same(&[NOMIC], "max_position_embeddings", json!({"n_positions": null}), json!(LENGTHS), |it| {
            json!(it.max_position_embeddings)
        }),
    ]
}

fn norms(decoders: &[&'static str]) -> Vec<Case> {
    let eps: fn(&TransformerConfig) -> Value = |it| json!(it.norm.eps);
    let others: Vec<&str> = decoders.iter().copied().filter(|it| !LFM2.contains(it)).collect();
    vec![
        same(&[ABSOLUTE, OTHERS], "layer_norm_eps", json!({}), json!(EPSILONS), eps),
        same(&[MODERNBERT, LFM2], "norm_eps", json!({}), json!(EPSILONS), eps),
        // As its class in transformers, which has no such field.
        gives(&[MODERNBERT], "layer_norm_eps", json!({"norm_eps": null}), json!([[0.3, 1e-5], [null, 1e-5]]), eps),
        same(&[NOMIC, T5], "layer_norm_epsilon", json!({}), json!(EPSILONS), eps),
        same(&[NOMIC], "layer_norm_eps", json!({"layer_norm_epsilon": null}), json!(EPSILONS), eps),
        same(&[&others], "rms_norm_eps", json!({}), json!(EPSILONS), eps),
    ]
}
