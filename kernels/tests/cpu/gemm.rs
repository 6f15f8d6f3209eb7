//! Products, with every instruction set of this CPU, against their reference in f64.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use crate::common::*;
use prefold_kernels::*;
use rand::Rng;

fn pack<A: Float>(weight: &[A], n: usize, k: usize) -> PackedMatrix<A> {
    // Two pushes that do not end at a panel boundary.
    let mut builder = PackedMatrixBuilder::new(n, k).unwrap();
    let cut = (n / 3) * k;
    builder.push(&weight[..cut]).unwrap();
    builder.push(&weight[cut..]).unwrap();
    builder.finish().unwrap()
}

/// The sum of the products' magnitudes, the scale of rounding errors.
fn sizes<A: Float>(gemm: &Gemm<'_, A>, weight: &[A], out: &[f32]) -> Vec<f64> {
    let size = |values: &[A]| values.iter().map(|x| A::from_f32(x.to_f32().abs())).collect::<Vec<_>>();
    let out: Vec<f32> = out.iter().map(|x| x.abs()).collect();
    let (x, bias) = (size(gemm.x), gemm.bias.map(|bias| bias.iter().map(|x| x.abs()).collect::<Vec<_>>()));
    reference::gemm(&Gemm { x: &x, bias: bias.as_deref(), ..gemm.clone() }, &size(weight), &out)
}

fn check_gemm<A: Float>(seed: u64, m: usize, n: usize, k: usize) {
    let rng = &mut rng(seed);
    let weight: Vec<A> = random(rng, n * k);
    let packed = pack(&weight, n, k);
    let x = Unaligned::new(&random::<A>(rng, m * k));
    let start = rng.random_range(0..n);
    for columns in [0..n, start..rng.random_range(start..=n)] {
        let bias: Vec<f32> = random(rng, columns.len());
        let before: Vec<f32> = random(rng, m * columns.len());
        for (bias, store) in [
            (None, Store::Overwrite),
            (Some(bias.as_slice()), Store::Overwrite),
            (None, Store::Accumulate),
            (Some(bias.as_slice()), Store::Accumulate),
        ] {
            let gemm = Gemm { columns: columns.clone(), bias, store, ..Gemm::new(x.get(), &packed) };
            let expected = reference::gemm(&gemm, &weight, &before);
            let sizes = sizes(&gemm, &weight, &before);
            for isa in all_isas() {
                let mut out = Unaligned::new(&before);
                gemm.run_with(isa, out.get_mut()).unwrap();
                let what = format!("{isa} {} m {m} n {n} k {k} {gemm:?}", <A as Element>::DTYPE);
                assert_close(&what[..what.len().min(100)], out.get(), &expected, |i| 2e-6 * sizes[i] + 1e-30);
            }
        }
    }
}

#[test]
fn gemm_matches_the_reference() {
    let shapes = [(1, 1, 1), (1, 33, 7), (2, 32, 64), (13, 31, 65), (14, 64, 640), (15, 70, 641), (29, 100, 1300)];
    for (seed, (m, n, k)) in (0..).zip(shapes) {
        check_gemm::<f32>(seed, m, n, k);
        check_gemm::<bf16>(seed, m, n, k);
    }
    for seed in 100..140 {
        let rng = &mut rng(seed);
        let (m, n, k) = (rng.random_range(1..60), rng.random_range(1..90), rng.random_range(1..100));
        check_gemm::<f32>(seed, m, n, k);
        check_gemm::<bf16>(seed, m, n, k);
    }
    // More than one block of rows and of columns, on several threads.
    check_gemm::<f32>(1, 400, 700, 40);
    check_gemm::<bf16>(1, 400, 700, 40);
}

/// The activated product is the activation of the product, bit for bit.
fn check_activated_gemm<A: Float, O: Element>(seed: u64, m: usize, n: usize, k: usize) {
    let rng = &mut rng(seed);
    let packed = PackedMatrix::<A>::pack(&random::<A>(rng, n * k), n, k).unwrap();
    let x = random::<A>(rng, m * k);
    let start = rng.random_range(0..n);
    let columns = start..rng.random_range(start..=n);
    let bias: Vec<f32> = random(rng, columns.len());
    let gemm = Gemm { columns, bias: Some(&bias), ..Gemm::new(&x, &packed) };
    for isa in all_isas() {
        let mut product = vec![0.0; m * bias.len()];
        gemm.run_with(isa, &mut product).unwrap();
        for kind in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
            let (mut expected, mut out) =
                (vec![O::from_f32(7.0); product.len()], vec![O::from_f32(8.0); product.len()]);
            kind.run_with(isa, &product, &mut expected).unwrap();
            gemm.run_activated_with(isa, kind, &mut out).unwrap();
            assert_eq!(bits(&out), bits(&expected), "{isa} {kind:?} m {m} n {n} k {k}");
        }
    }
}

