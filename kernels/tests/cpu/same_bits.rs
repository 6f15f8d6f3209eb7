//! A row's result depends on that row's inputs alone, bit for bit, with every instruction set of this CPU.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use crate::common::*;
use prefold_kernels::*;
use proptest::prelude::*;
use rand::Rng;

thread_local! {
    /// One set of pools per test: a caller that finds a pool busy works without it.
    static POOLS: [ThreadPool; 3] = [1, 2, 5].map(ThreadPool::new);
}

/// Runs with each number of threads and fails if the results differ.
fn with_all_pools<A: Element>(f: impl Fn() -> Vec<A> + Sync) -> Vec<A> {
    let results: Vec<Vec<A>> = POOLS.with(|pools| pools.iter().map(|pool| pool.enter(&f)).collect());
    for result in &results {
        assert_eq!(bits(result), bits(&results[0]), "depends on the number of threads");
    }
    results[0].clone()
}

fn check_gemm<A: Float>(seed: u64, m: usize, n: usize, k: usize) {
    let rng = &mut rng(seed);
    let packed = PackedMatrix::<A>::pack(&random::<A>(rng, n * k), n, k).unwrap();
    let (x, bias) = (random::<A>(rng, m * k), random::<f32>(rng, n));
    let before: Vec<f32> = random(rng, m * n);
    let store = if rng.random() { Store::Accumulate } else { Store::Overwrite };
    let start = rng.random_range(0..n);
    let columns = start..rng.random_range(start + 1..=n);
    for isa in Isa::available() {
        let whole = with_all_pools(|| {
            let mut out = before.clone();
            Gemm { bias: Some(&bias), store, ..Gemm::new(&x, &packed) }.run_with(isa, &mut out).unwrap();
            out
        });
        for row in 0..m {
            let x = &x[row * k..][..k];
            let expected = &whole[row * n..][..n];
            let mut alone = before[row * n..][..n].to_vec();
            Gemm { bias: Some(&bias), store, ..Gemm::new(x, &packed) }.run_with(isa, &mut alone).unwrap();
            assert_eq!(bits(&alone), bits(expected), "{isa} row {row} alone");
            let mut some = before[row * n..][columns.clone()].to_vec();
            let gemm =
                Gemm { columns: columns.clone(), bias: Some(&bias[columns.clone()]), store, ..Gemm::new(x, &packed) };
            gemm.run_with(isa, &mut some).unwrap();
            assert_eq!(bits(&some), bits(&expected[columns.clone()]), "{isa} row {row} columns {columns:?}");
        }
    }
}

/// A product computed in ranges of columns, each written into a wider matrix whose other columns must not change.
fn check_column_parts<P: Packing>(seed: u64, m: usize, n: usize, k: usize) {
    let rng = &mut rng(seed);
    let packed = PackedMatrix::<P>::pack(&random::<f32>(rng, n * k), n, k).unwrap();
    let (x, bias) = (random::<P::Input>(rng, m * k), random::<f32>(rng, n));
    let start = rng.random_range(0..n);
    let columns = start..rng.random_range(start + 1..=n);
    let mut ends = vec![columns.start];
    while *ends.last().unwrap() < columns.end {
        let panels = ends.last().unwrap() / PANEL + rng.random_range(1..4);
        ends.push((panels * PANEL).min(columns.end));
    }
    let (width, skipped) = (columns.len() + 7, 3);
    let before: Vec<f32> = random(rng, m * width);
    let of_columns = |columns: &std::ops::Range<usize>| {
        let bias = Some(&bias[columns.clone()]);
        Gemm { columns: columns.clone(), bias, store: Store::Accumulate, ..Gemm::new(&x, &packed) }
    };
    let all = |start: usize, len: usize| start..start + (m - 1) * width + len;
    for isa in all_isas() {
        let run = |parts: &[usize], activation: Option<Activation>| {
            with_all_pools(|| {
                let mut out = before.clone();
                for ends in parts.windows(2) {
                    let part = ends[0]..ends[1];
                    let out = &mut out[all(skipped + part.start - columns.start, part.len())];
                    let gemm = Gemm { out_stride: Some(width), ..of_columns(&part) };
                    match activation {
                        None => gemm.run_with(isa, out).unwrap(),
                        Some(activation) => gemm.run_activated_with(isa, activation, out).unwrap(),
                    }
                }
                out
            })
        };
        for activation in [None, Some(Activation::Gelu)] {
            let whole = run(&[columns.start, columns.end], activation);
            assert_eq!(bits(&run(&ends, activation)), bits(&whole), "{isa} {ends:?}");
            let mut own: Vec<f32> =
                before.chunks(width).flat_map(|row| &row[skipped..][..columns.len()]).copied().collect();
            match activation {
                None => of_columns(&columns).run_with(isa, &mut own).unwrap(),
                Some(activation) => of_columns(&columns).run_activated_with(isa, activation, &mut own).unwrap(),
            }
            for (row, (found, own)) in whole.chunks(width).zip(own.chunks(columns.len())).enumerate() {
                let before = &before[row * width..][..width];
                let expected = [&before[..skipped], own, &before[skipped + columns.len()..]].concat();
                assert_eq!(bits(found), bits(&expected), "{isa} row {row}");
            }
        }
    }
}

