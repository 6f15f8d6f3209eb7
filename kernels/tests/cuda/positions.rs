//! Attention with relative position embeddings. Separate from `attention`, which has too many tests for the simulated device.

use super::attention::check_on_device;
use super::*;
use half::f16;
use prefold_kernels::{DistanceRows, Mask, QkvLayout, RelativePositions, RowView, bf16};

/// Sequences of up to three blocks of keys, whole and in pieces; both terms and each alone; far distances that share a row.
fn check<T: Element + DeviceRepr>(gpu: &Gpu, seed: u64, head_dim: usize, window: Option<usize>) {
    let rng = &mut rng(seed);
    let layout = QkvLayout { num_heads: 2, num_kv_heads: 2, head_dim };
    let sequences = Sequences::random(rng, &[1, 17, 64, 130]);
    let (qkv, wide) = values::<T>(rng, sequences.rows() * layout.qkv_width());
    let middle = 2 * 16 * seed as isize;
    let rows = DistanceRows::new(130, |distance| {
        let (near, far) = (distance.clamp(-middle / 2, middle / 2), distance - distance.clamp(-middle / 2, middle / 2));
        (middle + near + far.div_euclid(9).clamp(-middle / 2, middle / 2)) as usize
    });
    let tables = [0, 1].map(|_| values::<T>(rng, (2 * middle as usize + 1) * layout.q_width()).1);
    let [keys, queries] = tables.each_ref().map(|data| Some(RowView { data, row_stride: layout.q_width(), offset: 0 }));
    for (spans, path_lens) in [sequences.whole(), sequences.pieces(rng)] {
        for (keys, queries) in [(keys, queries), (keys, None), (None, queries)] {
            let (mask, positions) =
                (Mask::Full { path_lens: &path_lens }, Some(RelativePositions { keys, queries, rows: &rows }));
            let op = prefold_kernels::Attention {
                mask,
                window,
                positions,
                ..fused(&wide, layout, &sequences.pages, &spans)
            };
            let terms = (keys.is_some(), queries.is_some());
            check_on_device::<T>(gpu, &qkv, &op, &format!("positions {terms:?}, seed {seed}"));
        }
    }
}

/// With 16-bit types, heads of 64 values use the tensor core kernel.
#[test]
fn scores_of_distances_match_the_reference() {
    let Some(gpu) = gpu() else { return };
    for (seed, head_dim, window) in [(1, 20, None), (2, 64, None), (4, 64, Some(40))] {
        check::<f32>(&gpu, seed, head_dim, window);
        check::<bf16>(&gpu, seed, head_dim, window);
        check::<f16>(&gpu, seed, head_dim, window);
    }
}
