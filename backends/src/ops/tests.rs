//! The operations that have a plain candle formulation, against it.

use super::rowwise::rows;
use super::*;
use candle_core::{D, DType, Device, Tensor};
use prefold_core::{Stopped, Uninterrupted, YieldPoint};
use prefold_kernels::{Activation, Dtype, PackedMatrix, ThreadPool};
use std::time::Duration;

/// Yield points at which nothing happens.
macro_rules! free {
    () => {
        &mut Yields::new(&mut Uninterrupted)
    };
}

fn random(shape: (usize, usize)) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap()
}

fn zeros(shape: (usize, usize)) -> Tensor {
    Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap()
}

fn values(x: &Tensor) -> Vec<f32> {
    x.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.dims(), expected.dims());
    for (found, expected) in values(found).iter().zip(values(expected)) {
        assert!((found - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{found} {expected}");
    }
}

#[test]
fn linear_is_matmul() {
    let (x, w) = (random((7, 33)), random((20, 33)));
    let bias: Vec<f32> = values(&random((1, 20)));
    let linear = Linear::packed(PackedMatrix::pack(&values(&w), 20, 33).unwrap(), Some(bias.clone()));
    let bias = Tensor::new(bias, &Device::Cpu).unwrap();
    let expected = x.matmul(&w.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();

    let out = zeros((7, 20));
    linear.forward(&x, &out, Store::Overwrite, free!()).unwrap();
    assert_close(&out, &expected);
    linear.forward(&x, &out, Store::Accumulate, free!()).unwrap();
    assert_close(&out, &(&expected + &expected).unwrap());
    let some = zeros((7, 5));
    linear.forward_columns(3..8, &x, &some, Store::Overwrite, free!()).unwrap();
    assert_close(&some, &expected.narrow(1, 3, 5).unwrap());
    assert!(linear.forward(&x, &some, Store::Overwrite, free!()).is_err(), "the output is too narrow");
}

#[test]
fn rms_norm_is_its_formula() {
    let x = random((5, 48));
    let weight = values(&random((1, 48)));
    let mean_square = x.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
    let scale = (mean_square + 1e-6).unwrap().sqrt().unwrap().recip().unwrap();
    let weight_row = Tensor::new(weight.clone(), &Device::Cpu).unwrap();
    let expected = x.broadcast_mul(&scale).unwrap().broadcast_mul(&weight_row).unwrap();
    let out = zeros((5, 48));
    Norm::rms(Vector::on_cpu(weight), 1e-6).forward(&x, &out, free!()).unwrap();
    assert_close(&out, &expected);
}

#[test]
fn layer_norm_is_its_formula() {
    let x = random((5, 48));
    let [weight, bias] = [values(&random((1, 48))), values(&random((1, 48)))];
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1).unwrap()).unwrap();
    let variance = centred.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
    let unit = centred.broadcast_div(&(variance + 1e-5).unwrap().sqrt().unwrap()).unwrap();
    let row = |values: &[f32]| Tensor::new(values, &Device::Cpu).unwrap();
    let expected = unit.broadcast_mul(&row(&weight)).unwrap().broadcast_add(&row(&bias)).unwrap();
    let out = zeros((5, 48));
    let norm = Norm::layer(Vector::on_cpu(weight), Vector::on_cpu(bias), 1e-5);
    norm.forward(&x, &out, free!()).unwrap();
    assert_close(&out, &expected);
    norm.forward_in_place(&x, free!()).unwrap();
    assert_close(&x, &expected);
}

#[test]
fn an_activated_product_is_its_formula() {
    let (x, weight, bias) = (random((5, 24)), random((7, 24)), random((1, 7)));
    let sums = x.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
    let parts = std::iter::once(Ok(weight));
    let linear =
        Linear::load(&Target::cpu(Dtype::Float32), ("", Dtype::Float32), (7, 24), false, parts, Some(values(&bias)))
            .unwrap();
    let out = zeros((5, 7));
    linear.forward_activated(Activation::Gelu, &x, &out, free!()).unwrap();
    assert_close(&out, &sums.gelu_erf().unwrap());
    linear.forward_activated(Activation::GeluTanh, &x, &out, free!()).unwrap();
    assert_close(&out, &sums.gelu().unwrap());
}