/// Rows of a gated product alone, and panels alone.
fn check_gated<P: Packing, O: Element>(seed: u64, m: usize, intermediate: usize, k: usize) {
    let rng = &mut rng(seed);
    let mut packed = PackedMatrixBuilder::<P>::gated(intermediate, k).unwrap();
    packed.push(&random::<f32>(rng, 2 * intermediate * k)).unwrap();
    let packed = packed.finish().unwrap();
    let (x, bias) = (random::<P::Input>(rng, m * k), random::<f32>(rng, packed.rows()));
    let panel = rng.random_range(0..packed.rows() / PANEL);
    let columns = panel * PANEL..(panel + 1) * PANEL;
    let of_panel = columns.start / 2..(columns.end / 2).min(intermediate);
    for isa in Isa::available() {
        let run = |x: &[P::Input], columns: std::ops::Range<usize>, width: usize| {
            let mut out = vec![O::from_f32(7.0); x.len() / k * width];
            let gemm = Gemm { columns: columns.clone(), bias: Some(&bias[columns]), ..Gemm::new(x, &packed) };
            gemm.run_gated_with(isa, Activation::Silu, &mut out).unwrap();
            out
        };
        let whole = with_all_pools(|| run(&x, 0..packed.rows(), intermediate));
        for (x, expected) in x.chunks(k).zip(whole.chunks(intermediate)) {
            assert_eq!(bits(&run(x, 0..packed.rows(), intermediate)), bits(expected), "{isa} a row alone");
            let part = run(x, columns.clone(), of_panel.len());
            assert_eq!(bits(&part), bits(&expected[of_panel.clone()]), "{isa} a panel alone");
        }
    }
}

/// Attention by ranges of its work list, in any order.
fn check_attention_ranges<F: Float, E: Element>(seed: u64, layout: QkvLayout, max_len: usize, window: Option<usize>) {
    let rng = &mut rng(seed);
    let tree = Tree::random(rng, 5, max_len);
    let qkv: Vec<f32> = random(rng, tree.rows * layout.qkv_width());
    let attention = Attention { window, ..fused(&qkv, layout, &tree.scatter, &tree.spans) };
    let mut items = AttentionItems::new();
    items.list(&tree.spans, layout, attention.mask, window).unwrap();
    let (total, shares) = (items.cost(0..items.len()), rng.random_range(1..9));
    for isa in all_isas() {
        let run = |is_backwards: bool| {
            with_all_pools(|| {
                let (mut ranges, mut start) = (vec![], 0);
                while start < items.len() {
                    ranges.push(items.take(start, total / shares));
                    start = ranges[ranges.len() - 1].end;
                }
                if is_backwards {
                    ranges.reverse();
                }
                let mut out = vec![E::default(); tree.rows * layout.q_width()];
                for range in ranges {
                    attention.run_items_with::<F, E>(isa, &items, range, &mut out).unwrap();
                }
                out
            })
        };
        let mut whole = vec![E::default(); tree.rows * layout.q_width()];
        attention.run_with::<F, E>(isa, &mut whole).unwrap();
        assert_eq!(bits(&run(false)), bits(&whole), "{isa}");
        assert_eq!(bits(&run(true)), bits(&whole), "{isa} backwards");
    }
}

