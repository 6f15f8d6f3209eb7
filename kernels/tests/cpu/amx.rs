//! AMX against its model: bit for bit, where the CPU has it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use crate::common::*;
use prefold_kernels::*;
use rand::Rng;

/// AMX, if this process may use it.
fn amx() -> Option<Isa> {
    let amx = Isa::available().into_iter().find(|isa| isa.to_string() == "amx");
    if amx.is_none() {
        eprintln!("skipped: this CPU or system has no AMX");
    }
    amx
}

#[test]
fn products_are_those_of_the_model() {
    let Some(amx) = amx() else { return };
    let rng = &mut rng(5);
    for _ in 0..40 {
        let (m, n, k) = (rng.random_range(1..80), rng.random_range(1..120), rng.random_range(1..300));
        let weight = random::<bf16>(rng, n * k);
        let packed = PackedMatrix::<bf16>::pack(&weight, n, k).unwrap();
        let x = random::<bf16>(rng, m * k);
        let start = rng.random_range(0..n);
        let columns = start..rng.random_range(start..=n);
        let bias: Vec<f32> = random(rng, columns.len());
        for store in [Store::Overwrite, Store::Accumulate] {
            for bias in [None, Some(bias.as_slice())] {
                let gemm = Gemm { columns: columns.clone(), bias, store, ..Gemm::new(&x, &packed) };
                let mut outs = [(); 2].map(|()| vec![0.5; m * columns.len()]);
                gemm.run_with(amx, &mut outs[0]).unwrap();
                gemm.run_with(Isa::amx_model(), &mut outs[1]).unwrap();
                assert_eq!(bits(&outs[0]), bits(&outs[1]), "m {m} n {n} k {k}");
            }
        }
    }
}

#[test]
fn attention_is_that_of_the_model() {
    let Some(amx) = amx() else { return };
    let rng = &mut rng(6);
    for (num_heads, num_kv_heads, head_dim) in [(1, 1, 1), (4, 2, 20), (9, 3, 64), (3, 3, 33), (2, 1, 128), (5, 1, 80)]
    {
        let layout = QkvLayout { num_heads, num_kv_heads, head_dim };
        let tree = Tree::random(rng, 3, 150);
        let qkv: Vec<f32> = random(rng, tree.rows * layout.qkv_width());
        for window in [None, Some(20)] {
            let attention = Attention { window, ..fused(&qkv, layout, &tree.scatter, &tree.spans) };
            assert_model(amx, &attention, tree.rows);
        }
    }
}

#[test]
fn attention_with_positions_is_that_of_the_model() {
    let Some(amx) = amx() else { return };
    let rng = &mut rng(7);
    for head_dim in [16, 33, 96] {
        let layout = QkvLayout { num_heads: 2, num_kv_heads: 2, head_dim };
        let sequences = Sequences::random(rng, &[3, 33, 200]);
        let qkv: Vec<f32> = random(rng, sequences.rows() * layout.qkv_width());
        let (spans, path_lens) = sequences.whole();
        let tables = random::<f32>(rng, 399 * layout.q_width());
        let table = Some(RowView { data: &tables, row_stride: layout.q_width(), offset: 0 });
        let rows = DistanceRows::new(200, |distance| (199 + distance) as usize);
        let bias = RelativeBias::new(2, 200, |head, distance| (head as f32 - distance as f32) * 0.01);
        let attention = Attention {
            mask: Mask::Full { path_lens: &path_lens },
            bias: Some(&bias),
            positions: Some(RelativePositions { keys: table, queries: table, rows: &rows }),
            ..fused(&qkv, layout, &sequences.pages, &spans)
        };
        assert_model(amx, &attention, sequences.rows());
    }
}

/// Attention on tiles of AMX and of the model, into `rows` rows.
fn assert_model(amx: Isa, attention: &Attention<'_>, rows: usize) {
    let [on_tiles, on_model] = [amx, Isa::amx_model()].map(|isa| {
        let mut out = vec![0.0_f32; rows * attention.layout.q_width()];
        attention.run_with::<bf16, f32>(isa, &mut out).unwrap();
        out
    });
    assert_eq!(bits(&on_tiles), bits(&on_model), "{:?} {:?}", attention.layout, attention.window);
}
