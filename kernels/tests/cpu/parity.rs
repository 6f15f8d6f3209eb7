//! Every operation except products, with every instruction set of this CPU, against its reference in f64.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use crate::common::*;
use prefold_kernels::*;

#[test]
fn layer_norm_matches_the_reference() {
    for (rows, width, size) in [(1, 1, 1.0), (3, 7, 1e3), (5, 32, 1e-3), (40, 384, 1.0), (30, 1000, 10.0)] {
        let rng = &mut rng(width as u64);
        let x: Vec<f32> = random::<f32>(rng, rows * width).iter().map(|x| (x + 0.5) * size).collect();
        let x = Unaligned::new(&x);
        let (weight, bias) = (Unaligned::new(&random(rng, width)), Unaligned::new(&random(rng, width)));
        let norm = LayerNorm { weight: weight.get(), bias: bias.get(), eps: 1e-5 };
        let expected = reference::layer_norm(&norm, x.get());
        let tolerance = |i: usize| 4e-6 * (1.0 + f64::from(weight.get()[i % width].abs()) * (width as f64).sqrt());
        for isa in Isa::available() {
            let mut out = Unaligned::new(&vec![0.0_f32; rows * width]);
            norm.run_with(isa, x.get(), out.get_mut()).unwrap();
            assert_close(&format!("{isa} {width}"), out.get(), &expected, tolerance);
            let mut in_place = Unaligned::new(x.get());
            norm.run_in_place_with(isa, in_place.get_mut()).unwrap();
            assert_eq!(bits(in_place.get()), bits(out.get()), "{isa} {width} in place");
            // The same between columns that must not change.
            let (stride, offset) = (width + 5, 3);
            let mut wide = vec![7.0_f32; rows * stride];
            let columns = |row: usize| row * stride + offset..row * stride + offset + width;
            (0..rows).for_each(|row| wide[columns(row)].copy_from_slice(&x.get()[row * width..][..width]));
            norm.run_columns_with(isa, &mut wide, stride, offset).unwrap();
            for row in 0..rows {
                assert_eq!(
                    bits(&wide[columns(row)]),
                    bits(&out.get()[row * width..][..width]),
                    "{isa} {width} columns"
                );
            }
            assert_eq!(wide.iter().filter(|&&x| x == 7.0).count(), rows * 5, "{isa} {width} columns");
            let mut half = vec![bf16::ZERO; rows * width];
            norm.run_with(isa, x.get(), &mut half).unwrap();
            let rounded: Vec<bf16> = out.get().iter().map(|&x| bf16::from_f32(x)).collect();
            assert_eq!(bits(&half), bits(&rounded), "{isa} {width} bf16");
        }
    }
}

#[test]
fn layer_norm_of_what_is_not_finite_is_nan() {
    let norm = LayerNorm { weight: &[1.0; 20], bias: &[0.0; 20], eps: 1e-5 };
    for isa in Isa::available() {
        for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
            let mut x = [[1.0_f32; 20]; 2].concat();
            (x[3], x[4]) = (bad, -bad);
            norm.run_in_place_with(isa, &mut x).unwrap();
            assert!(x[..20].iter().all(|x| x.is_nan()) && x[20..].iter().all(|&x| x == 0.0), "{isa} {bad}: {x:?}");
        }
    }
    assert!(matches!(norm.run_in_place(&mut [0.0; 30]), Err(KernelError::Rows { .. })));
    assert!(matches!(norm.run_columns(&mut [0.0; 44], 22, 3), Err(KernelError::Index { argument: "offset", .. })));
    assert!(matches!(norm.run_columns(&mut [0.0; 44], 23, 3), Err(KernelError::Rows { .. })));
    assert!(matches!(norm.run(&[0.0; 20], &mut [0.0_f32; 40]), Err(KernelError::Length { .. })));
    let short = LayerNorm { bias: &[0.0; 19], ..norm };
    assert!(matches!(short.run_in_place(&mut [0.0; 20]), Err(KernelError::Length { argument: "bias", .. })));
}