#[test]
fn items_of_other_calls_are_refused() {
    let layout = QkvLayout { num_heads: 4, num_kv_heads: 2, head_dim: 8 };
    let (qkv, pages) = (vec![0.0; 300 * layout.qkv_width()], (0..300).collect::<Vec<u32>>());
    let spans =
        [QuerySpan { row: 0, len: 100, depth: 0, path: 0 }, QuerySpan { row: 100, len: 200, depth: 0, path: 100 }];
    let mut items = AttentionItems::new();
    assert!(items.is_empty());
    items.list(&spans, layout, Mask::Causal, None).unwrap();
    // Two heads at each position: two tiles and four, of both heads.
    assert_eq!((items.len(), items.take(0, 0).len() <= items.len()), (12, true));
    let out = &mut vec![0.0_f32; 300 * layout.q_width()];
    let mut run =
        |attention: Attention<'_>, range: std::ops::Range<usize>| attention.run_items::<f32, f32>(&items, range, out);
    let own = fused(&qkv, layout, &pages, &spans);
    assert_eq!(run(own, 0..12), Ok(()));
    let argument = |result| match result {
        Err(KernelError::Index { argument, .. }) => argument,
        other => panic!("{other:?}"),
    };
    assert_eq!(argument(run(own, 0..13)), "end of the items");
    assert_eq!(argument(run(fused(&qkv, layout, &pages, &spans[..1]), 0..12)), "span of an item");
    let short = [spans[0], QuerySpan { len: 100, ..spans[1] }];
    assert_eq!(argument(run(fused(&qkv, layout, &pages, &short), 0..12)), "end of an item's queries");
    let one = QkvLayout { num_heads: 2, num_kv_heads: 1, head_dim: 8 };
    assert_eq!(argument(run(fused(&qkv, one, &pages, &spans), 0..12)), "head of an item");
}

/// Compact, ragged, cut and single-query attention over the same random tree.
fn check_attention<F: Float, E: Element>(seed: u64, layout: QkvLayout, max_len: usize, window: Option<usize>) {
    let rng = &mut rng(seed);
    let tree = Tree::random(rng, 5, max_len);
    let width = layout.qkv_width();
    let qkv: Vec<f32> = random(rng, tree.rows * width);
    let mut ragged = vec![0.0; tree.scatter.len() * width];
    gather_rows(&qkv, width, &tree.scatter, &mut ragged).unwrap();
    let identity: Vec<u32> = (0..tree.scatter.len() as u32).collect();
    let (some, single) = (cut(rng, &tree.spans, 40), cut(rng, &tree.spans, 1));
    for isa in all_isas() {
        let run = |qkv: &[f32], pages: &[u32], spans: &[QuerySpan]| {
            with_all_pools(|| {
                let mut out = vec![E::default(); qkv.len() / width * layout.q_width()];
                let attention = Attention { window, ..fused(qkv, layout, pages, spans) };
                attention.run_with::<F, E>(isa, &mut out).unwrap();
                out
            })
        };
        let compact = run(&qkv, &tree.scatter, &tree.spans);
        assert_eq!(bits(&compact), bits(&run(&qkv, &tree.scatter, &some)), "{isa} cut spans");
        assert_eq!(bits(&compact), bits(&run(&qkv, &tree.scatter, &single)), "{isa} single queries");
        let mut expanded = vec![E::default(); tree.scatter.len() * layout.q_width()];
        gather_rows(&compact, layout.q_width(), &tree.scatter, &mut expanded).unwrap();
        assert_eq!(bits(&run(&ragged, &identity, &tree.ragged_spans())), bits(&expanded), "{isa} ragged");
    }
}