#[test]
fn activate_mul_is_its_formula() {
    let x = random((5, 24));
    let expected = (x.narrow(1, 0, 12).unwrap().silu().unwrap() * x.narrow(1, 12, 12).unwrap()).unwrap();
    let out = zeros((5, 12));
    activate_mul(Activation::Silu, &x, &out, free!()).unwrap();
    assert_close(&out, &expected);
}

#[test]
fn the_norm_of_an_output_joins_the_residual_stream() {
    let (x, residual) = (random((5, 24)), random((5, 24)));
    let weight = vec![0.5; 24];
    let norm = Norm::rms(Vector::on_cpu(weight), 1e-6);
    let normed = zeros((5, 24));
    norm.forward(&x, &normed, free!()).unwrap();
    let expected = ((normed + &residual).unwrap() * 3.0).unwrap();
    norm.forward_add(&x, &residual, free!()).unwrap();
    scale(&residual, 3.0, free!()).unwrap();
    assert_close(&residual, &expected);
    let layer = Norm::layer(Vector::on_cpu(vec![1.0; 24]), Vector::on_cpu(vec![0.0; 24]), 1e-6);
    assert!(layer.forward_add(&x, &residual, free!()).is_err());
}

#[test]
fn rows_are_added_where_an_index_says() {
    let (x, out) = (random((2, 5)), zeros((4, 5)));
    fill_rows(&out, &Vector::on_cpu(vec![1.0; 5]), free!()).unwrap();
    let index = Tensor::new(&[3u32, 1], &Device::Cpu).unwrap();
    let factors = Tensor::new(&[2.0_f32, 0.5].map(f32::to_bits), &Device::Cpu).unwrap();
    scatter_add(&x, &index, &factors, &out, free!()).unwrap();
    let row = |i, factor: f64| ((x.narrow(0, i, 1).unwrap() * factor).unwrap() + 1.0).unwrap();
    let one = Tensor::ones((1, 5), DType::F32, &Device::Cpu).unwrap();
    assert_close(&out, &Tensor::cat(&[&one, &row(1, 0.5), &one, &row(0, 2.0)], 0).unwrap());
    let twice = (&out * 2.0).unwrap();
    add(&out.copy().unwrap(), &out, free!()).unwrap();
    assert_close(&out, &twice);
    assert!(scatter_add(&x, &index, &factors, &zeros((3, 5)), free!()).is_err(), "row 3 of 3");
}

#[test]
fn rows_are_index_select() {
    let x = random((6, 10));
    let index = Tensor::new(&[5u32, 0, 0, 3], &Device::Cpu).unwrap();
    let expected = x.index_select(&index, 0).unwrap();
    let out = zeros((4, 10));
    gather_rows(&x, &index, &out, free!()).unwrap();
    assert_close(&out, &expected);
    let half = zeros((4, 10));
    rows::embed(&x.to_dtype(DType::BF16).unwrap(), &index, &half, Store::Overwrite, free!()).unwrap();
    let rounded = expected.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
    assert_close(&half, &rounded);
    rows::embed(&x, &index, &half, Store::Accumulate, free!()).unwrap();
    assert_close(&half, &(rounded + &expected).unwrap());
    let converted = Tensor::zeros((4, 10), DType::BF16, &Device::Cpu).unwrap();
    convert(&expected, &converted, free!()).unwrap();
    assert_eq!(
        values(&converted.to_dtype(DType::F32).unwrap()),
        values(&expected.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap())
    );
    let outside = Tensor::new(&[6u32, 0, 0, 0], &Device::Cpu).unwrap();
    assert!(gather_rows(&x, &outside, &out, free!()).is_err());
    assert!(rows::embed(&x, &outside, &out, Store::Overwrite, free!()).is_err());
}

#[test]
fn a_buffer_keeps_its_memory() {
    let mut buffer = Buffer::new(DType::F32, &Target::cpu(Dtype::Float32)).unwrap();
    let large = buffer.view(4, 4).unwrap();
    gather_rows(&random((4, 4)), &Tensor::new(&[0u32, 1, 2, 3], &Device::Cpu).unwrap(), &large, free!()).unwrap();
    assert_eq!(values(&buffer.view(2, 4).unwrap()), values(&large)[..8]);
}