#[test]
fn activations_match_the_reference() {
    let mut x: Vec<f32> = (-2400..2400).map(|i| i as f32 * 0.005).collect();
    x.extend([0.0, -0.0, 1e-20, -1e-20, 30.0, -30.0, 1e4, -1e4, f32::NAN]);
    for kind in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
        let expected: Vec<f64> = x.iter().map(|&x| reference::activation(kind, x)).collect();
        for isa in Isa::available() {
            let mut out = vec![0.0_f32; x.len()];
            kind.run_with(isa, &x, &mut out).unwrap();
            let is_nan = out.pop().is_some_and(f32::is_nan);
            let tolerance = |i: usize| 3e-7 * (1.0 + f64::from(x[i].abs()));
            assert_close(&format!("{isa} {kind:?}"), &out, &expected[..out.len()], tolerance);
            assert!(is_nan, "{isa} {kind:?} hides a NaN");
            let mut half = vec![bf16::ZERO; out.len()];
            kind.run_with(isa, &x[..out.len()], &mut half).unwrap();
            let tolerance = |i: usize| rounding::<bf16>() * expected[i].abs() + 6e-5 + 1e-5 * f64::from(x[i].abs());
            assert_close(&format!("{isa} {kind:?} bf16"), &half, &expected[..half.len()], tolerance);
        }
    }
    assert!(matches!(Activation::Gelu.run(&[0.0; 3], &mut [0.0_f32; 2]), Err(KernelError::Length { .. })));
}

fn check_rms_norm<A: Element>(rows: usize, width: usize, size: f32) {
    let rng = &mut rng(width as u64);
    let x: Vec<f32> = random::<f32>(rng, rows * width).iter().map(|x| x * size).collect();
    let (x, weight) = (Unaligned::new(&x), Unaligned::new(&random::<f32>(rng, width)));
    let expected = reference::rms_norm(x.get(), weight.get(), 1e-6);
    for isa in Isa::available() {
        let mut out = Unaligned::new(&vec![A::default(); rows * width]);
        rms_norm_with(isa, x.get(), weight.get(), 1e-6, out.get_mut()).unwrap();
        assert_close(&format!("{isa} {width}"), out.get(), &expected, |i| rounding::<A>() * expected[i].abs() + 1e-30);
    }
}

#[test]
fn rms_norm_add_is_the_norm_and_the_sum() {
    for width in [1, 7, 16, 65, 576] {
        let rng = &mut rng(width as u64);
        let [x, before] = [0, 1].map(|_| random::<f32>(rng, 40 * width));
        let weight = random::<f32>(rng, width);
        for isa in Isa::available() {
            let (mut normed, mut out) = (vec![0.0_f32; x.len()], before.clone());
            rms_norm_with(isa, &x, &weight, 1e-6, &mut normed).unwrap();
            rms_norm_add_with(isa, &x, &weight, 1e-6, &mut out).unwrap();
            let sums: Vec<f32> = normed.iter().zip(&before).map(|(x, y)| x + y).collect();
            assert_eq!(bits(&out), bits(&sums), "{isa} {width}");
        }
    }
    assert!(matches!(rms_norm_add(&[0.0; 4], &[1.0; 2], 1e-6, &mut [0.0; 2]), Err(KernelError::Length { .. })));
}

#[test]
fn rms_norm_matches_the_reference() {
    for width in [1, 3, 8, 15, 16, 17, 63, 64, 65, 128, 576, 1000] {
        for size in [1.0, 1e-6, 1e6] {
            check_rms_norm::<f32>(3, width, size);
            check_rms_norm::<bf16>(3, width, size);
        }
    }
    check_rms_norm::<f32>(300, 576, 1.0);
    check_rms_norm::<bf16>(600, 576, 1.0);
}

#[test]
fn a_row_whose_squares_overflow_has_no_norm() {
    let x = [1e20, -1e20, 0.0, 1e19];
    for isa in Isa::available() {
        let mut out = [0.0f32; 4];
        rms_norm_with(isa, &x, &[1.0; 4], 1e-6, &mut out).unwrap();
        assert!(out.iter().all(|value| value.is_nan()), "{isa}: {out:?}");
    }
}

const ACTIVATIONS: [Activation; 4] = [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu];

fn check_activate_mul<A: Element>(rows: usize, width: usize) {
    let rng = &mut rng(width as u64);
    let size = |x: &f32| x * 20.0;
    let gate_up = Unaligned::new(&random::<f32>(rng, rows * 2 * width).iter().map(size).collect::<Vec<_>>());
    for activation in ACTIVATIONS {
        let expected = reference::activate_mul(activation, gate_up.get(), width);
        for isa in Isa::available() {
            let mut out = Unaligned::new(&vec![A::default(); rows * width]);
            activate_mul_with(isa, activation, gate_up.get(), width, out.get_mut()).unwrap();
            // The error of the activation, times the other factor.
            let tolerance = |i: usize| {
                let start = i / width * 2 * width + i % width;
                let [gate, up] = [start, start + width].map(|at| f64::from(gate_up.get()[at].abs()));
                let error = match (activation, A::DTYPE) {
                    (Activation::Silu, _) => 1e-30,
                    (Activation::Gelu, Dtype::Bfloat16) => (6e-5 + 1e-5 * gate) * up,
                    _ => 3e-7 * (1.0 + gate) * up,
                };
                rounding::<A>() * expected[i].abs() + error
            };
            assert_close(&format!("{isa} {activation:?} {width}"), out.get(), &expected, tolerance);
        }
    }
}

