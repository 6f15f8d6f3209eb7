//! Attention with every instruction set of this CPU, and with the model of AMX, against the reference in f64.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use crate::common::*;
use prefold_kernels::*;

/// Heads of an attention layer.
fn layout(num_heads: usize, num_kv_heads: usize, head_dim: usize) -> QkvLayout {
    QkvLayout { num_heads, num_kv_heads, head_dim }
}

/// Runs with operands of both types and compares with the reference. The spans have all rows, in order.
fn check(what: &str, attention: &Attention<'_>) {
    let expected = reference::attention(attention);
    check_type::<f32>(what, attention, &expected, 4e-6);
    check_type::<bf16>(what, attention, &expected, 3e-2);
}

fn check_type<A: Float>(what: &str, attention: &Attention<'_>, expected: &[f64], tolerance: f64) {
    for isa in all_isas() {
        let mut out = Unaligned::new(&vec![A::default(); expected.len()]);
        attention.run_with::<A, A>(isa, out.get_mut()).unwrap();
        let Attention { layout, window, .. } = attention;
        assert_close(&format!("{isa} {what} {layout:?} {window:?}"), out.get(), expected, |_| tolerance);
    }
}

/// Causal attention over a prefix tree: most spans have ancestors.
fn check_tree(seed: u64, layout: QkvLayout, max_len: usize, window: Option<usize>) {
    check_bounded_tree(seed, layout, max_len, window, None);
}

fn check_bounded_tree(seed: u64, layout: QkvLayout, max_len: usize, window: Option<usize>, softcap: Option<f32>) {
    let rng = &mut rng(seed);
    let tree = Tree::random(rng, 4, max_len);
    let qkv = Unaligned::new(&random::<f32>(rng, tree.rows * layout.qkv_width()));
    let attention = Attention { window, softcap, ..fused(qkv.get(), layout, &tree.scatter, &tree.spans) };
    check(&format!("tree, bound {softcap:?}"), &attention);
}

#[test]
fn attention_matches_the_reference() {
    let layouts = [
        layout(1, 1, 1),
        layout(2, 1, 5),
        layout(4, 2, 16),
        layout(9, 3, 64),
        layout(2, 1, 128),
        layout(5, 5, 20),
        layout(70, 1, 8),
    ];
    for (seed, layout) in (0..).zip(layouts) {
        for window in [None, Some(1), Some(3), Some(64), Some(100), Some(usize::MAX)] {
            check_tree(seed, layout, 150, window);
        }
        // Scores are far above the first bound, and around the second.
        for (window, softcap) in [(Some(64), 0.05), (None, 1.5)] {
            check_bounded_tree(seed, layout, 150, window, Some(softcap));
        }
    }
}

#[test]
fn attention_of_wide_heads() {
    for (seed, head_dim) in (0..).zip([33, 80, 96, 192, 256, 500, 512]) {
        for window in [None, Some(100)] {
            check_tree(seed, layout(2, 1, head_dim), 150, window);
        }
    }
}

/// More queries per head than an item has, with windows over three key tiles and more. Few threads, so that items are as long as they get.
#[test]
fn attention_of_several_items_and_many_key_tiles() {
    let layout = layout(3, 1, 8);
    let (prefix, lens) = (300, [900, 700]);
    // Two sequences with a common prefix: the first is one span, the second continues after the prefix.
    let rows = lens[0] + lens[1] - prefix;
    let pages: Vec<u32> = (0..lens[0]).chain(0..prefix).chain(lens[0]..rows).collect();
    let spans = [
        QuerySpan { row: 0, len: lens[0], depth: 0, path: 0 },
        QuerySpan { row: lens[0], len: lens[1] - prefix, depth: prefix, path: lens[0] },
    ];
    let qkv: Vec<f32> = random(&mut rng(11), rows as usize * layout.qkv_width());
    ThreadPool::new(1).enter(|| {
        let mut items = AttentionItems::new();
        items.list(&spans, layout, Mask::Causal, None).unwrap();
        assert_eq!(items.len(), 3 + 2, "items of 1,024 of the 2,700 and of the 1,200 queries");
        let causal = fused(&qkv, layout, &pages, &spans);
        let full = Attention { mask: Mask::Full { path_lens: &lens }, ..causal };
        for window in [None, Some(300), Some(400)] {
            check("causal", &Attention { window, ..causal });
        }
        check("full", &Attention { window: Some(270), ..full });
    });
}

/// Every length up to one more than a block of queries.
#[test]
fn attention_of_every_short_length() {
    let lens: Vec<u32> = (1..=33).collect();
    for layout in [layout(1, 1, 7), layout(16, 1, 20)] {
        let rng = &mut rng(12);
        let sequences = Sequences::random(rng, &lens);
        let qkv: Vec<f32> = random(rng, sequences.rows() * layout.qkv_width());
        let (spans, path_lens) = sequences.whole();
        for window in [None, Some(5)] {
            let causal = Attention { window, ..fused(&qkv, layout, &sequences.pages, &spans) };
            check("causal", &causal);
            check("full", &Attention { mask: Mask::Full { path_lens: &path_lens }, ..causal });
        }
    }
}