/// Full attention of whole sequences, of pieces of them, of single queries and of one sequence alone.
fn check_full_attention<F: Float, E: Element>(seed: u64, layout: QkvLayout, window: Option<usize>) {
    let rng = &mut rng(seed);
    let lens = [rng.random_range(1..200), rng.random_range(1..80), rng.random_range(1..20)];
    let sequences = Sequences::random(rng, &lens);
    let qkv: Vec<f32> = random(rng, sequences.rows() * layout.qkv_width());
    let bias = RelativeBias::new(layout.num_heads, 200, |head, distance| (head as f32 - distance as f32) * 0.01);
    let bias = (layout.group() == 1 && rng.random()).then_some(&bias);
    let (whole, lens) = sequences.whole();
    let single = cut(rng, &whole, 1);
    let path_of = |span: &QuerySpan| whole.iter().position(|whole| whole.path == span.path).unwrap_or(0);
    let single_lens: Vec<u32> = single.iter().map(|span| lens[path_of(span)]).collect();
    let (pieces, piece_lens) = sequences.pieces(rng);
    for isa in all_isas() {
        let run = |spans: &[QuerySpan], path_lens: &[u32]| {
            with_all_pools(|| {
                let mut out = vec![E::default(); sequences.rows() * layout.q_width()];
                let mask = Mask::Full { path_lens };
                let attention = Attention { mask, window, bias, ..fused(&qkv, layout, &sequences.pages, spans) };
                attention.run_with::<F, E>(isa, &mut out).unwrap();
                out
            })
        };
        let expected = run(&whole, &lens);
        assert_eq!(bits(&expected), bits(&run(&pieces, &piece_lens)), "{isa} pieces");
        assert_eq!(bits(&expected), bits(&run(&single, &single_lens)), "{isa} single queries");
        let rows = whole[1].row as usize * layout.q_width()..(whole[1].row + whole[1].len) as usize * layout.q_width();
        let alone = run(&whole[1..2], &lens[1..2]);
        assert_eq!(bits(&expected[rows.clone()]), bits(&alone[rows]), "{isa} alone");
    }
}

/// NaN and infinity in some rows' keys and values: queries that see a NaN give NaN, all others the same bits as before.
fn check_isolation<F: Float, E: Element>(
    seed: u64,
    layout: QkvLayout,
    max_len: usize,
    window: Option<usize>,
    bad: f32,
) {
    let rng = &mut rng(seed);
    let tree = Tree::random(rng, 4, max_len);
    let width = layout.qkv_width();
    let clean: Vec<f32> = random(rng, tree.rows * width);
    let bad_row = rng.random_range(0..tree.rows);
    let in_keys: bool = rng.random();
    let mut qkv = clean.clone();
    let part = layout.q_width() + if in_keys { 0 } else { layout.kv_width() };
    qkv[bad_row * width + part..][..layout.kv_width()].fill(bad);
    for isa in all_isas() {
        let run = |qkv: &[f32]| {
            let mut out = vec![E::default(); tree.rows * layout.q_width()];
            let attention = Attention { window, ..fused(qkv, layout, &tree.scatter, &tree.spans) };
            attention.run_with::<F, E>(isa, &mut out).unwrap();
            out
        };
        let (before, after) = (run(&clean), run(&qkv));
        for span in &tree.spans {
            for i in 0..span.len as usize {
                let position = span.depth as usize + i;
                let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
                let sees = tree.scatter[span.path as usize..][first..=position].contains(&(bad_row as u32));
                let row = (span.row as usize + i) * layout.q_width()..(span.row as usize + i + 1) * layout.q_width();
                if !sees {
                    assert_eq!(bits(&after[row.clone()]), bits(&before[row]), "{isa} position {position}");
                } else if bad.is_nan() {
                    assert!(after[row].iter().all(|x| x.to_f32().is_nan()), "{isa} position {position} hides a NaN");
                }
            }
        }
    }
}