#[test]
fn activate_mul_matches_the_reference() {
    for width in [1, 7, 8, 16, 31, 100] {
        check_activate_mul::<f32>(3, width);
        check_activate_mul::<bf16>(3, width);
    }
    check_activate_mul::<f32>(200, 1536);
    check_activate_mul::<bf16>(200, 1536);
}

#[test]
fn activate_mul_of_extreme_values() {
    let gates = [f32::NAN, f32::INFINITY, 1e30, 88.0, 0.0, -0.0, -60.0, -87.0, -95.0, -103.0, -200.0, -1e30];
    for isa in Isa::available() {
        for gate in gates {
            let mut out = [0.0];
            activate_mul_with(isa, Activation::Silu, &[gate, 1.0], 1, &mut out).unwrap();
            let silu = || reference::activate_mul(Activation::Silu, &[gate, 1.0], 1)[0];
            let expected = if gate == 1e30 { 1e30_f32.into() } else { silu() };
            assert_close(&format!("{isa} {gate}"), &out, &[expected], |_| 3e-6 * expected.abs() + 1e-36);
        }
    }
}

fn check_rope(heads: usize, dim: usize, norm: bool) {
    let rng = &mut rng((heads * 1000 + dim) as u64);
    let inv_freq: Vec<f64> = (0..dim / 2).map(|i| 10_000_f64.powf(-2.0 * i as f64 / dim as f64)).collect();
    let table = RopeTable::new(&inv_freq, 500);
    let weights: (Vec<f32>, Vec<f32>) = (random(rng, dim), random(rng, dim));
    // A column before, q, a column between, one k head, and a column after.
    let row_width = heads * dim + dim + 3;
    let spans = [
        HeadSpan { offset: 1, num_heads: heads, norm: norm.then_some(weights.0.as_slice()) },
        HeadSpan { offset: heads * dim + 2, num_heads: 1, norm: norm.then_some(weights.1.as_slice()) },
    ];
    let position_ids = [0, 499, 17, 3];
    let op = QkNormRope { table: &table, position_ids: &position_ids, row_width, spans: &spans, eps: 1e-5 };
    let rows: Vec<f32> = random(rng, 4 * row_width);
    let expected = reference::qk_norm_rope(&op, &inv_freq, &rows);
    for isa in Isa::available() {
        let mut rows = Unaligned::new(&rows);
        op.run_with(isa, rows.get_mut()).unwrap();
        assert_close(&format!("{isa} {heads} x {dim}"), rows.get(), &expected, |_| 1e-5);
    }
}

#[test]
fn qk_norm_rope_matches_the_reference() {
    for dim in [2, 6, 16, 30, 64, 128] {
        for norm in [false, true] {
            check_rope(1, dim, norm);
            check_rope(3, dim, norm);
        }
    }
}

#[test]
fn qk_norm_rope_refuses_what_does_not_fit() {
    let table = RopeTable::new(&[1.0, 0.5], 10);
    let spans = [HeadSpan { offset: 0, num_heads: 2, norm: None }];
    let op = QkNormRope { table: &table, position_ids: &[9], row_width: 8, spans: &spans, eps: 0.0 };
    op.run(&mut [0.0; 8]).unwrap();
    assert!(matches!(op.run(&mut [0.0; 16]), Err(KernelError::Length { .. })));
    let far = QkNormRope { position_ids: &[10], ..op };
    assert!(matches!(far.run(&mut [0.0; 8]), Err(KernelError::Index { found: 10, limit: 10, .. })));
    let narrow = QkNormRope { row_width: 7, ..op };
    assert!(matches!(narrow.run(&mut [0.0; 7]), Err(KernelError::Index { .. })));
    let spans = [HeadSpan { norm: Some(&[1.0; 3]), ..spans[0] }];
    assert!(matches!(QkNormRope { spans: &spans, ..op }.run(&mut [0.0; 8]), Err(KernelError::Length { .. })));
}