#[test]
fn pooled_states_are_means_of_their_rows() {
    let x = random((5, 6));
    let mut pool = Pool::new(vec![PoolKind::Mean]);
    pool.push(2..3);
    pool.push(0..4);
    pool.pack(&mut IndexPack::default());
    let out = zeros((2, 6));
    pool.forward(&x, &out, free!()).unwrap();
    assert_eq!(values(&out)[..6], values(&x)[12..18], "one row stays as it is");
    assert_close(&out.narrow(0, 1, 1).unwrap(), &x.narrow(0, 0, 4).unwrap().mean_keepdim(0).unwrap());
    let mut outside = Pool::new(vec![PoolKind::Mean]);
    outside.push(0..6);
    outside.pack(&mut IndexPack::default());
    assert!(outside.forward(&x, &zeros((1, 6)), free!()).is_err());
}

#[test]
fn pooled_states_are_their_formulas() {
    let x = Tensor::new(&[[1.0_f32, -8.0], [5.0, 2.0], [0.0, f32::NAN], [3.0, 1.0]], &Device::Cpu).unwrap();
    for (kind, expected) in [
        (PoolKind::Mean, [3.0, -5.0 / 3.0]),
        (PoolKind::Max, [5.0, 2.0]),
        (PoolKind::MeanSqrtLen, [9.0 / 3.0_f32.sqrt(), -5.0 / 3.0_f32.sqrt()]),
        (PoolKind::WeightedMean, [(1.0 + 2.0 * 5.0 + 3.0 * 3.0) / 6.0, (-8.0 + 2.0 * 2.0 + 3.0) / 6.0]),
    ] {
        let mut pool = Pool::new(vec![kind]);
        pool.push([0, 1, 3].into_iter());
        pool.push([2, 3].into_iter());
        pool.push([1].into_iter());
        pool.pack(&mut IndexPack::default());
        let out = zeros((3, 2));
        pool.forward(&x, &out, free!()).unwrap();
        let found = values(&out);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{kind:?}: {found} for {expected}");
        }
        assert!(found[3].is_nan(), "{kind:?} hides a NaN");
        assert_eq!(found[4..], [5.0, 2.0], "{kind:?} of one state");
    }
}

/// Counts the yield points, and ends the operation at one of them.
struct Counter {
    reached: usize,
    stop_at: usize,
}

impl YieldPoint for Counter {
    fn reach(&mut self) -> Result<(), Stopped> {
        self.reached += 1;
        if self.reached == self.stop_at { Err(Stopped) } else { Ok(()) }
    }

    fn away(&self) -> Duration {
        Duration::ZERO
    }
}

fn bits(x: &Tensor) -> Vec<u32> {
    values(x).iter().map(|value| value.to_bits()).collect()
}