/// Disentangled attention with biases: a query alone and with others, by one thread and by several, in spans of whole sequences and in
/// pieces, and next to a sequence of NaN. Distances beyond `reach` share a row.
fn check_positions<F: Float, E: Element>(seed: u64, head_dim: usize, reach: isize) {
    let (rng, layout) = (&mut rng(seed), QkvLayout { num_heads: 2, num_kv_heads: 2, head_dim });
    let (sequences, width) = (Sequences::random(rng, &[2, 31, 66, 200]), layout.q_width());
    let qkv = random::<f32>(rng, sequences.rows() * layout.qkv_width());
    let tables = random::<f32>(rng, 2 * (2 * reach as usize + 1) * width);
    let rows = DistanceRows::new(200, |distance| (reach + distance.clamp(-reach, reach)) as usize);
    let table = |offset| Some(RowView { data: &tables, row_stride: 2 * width, offset });
    let positions = Some(RelativePositions { keys: table(0), queries: table(width), rows: &rows });
    let bias = RelativeBias::new(2, 200, |head, distance| (head as f32 - distance as f32) * 0.01);
    let (whole, lens) = sequences.whole();
    let (pieces, piece_lens) = sequences.pieces(rng);
    let alone = |row: u32, span: &QuerySpan| QuerySpan { row, len: 1, depth: row - span.row, path: span.path };
    let every = |span: &QuerySpan| (span.row..span.row + span.len).step_by(13);
    let singles: Vec<QuerySpan> = whole.iter().flat_map(|span| every(span).map(|row| alone(row, span))).collect();
    let single_lens: Vec<u32> = whole.iter().flat_map(|span| vec![span.len; every(span).count()]).collect();
    let mut with_nan = qkv.clone();
    let bad = whole[2].row as usize..(whole[2].row + whole[2].len) as usize;
    for i in bad.clone() {
        with_nan[i * layout.qkv_width()..][..width].fill(f32::NAN);
        with_nan[sequences.pages[i] as usize * layout.qkv_width()..][width..layout.qkv_width()].fill(f32::NAN);
    }
    for isa in all_isas() {
        let run = |qkv: &[f32], spans: &[QuerySpan], path_lens: &[u32]| {
            let mask = Mask::Full { path_lens };
            let bias = Some(&bias);
            let attention = Attention { mask, positions, bias, ..fused(qkv, layout, &sequences.pages, spans) };
            with_all_pools(|| {
                let mut out = vec![E::default(); sequences.rows() * width];
                attention.run_with::<F, E>(isa, &mut out).unwrap();
                out
            })
        };
        let expected = run(&qkv, &whole, &lens);
        assert_eq!(bits(&run(&qkv, &pieces, &piece_lens)), bits(&expected), "{isa} pieces");
        let found = run(&qkv, &singles, &single_lens);
        for row in singles.iter().map(|span| span.row as usize * width..(span.row as usize + 1) * width) {
            assert_eq!(bits(&found[row.clone()]), bits(&expected[row]), "{isa} single queries");
        }
        let found = run(&with_nan, &whole, &lens);
        let (before, after) = (..bad.start * width, bad.end * width..);
        assert_eq!(bits(&found[before]), bits(&expected[before]), "{isa} before a sequence of NaN");
        assert_eq!(bits(&found[after.clone()]), bits(&expected[after]), "{isa} after a sequence of NaN");
        assert!(found[bad.start * width..bad.end * width].iter().all(|x| x.to_f32().is_nan()), "{isa} hides a NaN");
    }
}

#[test]
fn positions() {
    for (seed, head_dim, reach) in [(1, 16, 40), (2, 33, 199)] {
        check_positions::<f32, f32>(seed, head_dim, reach);
        check_positions::<bf16, bf16>(seed, head_dim, reach);
    }
}

/// More queries than an item has with a window over more than two key tiles, and a group of half a block.
#[test]
fn attention_of_several_items() {
    for (num_heads, num_kv_heads, head_dim, max_len, window) in [(6, 2, 12, 600, Some(300)), (16, 1, 33, 200, None)] {
        let layout = QkvLayout { num_heads, num_kv_heads, head_dim };
        check_attention_ranges::<f32, f32>(4, layout, max_len, window);
        check_attention_ranges::<bf16, f32>(4, layout, max_len, window);
    }
}

fn layouts() -> impl Strategy<Value = QkvLayout> {
    let groups = prop_oneof![Just((1, 1)), Just((2, 1)), Just((4, 2)), Just((9, 3)), Just((5, 1))];
    let dims = prop_oneof![Just(3_usize), Just(8), Just(20), Just(64)];
    (groups, dims).prop_map(|((num_heads, num_kv_heads), head_dim)| QkvLayout { num_heads, num_kv_heads, head_dim })
}