#[test]
fn embed_rows_widens_rows_and_adds_them() {
    let rng = &mut rng(9);
    let (table, ids): (Vec<bf16>, Vec<u32>) = (random(rng, 50 * 333), (0..400).map(|i| i * 7 % 50).collect());
    let before: Vec<f32> = random(rng, 400 * 333);
    for store in [Store::Overwrite, Store::Accumulate] {
        let mut out = before.clone();
        embed_rows(&table, 333, &ids, store, &mut out).unwrap();
        for ((out, before), &id) in out.chunks(333).zip(before.chunks(333)).zip(&ids) {
            for ((out, before), x) in out.iter().zip(before).zip(&table[id as usize * 333..]) {
                let before = if store == Store::Accumulate { *before } else { 0.0 };
                assert_eq!(out.to_bits(), (before + x.to_f32()).to_bits());
            }
        }
    }
    let outside = embed_rows(&table, 333, &[50], Store::Overwrite, &mut [0.0; 333]);
    assert!(matches!(outside, Err(KernelError::Index { argument: "id", found: 50, limit: 50 })));
}

#[test]
fn convert_rounds_to_nearest() {
    let x: Vec<f32> = random(&mut rng(10), 20_003);
    let expected: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
    for isa in Isa::available() {
        let mut out = Unaligned::new(&vec![bf16::ZERO; x.len()]);
        convert_with(isa, Unaligned::new(&x).get(), out.get_mut()).unwrap();
        assert_eq!(bits(out.get()), bits(&expected), "{isa}");
    }
    assert!(matches!(convert(&x, &mut [0.0_f32; 3]), Err(KernelError::Length { .. })));
}

#[test]
fn own_columns_are_those_of_a_row_s_group() {
    let all: Vec<f32> = (1..=12).map(|x| x as f32).collect();
    let mut out = [9.0_f32; 12];
    own_columns(&all, 6, &[2, 0], 2, &mut out, 6).unwrap();
    assert_eq!(out, [0.0, 0.0, 0.0, 0.0, 5.0, 6.0, 7.0, 8.0, 0.0, 0.0, 0.0, 0.0]);
    // Rows with only their own group's columns.
    let mut half = [bf16::ONE; 12];
    own_columns(&[5.0, 6.0, 7.0, 8.0], 2, &[2, 0], 2, &mut half, 6).unwrap();
    assert_eq!(half.map(bf16::to_f32), out);
    let many: Vec<f32> = random(&mut rng(1), 5000 * 20);
    let own: Vec<u32> = (0..5000).map(|i| i * 7 % 5).collect();
    let mut kept = vec![9.0_f32; 5000 * 20];
    own_columns(&many, 20, &own, 4, &mut kept, 20).unwrap();
    for (i, (found, x)) in kept.iter().zip(&many).enumerate() {
        let is_own = (i % 20) / 4 == own[i / 20] as usize;
        assert_eq!(*found, if is_own { *x } else { 0.0 }, "{i}");
    }
    assert!(matches!(
        own_columns(&all, 6, &[3, 0], 2, &mut out, 6),
        Err(KernelError::Index { found: 3, limit: 3, .. })
    ));
    assert!(matches!(own_columns(&all, 6, &[0], 2, &mut out, 6), Err(KernelError::Length { .. })));
    assert!(matches!(own_columns(&all, 6, &[0, 0], 4, &mut out, 6), Err(KernelError::Rows { .. })));
    assert!(matches!(own_columns(&all, 6, &[0, 0], 2, &mut [0.0_f32; 16], 8), Err(KernelError::Length { .. })));
}

#[test]
fn gather_rows_copies_rows() {
    let src: Vec<u32> = (0..12).collect();
    let mut out = [0; 9];
    gather_rows(&src, 3, &[3, 0, 3], &mut out).unwrap();
    assert_eq!(out, [9, 10, 11, 0, 1, 2, 9, 10, 11]);
    assert!(matches!(gather_rows(&src, 3, &[4], &mut out[..3]), Err(KernelError::Index { found: 4, limit: 4, .. })));
    assert!(matches!(gather_rows(&src, 3, &[0], &mut out), Err(KernelError::Length { .. })));
    assert!(matches!(gather_rows(&src, 5, &[0], &mut out[..5]), Err(KernelError::Rows { .. })));
    let index: Vec<u32> = (0..3000).map(|i| i * 7 % 4).collect();
    let src: Vec<f32> = random(&mut rng(0), 4 * 301);
    let mut out = vec![0.0; 3000 * 301];
    gather_rows(&src, 301, &index, &mut out).unwrap();
    for (out, &i) in out.chunks(301).zip(&index) {
        assert_eq!(out, &src[i as usize * 301..][..301]);
    }
}
