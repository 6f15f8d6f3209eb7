//! Attention over paths and over whole sequences.

use super::*;
use half::f16;
use prefold_kernels::cuda;
use prefold_kernels::{Mask, QkvLayout, QuerySpan, RelativeBias, RelativePositions, RowView, bf16, reference};

/// Fused rows of q, k and v on a random tree, whole and as queries of one row each.
fn check_attention<T: Element + DeviceRepr>(gpu: &Gpu, seed: u64, layout: QkvLayout, window: Option<usize>) {
    let rng = &mut rng(seed);
    let tree = Tree::random(rng, 6, [5, 60, 300][seed as usize % 3]);
    let width = layout.qkv_width();
    let (qkv, wide) = values::<T>(rng, tree.rows * width);
    let pieces = match seed % 2 {
        0 => tree.spans.clone(),
        _ => cut(rng, &tree.spans, 1),
    };
    let op = prefold_kernels::Attention { window, ..fused(&wide, layout, &tree.scatter, &pieces) };
    check_on_device::<T>(gpu, &qkv, &op, &format!("seed {seed}"));
}

/// Whole sequences and pieces of them, each query seeing its whole sequence.
fn check_full<T: Element + DeviceRepr>(gpu: &Gpu, seed: u64, layout: QkvLayout, window: Option<usize>) {
    let rng = &mut rng(seed);
    let sequences = Sequences::random(rng, &[1, 3, 17, 64, 65, 150, 300]);
    let (qkv, wide) = values::<T>(rng, sequences.rows() * layout.qkv_width());
    let biases: Vec<f32> = random(rng, layout.num_heads * 601);
    let bias = RelativeBias::new(layout.num_heads, 300, |head, d| biases[head * 601 + (d + 300) as usize]);
    for (spans, path_lens) in [sequences.whole(), sequences.pieces(rng)] {
        for bias in [None, Some(&bias)].into_iter().take(if layout.group() == 1 { 2 } else { 1 }) {
            let mask = Mask::Full { path_lens: &path_lens };
            let op =
                prefold_kernels::Attention { mask, window, bias, ..fused(&wide, layout, &sequences.pages, &spans) };
            check_on_device::<T>(gpu, &qkv, &op, &format!("full, biased: {}, seed {seed}", bias.is_some()));
        }
    }
}

/// Compares attention over fused rows, whose spans cover every row, with the reference.
pub(super) fn check_on_device<T: Element + DeviceRepr>(
    gpu: &Gpu,
    qkv: &[T],
    op: &prefold_kernels::Attention<'_>,
    what: &str,
) {
    let layout = op.layout;
    let (half, width) = (size_of::<T>() == 2, layout.qkv_width());
    let expected = reference::attention(op);
    let wide_tiles = half && op.positions.is_none();
    let plan = AttentionPlan::new(layout, wide_tiles, op.pages, op.spans, op.mask).unwrap();
    let (words, rows, qkv) = (gpu.up(plan.words()), qkv.len() / width, gpu.up(qkv));
    let bias_up = op.bias.map(|bias| (bias, gpu.up(bias.values())));
    let table = |table: RowView<'_>| gpu.up(&table.data.iter().map(|&x| T::from_f32(x)).collect::<Vec<T>>());
    let positions = op.positions.as_ref().map(|positions| {
        let RelativePositions { keys, queries, rows } = positions;
        (rows, keys.map(table), queries.map(table), gpu.up(rows.values()))
    });
    let mut out = gpu.up(&vec![T::default(); rows * layout.q_width()]);
    let attention = cuda::Attention {
        q: Columns { data: qkv.as_view(), row_stride: width },
        kv: Columns { data: qkv.slice(layout.q_width()..), row_stride: width },
        plan: plan.on_device(words.as_view()).unwrap(),
        layout,
        scale: op.scale,
        window: op.window,
        bias: bias_up.as_ref().map(|(bias, values)| ScoreBias { bias, values: values.as_view() }),
        positions: positions.as_ref().map(|(rows, keys, queries, values)| cuda::RelativePositions {
            keys: keys.as_ref().map(|table| table.as_view()),
            queries: queries.as_ref().map(|table| table.as_view()),
            rows,
            values: values.as_view(),
        }),
    };
    attention.run(&gpu.kernels, &mut out.as_view_mut()).unwrap();
    let tolerance = if half { 2e-2 } else { 1e-5 };
    close(&format!("{layout:?} {:?} {what}", op.window), &gpu.down(&out), &expected, |_| tolerance);
}