#[test]
fn an_activated_product_is_the_activation_of_the_product() {
    for (seed, (m, n, k)) in (0..).zip([(1, 1, 1), (1, 300, 40), (15, 70, 641), (29, 100, 1300), (400, 500, 30)]) {
        check_activated_gemm::<f32, f32>(seed, m, n, k);
        check_activated_gemm::<bf16, bf16>(seed, m, n, k);
    }
}

/// The gated product is the gated activation of the product with gates and ups, bit for bit, and so are its ranges of panels; GELU of
/// quantized rows is computed to the precision of bf16.
fn check_gated_gemm<P: Packing, O: Element>(
    seed: u64,
    (m, intermediate, k): (usize, usize, usize),
    is_quantized: bool,
) {
    let rng = &mut rng(seed);
    let weight: Vec<f32> = random(rng, 2 * intermediate * k);
    let plain = PackedMatrix::<P>::pack(&weight, 2 * intermediate, k).unwrap();
    let mut gated = PackedMatrixBuilder::<P>::gated(intermediate, k).unwrap();
    // In two pieces that do not end with a panel or with the gates.
    let (first, rest) = weight.split_at(rng.random_range(0..2 * intermediate) * k);
    gated.push(first).unwrap();
    gated.push(rest).unwrap();
    let gated = gated.finish().unwrap();
    let (x, bias) = (random::<P::Input>(rng, m * k), random::<f32>(rng, 2 * intermediate));
    let mut gated_bias = vec![0.0; gated.rows()];
    for (row, &value) in bias.iter().enumerate() {
        assert_eq!(gated.unpack_row(row), plain.unpack_row(row));
        gated_bias[gated.column_of(row)] = value;
    }
    let middle = gated.rows() / PANEL / 2 * PANEL;
    for isa in all_isas() {
        let mut product = vec![0.0; m * 2 * intermediate];
        Gemm { bias: Some(&bias), ..Gemm::new(&x, &plain) }.run_with(isa, &mut product).unwrap();
        for kind in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
            let [mut expected, mut out] = [7.0, 8.0].map(|fill| vec![O::from_f32(fill); m * intermediate]);
            activate_mul_with(isa, kind, &product, intermediate, &mut expected).unwrap();
            for columns in [0..middle, middle..gated.rows()] {
                let bias = Some(&gated_bias[columns.clone()]);
                let out_stride = Some(intermediate);
                let (start, end) = (columns.start / 2, (columns.end / 2).min(intermediate));
                let out = &mut out[start..];
                let len = if start == end { 0 } else { (m - 1) * intermediate + end - start };
                let gemm = Gemm { columns, bias, out_stride, ..Gemm::new(&x, &gated) };
                gemm.run_gated_with(isa, kind, &mut out[..len]).unwrap();
            }
            let case = format!("{isa} {kind:?} m {m} intermediate {intermediate} k {k}");
            if is_quantized && kind == Activation::Gelu {
                // To the precision of bf16, as the rows are quantized.
                let tolerance = |i: usize| {
                    let start = i / intermediate * 2 * intermediate + i % intermediate;
                    let [gate, up] = [start, start + intermediate].map(|at| f64::from(product[at].abs()));
                    (6e-5 + 1e-5 * gate) * up + 1e-6 * gate * up
                };
                let in_full: Vec<f64> = expected.iter().map(|value| value.to_f32().into()).collect();
                assert_close(&case, &out, &in_full, tolerance);
                assert!(m * intermediate < 100 || bits(&out) != bits(&expected), "{case}: in full precision");
            } else {
                assert_eq!(bits(&out), bits(&expected), "{case}");
            }
        }
    }
}

#[test]
fn a_gated_product_is_the_gated_activation_of_the_product() {
    for (seed, (m, n, k)) in (0..).zip([(1, 1, 1), (1, 150, 40), (15, 35, 641), (33, 64, 1300), (400, 200, 30)]) {
        check_gated_gemm::<f32, f32>(seed, (m, n, k), false);
        check_gated_gemm::<bf16, bf16>(seed, (m, n, k), false);
        check_gated_gemm::<Int8, f32>(seed, (m, n, k), true);
    }
}