/// Disentangled attention: one or both of the two terms, spans of whole sequences and in pieces.
fn check_positions(seed: u64, head_dim: usize, rows: &DistanceRows) {
    let (rng, layout) = (&mut rng(seed), layout(3, 3, head_dim));
    let sequences = Sequences::random(rng, &[1, 3, 17, 64, 65, 150, 161]);
    let qkv = Unaligned::new(&random::<f32>(rng, sequences.rows() * layout.qkv_width()));
    let count = rows.values()[rows.values().len() - 1] as usize + 1;
    let tables = random::<f32>(rng, 2 * count * layout.q_width());
    let table = |offset| Some(RowView { data: &tables, row_stride: 2 * layout.q_width(), offset });
    let (keys, queries) = (table(0), table(layout.q_width()));
    for (spans, path_lens) in [sequences.whole(), sequences.pieces(rng)] {
        let mask = Mask::Full { path_lens: &path_lens };
        for (keys, queries) in [(keys, queries), (keys, None), (None, queries)] {
            let positions = Some(RelativePositions { keys, queries, rows });
            check("positions", &Attention { mask, positions, ..fused(qkv.get(), layout, &sequences.pages, &spans) });
        }
    }
}

#[test]
fn attention_with_positions() {
    let bucket = |distance: isize| match distance.abs() {
        near @ ..=20 => near,
        far => 20 + (far - 6) / 15,
    };
    // Far distances share a row, or every distance has its own: a block of queries and a tile of keys then use 159 rows.
    let shared = DistanceRows::new(161, |distance| (31 + bucket(distance) * distance.signum()) as usize);
    let own = DistanceRows::new(161, |distance| (160 + distance) as usize);
    for (seed, head_dim, rows) in [(1, 8, &shared), (2, 20, &own), (3, 64, &shared), (4, 33, &own)] {
        check_positions(seed, head_dim, rows);
    }
}

/// Spans of whole sequences and pieces of them over a shuffled page table, each seeing its whole sequence.
fn check_full_attention(seed: u64, layout: QkvLayout, window: Option<usize>, is_biased: bool) {
    let rng = &mut rng(seed);
    let sequences = Sequences::random(rng, &[1, 3, 17, 64, 65, 150]);
    let qkv = Unaligned::new(&random::<f32>(rng, sequences.rows() * layout.qkv_width()));
    let biases: Vec<f32> = random(rng, layout.num_heads * 301);
    let bias = RelativeBias::new(layout.num_heads, 150, |head, d| biases[head * 301 + (d + 150) as usize]);
    let bias = is_biased.then_some(&bias);
    for (spans, path_lens) in [sequences.whole(), sequences.pieces(rng)] {
        let mask = Mask::Full { path_lens: &path_lens };
        let attention = Attention { mask, window, bias, ..fused(qkv.get(), layout, &sequences.pages, &spans) };
        check(if is_biased { "biased" } else { "full" }, &attention);
    }
}

#[test]
fn full_attention_matches_the_reference() {
    for (seed, layout) in (0..).zip([layout(1, 1, 1), layout(3, 3, 16), layout(4, 2, 20), layout(2, 2, 64)]) {
        for window in [None, Some(1), Some(9), Some(65), Some(usize::MAX)] {
            for is_biased in [false, true].into_iter().take(if layout.group() == 1 { 2 } else { 1 }) {
                check_full_attention(seed, layout, window, is_biased);
            }
        }
    }
}

/// Attention of one head of one value over a causal sequence, for rows of `[q, k, v]`.
fn of_rows<A: Float>(isa: Isa, qkv: &[[f32; 3]], bias: Option<&RelativeBias>) -> Vec<f32> {
    let pages: Vec<u32> = (0..qkv.len() as u32).collect();
    let spans = [QuerySpan { row: 0, len: qkv.len() as u32, depth: 0, path: 0 }];
    let mut out = vec![0.0_f32; qkv.len()];
    let attention = Attention { bias, ..fused(qkv.as_flattened(), layout(1, 1, 1), &pages, &spans) };
    attention.run_with::<A, f32>(isa, &mut out).unwrap();
    out
}

