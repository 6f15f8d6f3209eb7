//! Products in int8, with every instruction set of this CPU and with the model of AMX, against their definition: bit for bit.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use crate::common::*;
use prefold_kernels::*;
use rand::Rng;

/// Quantizes a row by definition: scale, zero point, bytes.
fn quantized_row(x: &[f32]) -> (f32, i64, Vec<i64>) {
    if x.iter().any(|x| !x.is_finite()) {
        return (f32::NAN, 0, vec![0; x.len()]);
    }
    let (min, max) = x.iter().fold((0.0_f32, 0.0_f32), |(min, max), &x| (min.min(x), max.max(x)));
    let scale = (max / 255.0 - min / 255.0).max(f32::MIN_POSITIVE);
    let zero_point = (-min / scale).round_ties_even().clamp(0.0, 255.0);
    let inverse = 1.0 / scale;
    let byte = |x: &f32| ((x * inverse).round_ties_even() + zero_point).clamp(0.0, 255.0) as i64;
    (scale, zero_point as i64, x.iter().map(byte).collect())
}

/// Quantizes a row of weights by definition: scale, bytes.
fn quantized_weights(w: &[f32]) -> (f32, Vec<i64>) {
    let largest = w.iter().fold(0.0_f32, |largest, w| largest.max(w.abs()));
    let scale = (largest / 127.0).max(f32::MIN_POSITIVE);
    (scale, w.iter().map(|w| (w / scale).round_ties_even().clamp(-127.0, 127.0) as i64).collect())
}

/// `x W^T`, rows of `k`.
fn product(x: &[f32], weight: &[f32], k: usize) -> Vec<f32> {
    let columns: Vec<_> = weight.chunks(k).map(quantized_weights).collect();
    let rows = x.chunks(k).map(quantized_row);
    let row = |(scale, zero_point, bytes): (f32, i64, Vec<i64>)| -> Vec<f32> {
        let column = |(column_scale, weights): &(f32, Vec<i64>)| {
            let sum: i64 = bytes.iter().zip(weights).map(|(q, w)| (q - zero_point) * w).sum();
            sum as f32 * column_scale * scale
        };
        columns.iter().map(column).collect()
    };
    rows.flat_map(row).collect()
}

fn check(what: &str, x: &[f32], weight: &[f32], k: usize) {
    let (m, n) = (x.len() / k, weight.len() / k);
    let packed = PackedMatrix::<Int8>::pack(weight, n, k).unwrap();
    let expected = product(x, weight, k);
    let x = Unaligned::new(x);
    for isa in all_isas() {
        let mut out = vec![7.0; m * n];
        Gemm::new(x.get(), &packed).run_with(isa, &mut out).unwrap();
        assert_eq!(bits(&out), bits(&expected), "{what} {isa} m {m} n {n} k {k}");
    }
}

#[test]
fn products_of_bytes_are_exact_with_every_instruction_set() {
    let shapes = [(1, 1, 1), (1, 33, 7), (2, 300, 64), (13, 31, 65), (16, 64, 640), (33, 70, 641), (29, 100, 1300)];
    let rng = &mut rng(1);
    for (m, n, k) in shapes {
        check("random", &random::<f32>(rng, m * k), &random::<f32>(rng, n * k), k);
    }
    for _ in 0..30 {
        let (m, n, k) = (rng.random_range(1..60), rng.random_range(1..90), rng.random_range(1..200));
        check("random", &random::<f32>(rng, m * k), &random::<f32>(rng, n * k), k);
    }
    // Several blocks of rows and of columns, on several threads.
    check("large", &random::<f32>(rng, 400 * 40), &random::<f32>(rng, 700 * 40), 40);
}

#[test]
fn extreme_rows_are_exact() {
    let (k, n) = (150, 40);
    let rng = &mut rng(2);
    // Only -127 and 127, whose products saturate 16 bits in `maddubs`.
    let weight: Vec<f32> = (0..n * k).map(|_| if rng.random() { 1.0 } else { -1.0 }).collect();
    for value in [0.0, -0.0, 1.0, -3.0, 1e-38, 1e-45, 3e38, -3e38, f32::MIN_POSITIVE] {
        check("equal values", &vec![value; 3 * k], &weight, k);
        let mixed: Vec<f32> = (0..3 * k).map(|i| if i % 2 == 0 { value } else { -value }).collect();
        check("two values", &mixed, &weight, k);
    }
    check("no weights", &vec![1.0; 2 * k], &vec![0.0; n * k], k);
    check("tiny weights", &vec![1.0; 2 * k], &vec![1e-40; n * k], k);
}

