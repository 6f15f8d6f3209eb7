//! Attention for the head sizes of the tensor core kernels, with and without biases. Separate from `attention`, which has too many tests for
//! the simulated device.

use super::attention::check_on_device;
use super::*;
use half::f16;
use prefold_kernels::{Mask, QkvLayout, RelativeBias, bf16};

/// A sequence longer than a tile and a block of keys, and short ones: with a full mask, and causal with a bias.
fn check<T: Element + DeviceRepr>(gpu: &Gpu, seed: u64, layout: QkvLayout, window: Option<usize>) {
    let rng = &mut rng(seed);
    let biases: Vec<f32> = random(rng, layout.num_heads * 301);
    let bias = RelativeBias::new(layout.num_heads, 150, |head, d| biases[head * 301 + (d + 150) as usize]);
    let lens = [130, 9, 2];
    let sequences = Sequences::random(rng, &lens);
    let (qkv, wide) = values::<T>(rng, sequences.rows() * layout.qkv_width());
    let (spans, path_lens) = sequences.whole();
    for bias in [None, Some(&bias)].into_iter().take(if layout.group() == 1 { 2 } else { 1 }) {
        let mask = if bias.is_none() { Mask::Full { path_lens: &path_lens } } else { Mask::Causal };
        let op = prefold_kernels::Attention { mask, window, bias, ..fused(&wide, layout, &sequences.pages, &spans) };
        let biased = bias.is_some();
        check_on_device::<T>(gpu, &qkv, &op, &format!("{layout:?}, {lens:?}, {mask:?}, biased: {biased}"));
    }
}

#[test]
fn every_head_size_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    // Head sizes of MiniLM, MPNet, XLM-R XL, Phi-3, Qwen3 and EmbeddingGemma, and one for the plain kernel.
    let shapes =
        [(2, 2, 32), (3, 1, 32), (1, 1, 64), (2, 1, 80), (1, 1, 96), (1, 1, 128), (3, 1, 256), (1, 1, 256), (1, 1, 40)];
    for (seed, (num_heads, num_kv_heads, head_dim)) in (0..).zip(shapes) {
        let layout = QkvLayout { num_heads, num_kv_heads, head_dim };
        let window = [None, Some(40)][seed as usize % 2];
        // The emulation compares both types.
        match seed % 2 {
            0 => check::<bf16>(&gpu, seed, layout, window),
            _ => check::<f16>(&gpu, seed, layout, window),
        }
    }
}