#[test]
fn a_gated_product_needs_a_gated_weight_and_whole_panels() {
    let (x, weight) = (vec![1.0; 4], vec![1.0; 40 * 4]);
    let plain = PackedMatrix::<f32>::pack(&weight, 40, 4).unwrap();
    let error = Gemm::new(&x, &plain).run_gated(Activation::Silu, &mut [0.0; 20]).unwrap_err();
    assert!(error.to_string().contains("gated"), "{error}");
    let mut gated = PackedMatrixBuilder::<f32>::gated(20, 4).unwrap();
    gated.push(&weight).unwrap();
    let gated = gated.finish().unwrap();
    let error = Gemm { columns: 0..20, ..Gemm::new(&x, &gated) }.run_gated(Activation::Silu, &mut [0.0; 10]);
    assert!(error.unwrap_err().to_string().contains("whole panels"));
}

fn check_gemm_non_finite<A: Float>() {
    let (m, n, k) = (30, 40, 50);
    let rng = &mut rng(5);
    let weight: Vec<A> = random(rng, n * k);
    let packed = pack(&weight, n, k);
    let clean: Vec<A> = random(rng, m * k);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = clean.clone();
        x[17 * k + k - 1] = A::from_f32(bad);
        for isa in all_isas() {
            let (mut expected, mut out) = (vec![0.0; m * n], vec![0.0; m * n]);
            Gemm::new(&clean, &packed).run_with(isa, &mut expected).unwrap();
            Gemm::new(&x, &packed).run_with(isa, &mut out).unwrap();
            for (row, (out, expected)) in out.chunks(n).zip(expected.chunks(n)).enumerate() {
                if row == 17 {
                    assert!(out.iter().all(|x| !x.is_finite()), "{isa} {bad}");
                    assert!(!bad.is_nan() || out.iter().all(|x| x.is_nan()), "{isa}");
                } else {
                    assert_eq!(bits(out), bits(expected), "{isa} {bad} row {row}");
                }
            }
        }
    }
}

#[test]
fn gemm_keeps_non_finite_values_in_their_row() {
    check_gemm_non_finite::<f32>();
    check_gemm_non_finite::<bf16>();
}

#[test]
fn gemm_of_extreme_values() {
    for isa in all_isas() {
        for (size, expected) in [(1e19_f32, 2e38), (1e-18, 2e-36), (1e20, f64::INFINITY)] {
            let packed = PackedMatrix::<f32>::pack(&[size, size], 1, 2).unwrap();
            let mut out = [0.0];
            Gemm::new(&[size, size], &packed).run_with(isa, &mut out).unwrap();
            assert_close("f32", &out, &[expected], |_| 1e-6 * expected);
        }
        let large = bf16::from_f32(2.0_f32.powi(63));
        let packed = PackedMatrix::<bf16>::pack(&[large, large], 1, 2).unwrap();
        let mut out = [0.0];
        Gemm::new(&[large, large], &packed).run_with(isa, &mut out).unwrap();
        assert_eq!(out, [2.0_f32.powi(127)], "{isa}");
    }
}

#[test]
fn gemm_refuses_what_does_not_fit() {
    let packed = PackedMatrix::<f32>::pack(&[0.0; 12], 4, 3).unwrap();
    assert!(matches!(PackedMatrix::<f32>::pack(&[0.0; 12], 4, 4), Err(KernelError::Length { .. })));
    assert!(matches!(PackedMatrix::<f32>::pack::<f32>(&[], 4, 0), Err(KernelError::Value { .. })));
    assert!(matches!(PackedMatrix::<f32>::pack(&[0.0; 15], 4, 3), Err(KernelError::Index { .. })));
    let x = [0.0; 6];
    let gemm = Gemm::new(&x, &packed);
    assert!(matches!(gemm.run(&mut [0.0; 7]), Err(KernelError::Length { argument: "out", expected: 8, found: 7 })));
    assert!(matches!(Gemm::new(&[0.0; 5], &packed).run(&mut [0.0; 8]), Err(KernelError::Rows { argument: "x", .. })));
    let wide = Gemm { columns: 2..5, ..gemm.clone() };
    assert!(matches!(wide.run(&mut [0.0; 6]), Err(KernelError::Index { found: 5, limit: 5, .. })));
    let overlapping = Gemm { out_stride: Some(3), ..gemm.clone() };
    assert!(matches!(overlapping.run(&mut [0.0; 7]), Err(KernelError::Value { argument: "out_stride", found: 3, .. })));
    let apart = Gemm { out_stride: Some(6), ..gemm.clone() };
    assert!(matches!(apart.run(&mut [0.0; 12]), Err(KernelError::Length { argument: "out", expected: 10, .. })));
    assert_eq!(apart.run(&mut [0.0; 10]), Ok(()));
    let biased = Gemm { bias: Some(&[0.0; 3]), ..gemm };
    assert!(matches!(biased.run(&mut [0.0; 8]), Err(KernelError::Length { argument: "bias", .. })));
}