fn windows() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), Just(Some(1)), Just(Some(20)), Just(Some(64)), Just(Some(90))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gemm(seed: u64, m in 1..50_usize, n in 1..150_usize, k in prop_oneof![1..80_usize, 600..1400_usize]) {
        check_gemm::<f32>(seed, m, n, k);
        check_gemm::<bf16>(seed, m, n, k);
    }

    #[test]
    fn column_parts(seed: u64, m in 1..50_usize, n in 1..300_usize, k in 1..80_usize) {
        check_column_parts::<f32>(seed, m, n, k);
        check_column_parts::<bf16>(seed, m, n, k);
        check_column_parts::<Int8>(seed, m, n, k);
    }

    #[test]
    fn gated(seed: u64, m in 1..50_usize, intermediate in 1..150_usize, k in prop_oneof![1..80_usize, 600..1400_usize]) {
        check_gated::<f32, f32>(seed, m, intermediate, k);
        check_gated::<bf16, bf16>(seed, m, intermediate, k);
        check_gated::<Int8, f32>(seed, m, intermediate, k);
    }

    #[test]
    fn attention_ranges(seed: u64, layout in layouts(), window in windows()) {
        check_attention_ranges::<f32, f32>(seed, layout, 300, window);
        check_attention_ranges::<bf16, f32>(seed, layout, 300, window);
    }

    #[test]
    fn attention(seed: u64, layout in layouts(), max_len in 1..200_usize, window in windows()) {
        check_attention::<f32, f32>(seed, layout, max_len, window);
        check_attention::<bf16, f32>(seed, layout, max_len, window);
    }

    #[test]
    fn full_attention(seed: u64, layout in layouts(), window in windows()) {
        check_full_attention::<f32, f32>(seed, layout, window);
        check_full_attention::<bf16, f32>(seed, layout, window);
    }

    #[test]
    fn attention_isolation(seed: u64, layout in layouts(), max_len in 1..200_usize, window in windows()) {
        for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
            check_isolation::<f32, f32>(seed, layout, max_len, window, bad);
            check_isolation::<bf16, f32>(seed, layout, max_len, window, bad);
        }
    }
}

#[test]
fn gemm_of_many_blocks() {
    check_gemm::<f32>(1, 350, 600, 30);
    check_gemm::<bf16>(1, 350, 600, 30);
    // More bytes than a block on tiles has.
    check_gemm::<bf16>(1, 350, 70, 1300);
    check_gated::<bf16, bf16>(1, 350, 40, 1300);
}

#[test]
fn element_wise_rows_alone() {
    let (rows, width) = (300, 333);
    let rng = &mut rng(3);
    let x: Vec<f32> = random(rng, rows * 2 * width);
    let weight: Vec<f32> = random(rng, width);
    for isa in Isa::available() {
        let norm = |x: &[f32]| {
            let mut out = vec![0.0_f32; x.len()];
            rms_norm_with(isa, x, &weight, 1e-6, &mut out).unwrap();
            out
        };
        let silu = |x: &[f32]| {
            let mut out = vec![bf16::ZERO; x.len() / 2];
            activate_mul_with(isa, Activation::Silu, x, width, &mut out).unwrap();
            out
        };
        let layer_norm = |x: &[f32]| {
            let mut out = x.to_vec();
            LayerNorm { weight: &weight, bias: &weight, eps: 1e-6 }.run_in_place_with(isa, &mut out).unwrap();
            out
        };
        let gelu = |x: &[f32]| {
            let mut out = vec![0.0_f32; x.len()];
            Activation::Gelu.run_with(isa, x, &mut out).unwrap();
            out
        };
        let (all_norm, all_silu) = (with_all_pools(|| norm(&x)), with_all_pools(|| silu(&x)));
        let (all_layer_norm, all_gelu) = (with_all_pools(|| layer_norm(&x)), with_all_pools(|| gelu(&x)));
        for row in 0..rows {
            let x = &x[row * 2 * width..][..2 * width];
            assert_eq!(bits(&norm(x)), bits(&all_norm[row * 2 * width..][..2 * width]), "{isa}");
            assert_eq!(bits(&layer_norm(x)), bits(&all_layer_norm[row * 2 * width..][..2 * width]), "{isa}");
            assert_eq!(bits(&gelu(x)), bits(&all_gelu[row * 2 * width..][..2 * width]), "{isa}");
            assert_eq!(bits(&silu(x)), bits(&all_silu[row * width..][..width]), "{isa}");
        }
    }
}