#[test]
fn attention_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    let shapes = [
        (1, 1, 64),
        (4, 2, 64),
        (16, 8, 128),
        (32, 8, 128),
        (7, 1, 128),
        (3, 3, 80),
        (2, 1, 20),
        (9, 3, 1),
        (6, 2, 32),
        (2, 1, 96),
        (3, 1, 256),
    ];
    for (shape, (num_heads, num_kv_heads, head_dim)) in (0..).zip(shapes) {
        let layout = QkvLayout { num_heads, num_kv_heads, head_dim };
        for (i, window) in (0..).zip([None, Some(1), Some(3), Some(64), Some(100), None]) {
            check_attention::<f32>(&gpu, 10 * shape + i, layout, window);
            check_attention::<bf16>(&gpu, 10 * shape + i, layout, window);
            check_attention::<f16>(&gpu, 10 * shape + i, layout, window);
        }
    }
}

#[test]
fn full_attention_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    let shapes = [
        (1, 1, 64),
        (4, 2, 64),
        (2, 2, 128),
        (12, 12, 32),
        (3, 3, 16),
        (4, 2, 32),
        (2, 2, 80),
        (4, 2, 96),
        (3, 1, 256),
        (1, 1, 256),
    ];
    for (shape, (num_heads, num_kv_heads, head_dim)) in (0..).zip(shapes) {
        let layout = QkvLayout { num_heads, num_kv_heads, head_dim };
        for (i, window) in (0..).zip([None, Some(1), Some(9), Some(65)]) {
            check_full::<f32>(&gpu, 10 * shape + i, layout, window);
            check_full::<bf16>(&gpu, 10 * shape + i, layout, window);
            check_full::<f16>(&gpu, 10 * shape + i, layout, window);
        }
    }
}

#[test]
fn an_identity_plan_is_ordinary_attention() {
    let Some(gpu) = gpu() else { return };
    let layout = QkvLayout { num_heads: 8, num_kv_heads: 2, head_dim: 128 };
    let rng = &mut rng(77);
    let (q_width, kv_width, lengths) = (layout.q_width(), 2 * layout.kv_width(), [300_u32, 1, 129]);
    let total = lengths.iter().sum::<u32>();
    let ((q, q_wide), (kv, kv_wide)) =
        (values::<bf16>(rng, total as usize * q_width), values::<bf16>(rng, total as usize * kv_width));
    let mut row = 0;
    let spans = lengths.map(|len| {
        row += len;
        QuerySpan { row: row - len, len, depth: 0, path: row - len }
    });
    let pages: Vec<u32> = (0..total).collect();
    let op = prefold_kernels::Attention {
        q: RowView { data: &q_wide, row_stride: q_width, offset: 0 },
        k: RowView { data: &kv_wide, row_stride: kv_width, offset: 0 },
        v: RowView { data: &kv_wide, row_stride: kv_width, offset: layout.kv_width() },
        pages: &pages,
        spans: &spans,
        layout,
        scale: 0.1,
        mask: Mask::Causal,
        window: None,
        softcap: None,
        bias: None,
        positions: None,
    };
    let expected = reference::attention(&op);
    let plan = AttentionPlan::new(layout, true, &pages, &spans, Mask::Causal).unwrap();
    let (words, q, kv) = (gpu.up(plan.words()), gpu.up(&q), gpu.up(&kv));
    let mut out = gpu.up(&vec![bf16::ZERO; total as usize * q_width]);
    let attention = cuda::Attention {
        q: Columns { data: q.as_view(), row_stride: q_width },
        kv: Columns { data: kv.as_view(), row_stride: kv_width },
        plan: plan.on_device(words.as_view()).unwrap(),
        layout,
        scale: 0.1,
        window: None,
        bias: None,
        positions: None,
    };
    attention.run(&gpu.kernels, &mut out.as_view_mut()).unwrap();
    close("identity", &gpu.down(&out), &expected, |_| 2e-2);
}