/// At the measured pace and in the smallest parts: the same bits, and a yield point before each part.
fn check_parts(parts: usize, out: &Tensor, operation: impl Fn(&mut Yields<'_>) -> candle_core::Result<()>) {
    let before = out.copy().unwrap();
    let mut reached = [0, 0];
    let [whole, split] = [false, true].map(|is_split| {
        out.slice_set(&before, 0, 0).unwrap();
        let mut counter = Counter { reached: 0, stop_at: usize::MAX };
        let mut run = || operation(&mut Yields::new(&mut counter)).unwrap();
        if is_split {
            in_smallest_parts(run)
        } else {
            run()
        }
        reached[usize::from(is_split)] = counter.reached;
        bits(out)
    });
    assert_eq!(whole, split);
    assert_ne!(whole, bits(&before));
    // One part, unless the machine stood still during an earlier one, which the pace remembers for a while.
    assert!((1..=parts).contains(&reached[0]), "{reached:?}");
    assert_eq!(reached[1], parts);
    for stop_at in 1..=parts {
        let mut counter = Counter { reached: 0, stop_at };
        let mut yields = Yields::new(&mut counter);
        assert!(!yields.is_stopped());
        in_smallest_parts(|| operation(&mut yields)).unwrap_err();
        assert!(yields.is_stopped());
        assert_eq!(counter.reached, stop_at, "nothing is computed after a stop");
    }
}

#[test]
fn products_in_parts_have_the_bits_of_whole_ones() {
    let (x, w, bias) = (random((7, 33)), random((150, 33)), random((1, 150)));
    let linear = Linear::packed(PackedMatrix::pack(&values(&w), 150, 33).unwrap(), Some(values(&bias)));
    let (out, some) = (random((7, 150)), random((7, 90)));
    for store in [Store::Overwrite, Store::Accumulate] {
        check_parts(5, &out, |yields| linear.forward(&x, &out, store, yields));
        // Panels have 32 columns: 40..64, 64..96, 96..128, 128..130.
        check_parts(4, &some, |yields| linear.forward_columns(40..130, &x, &some, store, yields));
    }
    check_parts(5, &out, |yields| linear.forward_activated(Activation::Gelu, &x, &out, yields));
    // Not GELU, which is less exact with bf16 output.
    linear.forward_activated(Activation::Silu, &x, &out, free!()).unwrap();
    let half = out.to_dtype(DType::BF16).unwrap();
    in_smallest_parts(|| linear.forward_activated(Activation::Silu, &x, &half, free!())).unwrap();
    assert_eq!(bits(&half.to_dtype(DType::F32).unwrap()), bits(&rounded(&out)));
}

#[test]
fn products_of_many_rows_are_split_by_rows_first() {
    let (x, w) = (random((700, 33)), random((70, 33)));
    let linear = Linear::packed(PackedMatrix::pack(&values(&w), 70, 33).unwrap(), None);
    let out = random((700, 70));
    // Three blocks of rows for one thread, two rounds of blocks for two; three panels.
    for (threads, parts) in [(1, 9), (2, 6), (4, 3)] {
        let split = || check_parts(parts, &out, |yields| linear.forward(&x, &out, Store::Accumulate, yields));
        ThreadPool::new(threads).enter(split);
    }
}

fn rounded(x: &Tensor) -> Tensor {
    x.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap()
}

#[test]
fn rows_in_blocks_have_the_bits_of_all_at_once() {
    let (x, out) = (random((5, 24)), random((5, 24)));
    let norm = Norm::rms(Vector::on_cpu(vec![0.5; 24]), 1e-6);
    check_parts(5, &out, |yields| norm.forward(&x, &out, yields));
    check_parts(5, &out, |yields| norm.forward_add(&x, &out, yields));
    check_parts(5, &out, |yields| convert(&x, &out, yields));
    check_parts(5, &out, |yields| scale(&out, 3.0, yields));
    check_parts(5, &out, |yields| add(&x, &out, yields));
    check_parts(5, &out, |yields| activate(Activation::Gelu, &x, &out, yields));
    let index = Tensor::new(&[4u32, 0, 2], &Device::Cpu).unwrap();
    let factors = Tensor::new(&[2.0_f32, 0.5, 3.0].map(f32::to_bits), &Device::Cpu).unwrap();
    let some = random((3, 24));
    check_parts(3, &out, |yields| scatter_add(&some, &index, &factors, &out, yields));
    check_parts(3, &some, |yields| gather_rows(&x, &index, &some, yields));
    check_parts(3, &some, |yields| rows::embed(&x, &index, &some, Store::Accumulate, yields));
}

#[test]
fn states_pooled_in_parts_have_the_bits_of_whole_ones() {
    let (x, out) = (random((6, 10)), random((4, 10)));
    for kind in [PoolKind::Mean, PoolKind::Max, PoolKind::MeanSqrtLen, PoolKind::WeightedMean] {
        let mut pool = Pool::new(vec![kind]);
        pool.push(0..3);
        pool.push(0..0);
        pool.push(5..6);
        pool.push(1..6);
        pool.pack(&mut IndexPack::default());
        // Nine rows in all.
        check_parts(9, &out, |yields| pool.forward(&x, &out, yields));
        assert_eq!(values(&out)[10..20], [0.0; 10], "of no rows");
    }
}