#[test]
fn quantization_keeps_zero_and_errs_by_half_a_step() {
    let rng = &mut rng(3);
    let (k, n) = (300, 33);
    let (x, weight) = (random::<f32>(rng, 20 * k), random::<f32>(rng, n * k));
    let packed = PackedMatrix::<Int8>::pack(&weight, n, k).unwrap();
    let found: Vec<f32> = (0..n).flat_map(|row| packed.unpack_row(row)).collect();
    for (row, found) in weight.chunks(k).zip(found.chunks(k)) {
        let largest = row.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        assert!(row.iter().zip(found).all(|(x, found)| (x - found).abs() <= largest / 253.9));
    }
    let mut out = vec![0.0; 20 * n];
    Gemm::new(&x, &packed).run(&mut out).unwrap();
    for (x, out) in x.chunks(k).zip(out.chunks(n)) {
        for (weight, &out) in found.chunks(k).zip(out) {
            let exact: f64 = x.iter().zip(weight).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            let sizes: f64 = weight.iter().map(|w| f64::from(w.abs())).sum();
            assert!((exact - f64::from(out)).abs() <= sizes * 3.4 / 255.0 / 2.0 * 1.001, "{exact} {out}");
        }
    }
}

#[test]
fn values_that_are_not_finite_stay_in_their_row() {
    let (m, n, k) = (40, 50, 90);
    let rng = &mut rng(4);
    let (clean, weight) = (random::<f32>(rng, m * k), random::<f32>(rng, n * k));
    let packed = PackedMatrix::<Int8>::pack(&weight, n, k).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for place in [0, k - 1] {
            let mut x = clean.clone();
            x[17 * k + place] = bad;
            for isa in all_isas() {
                let (mut expected, mut out) = (vec![0.0; m * n], vec![0.0; m * n]);
                Gemm::new(&clean, &packed).run_with(isa, &mut expected).unwrap();
                Gemm::new(&x, &packed).run_with(isa, &mut out).unwrap();
                for (row, (out, expected)) in out.chunks(n).zip(expected.chunks(n)).enumerate() {
                    if row == 17 {
                        assert!(out.iter().all(|x| x.is_nan()), "{isa} {bad}");
                    } else {
                        assert_eq!(bits(out), bits(expected), "{isa} {bad} row {row}");
                    }
                }
            }
        }
    }
    let mut weight = weight;
    weight[5 * k + 3] = f32::NAN;
    let packed = PackedMatrix::<Int8>::pack(&weight, n, k).unwrap();
    let mut out = vec![0.0; m * n];
    Gemm::new(&clean, &packed).run(&mut out).unwrap();
    assert!(out.iter().enumerate().all(|(i, x)| x.is_nan() == (i % n == 5)));
}

#[test]
fn rows_too_long_for_32_bits_are_refused() {
    let error = PackedMatrixBuilder::<Int8>::new(1, 66_313).unwrap_err();
    assert!(matches!(error, KernelError::Index { found: 66_313, limit: 66_312, .. }), "{error:?}");
    assert!(PackedMatrixBuilder::<Int8>::new(1, 66_311).is_ok());
}

#[test]
fn the_error_of_outliers_is_seen() {
    let (m, n, k) = (20, 40, 200);
    let rng = &mut rng(6);
    let (x, weight) = (random::<f32>(rng, m * k), random::<f32>(rng, n * k));
    let error =
        |x: &[f32], weight: &[f32]| PackedMatrix::<Int8>::pack(weight, n, k).unwrap().quantization_error(x).unwrap();
    let with = |values: &[f32], value: f32| {
        let mut values = values.to_vec();
        values.chunks_exact_mut(k).for_each(|row| row[7] = value);
        values
    };
    assert!((0.003..0.02).contains(&error(&x, &weight)), "{}", error(&x, &weight));
    // A value hundreds of times larger than the others, with almost no weight, leaves the others few quantization steps.
    let large_inputs = error(&with(&x, 500.0), &with(&weight, 1e-4));
    assert!(large_inputs > 0.2, "{large_inputs}");
    // So does a large weight whose input is 0: steps of 0.24, then of 7.9, for weights of up to 1.7.
    let large_weights = [30.0, 1000.0].map(|large| error(&with(&x, 0.0), &with(&weight, large)));
    assert!((0.05..0.1).contains(&large_weights[0]) && large_weights[1] > 0.9, "{large_weights:?}");
    let packed = PackedMatrix::<Int8>::pack(&weight, n, k).unwrap();
    assert!(packed.quantization_error(&x[1..]).is_err());
}