#[test]
fn attention_of_extreme_values() {
    // All but the own key, in 300 keys of three tiles, with the score -infinity.
    let own = RelativeBias::new(1, 300, |_, distance| if distance == 0 { 1.0 } else { f32::NEG_INFINITY });
    let rows: Vec<[f32; 3]> = (0..300).map(|i| [1.0, -1.0, (i % 256) as f32]).collect();
    let values: Vec<f64> = rows.iter().map(|row| row[2].into()).collect();
    let tiny = f32::from_bits(0x0003_0000);
    for isa in all_isas() {
        let check = |qkv: &[[f32; 3]], bias, expected: &[f64], rounding: f64| {
            assert_close(&format!("{isa} f32"), &of_rows::<f32>(isa, qkv, bias), expected, |_| 0.0);
            let tolerance = |i: usize| expected[i].abs() * rounding;
            assert_close(&format!("{isa} bf16"), &of_rows::<bf16>(isa, qkv, bias), expected, tolerance);
        };
        check(&rows, Some(&own), &values, 0.0);
        // Scores of +-10,000 and of +-1e8: all weight on one key.
        for size in [100.0, 10_000.0] {
            let large = [[size, size, 1.0], [size, -size, 2.0], [-size, size / 2.0, 4.0]];
            check(&large, None, &[1.0, 1.0, 2.0], rounding::<bf16>());
        }
        // The largest values that bf16 represents, alone and with their opposites.
        let max = bf16::MAX.to_f32();
        check(&[[0.0, 0.0, max], [0.0, 0.0, -max]], None, &[max.into(), 0.0], 0.0);
        // Denormals are themselves in f32; AMX takes them as 0.
        check(&[[tiny, tiny, tiny], [1.0, tiny, tiny]], None, &[tiny.into(); 2], 1.0);
    }
}

#[test]
fn attention_refuses_what_does_not_fit() {
    let layout = layout(2, 1, 4);
    let qkv = vec![0.0; 3 * layout.qkv_width()];
    let span = QuerySpan { row: 0, len: 3, depth: 0, path: 0 };
    let run = |pages: &[u32], spans: &[QuerySpan], rows: usize| {
        fused(&qkv, layout, pages, spans).run::<f32, f32>(&mut vec![0.0_f32; rows * layout.q_width()])
    };
    run(&[0, 1, 2], &[span], 3).unwrap();
    run(&[], &[], 0).unwrap();
    assert!(matches!(run(&[0, 1, 2], &[span], 2), Err(KernelError::Index { argument: "end of a span", .. })));
    assert!(matches!(run(&[0, 1, 3], &[span], 3), Err(KernelError::Index { argument: "page", found: 3, limit: 3 })));
    assert!(matches!(run(&[0, 1], &[span], 3), Err(KernelError::Index { argument: "end of a span's path", .. })));
    assert!(matches!(run(&[0, 1, 2], &[span, span], 3), Err(KernelError::Value { .. })));
    let long = QuerySpan { depth: 1 << 24, ..span };
    assert!(matches!(run(&[0, 1, 2], &[long], 3), Err(KernelError::Index { argument: "path length", .. })));
    let ragged = QkvLayout { num_kv_heads: 3, ..layout };
    let attention = Attention { layout: ragged, ..fused(&qkv, layout, &[0, 1, 2], &[]) };
    assert!(matches!(
        attention.run::<f32, f32>(&mut [0.0_f32; 0]),
        Err(KernelError::Value { argument: "num_heads", .. })
    ));
    let spans = [span];
    let full = |path_lens| Attention { mask: Mask::Full { path_lens }, ..fused(&qkv, layout, &[0, 1, 2], &spans) };
    let run = |path_lens| full(path_lens).run::<f32, f32>(&mut vec![0.0_f32; 3 * layout.q_width()]);
    run(&[3]).unwrap();
    assert!(matches!(run(&[]), Err(KernelError::Length { argument: "path lengths", .. })));
    assert!(matches!(run(&[2]), Err(KernelError::Value { argument: "path length", found: 2, .. })));
    assert!(matches!(run(&[4]), Err(KernelError::Index { argument: "end of a path", found: 4, .. })));
    let bias = RelativeBias::new(2, 3, |_, _| 0.0);
    let attention = Attention { bias: Some(&bias), ..full(&[3]) };
    assert!(matches!(
        attention.run::<f32, f32>(&mut [0.0_f32; 24]),
        Err(KernelError::Value { argument: "num_kv_heads", .. })
    ));
    let own = QkvLayout { num_heads: 1, num_kv_heads: 1, ..layout };
    let bias = RelativeBias::new(1, 2, |_, _| 0.0);
    let attention = Attention { bias: Some(&bias), ..fused(&qkv, own, &[0, 1, 2], &spans) };
    assert!(matches!(
        attention.run::<f32, f32>(&mut [0.0_f32; 12]),
        Err(KernelError::Index { found: 3, limit: 3, .. })
    ));
    let attention = Attention { window: Some(0), ..fused(&qkv, layout, &[0, 1, 2], &[]) };
    assert!(matches!(attention.run::<f32, f32>(&mut [0.0_f32; 0]), Err(KernelError::Value { argument: "window", .. })));
}
