//! Row-wise operations, and pooling.

use super::*;
use half::f16;
use prefold_kernels::cuda;
use prefold_kernels::{Activation, HeadSpan, KernelError, PoolKind, RopeTable, Store, bf16, reference};

#[test]
fn gather_rows_copies_rows() {
    let Some(gpu) = gpu() else { return };
    let rng = &mut rng(1);
    for width in [1, 7, 8, 64, 1000, 6144] {
        let (src, _) = values::<bf16>(rng, 50 * width);
        let mut index: Vec<u32> = (0..300).map(|_| rng.random_range(0..50)).collect();
        index[17] = 50;
        let mut out = gpu.up(&vec![bf16::ZERO; 300 * width]);
        let (on_device, index_on_device) = (gpu.up(&src), gpu.up(&index));
        let index_view = index_on_device.as_view();
        gpu.kernels.gather_rows(&on_device.as_view(), width, &index_view, &mut out.as_view_mut()).unwrap();
        for (i, row) in gpu.down(&out).chunks(width).enumerate() {
            match index[i] {
                50 => assert!(row.iter().all(|x| x.is_nan()), "an index outside makes NaN"),
                from => assert_eq!(row, &src[from as usize * width..][..width]),
            }
        }
    }
}

fn check_embed<T: Element + DeviceRepr>(gpu: &Gpu, width: usize) {
    let rng = &mut rng(2);
    let (table, wide) = values::<T>(rng, 90 * width);
    let ids: Vec<u32> = (0..33).map(|_| rng.random_range(0..90)).collect();
    let mut out = gpu.up(&vec![0.0_f32; 33 * width]);
    let (table, on_device) = (gpu.up(&table), gpu.up(&ids));
    for (store, factor) in [(Store::Overwrite, 1.0), (Store::Accumulate, 2.0)] {
        gpu.kernels.embed(&table.as_view(), width, &on_device.as_view(), store, &mut out.as_view_mut()).unwrap();
        for (row, &id) in gpu.down(&out).chunks(width).zip(&ids) {
            let expected: Vec<f32> = wide[id as usize * width..][..width].iter().map(|x| x * factor).collect();
            assert_eq!(row, expected);
        }
    }
}

fn check_convert<T: Element + DeviceRepr>(gpu: &Gpu, width: usize) {
    let x: Vec<f32> = random(&mut rng(width as u64), 9 * width);
    let mut out = gpu.up(&vec![T::default(); 9 * width]);
    gpu.kernels.convert(&gpu.up(&x).as_view(), width, &mut out.as_view_mut()).unwrap();
    let expected: Vec<T> = x.iter().map(|&x| T::from_f32(x)).collect();
    assert_eq!(bits(&gpu.down(&out)), bits(&expected));
}

#[test]
fn convert_rounds_as_the_cpu_does() {
    let Some(gpu) = gpu() else { return };
    for width in [1, 7, 384] {
        check_convert::<f32>(&gpu, width);
        check_convert::<bf16>(&gpu, width);
        check_convert::<f16>(&gpu, width);
    }
}

#[test]
fn embed_widens_rows_and_adds_them() {
    let Some(gpu) = gpu() else { return };
    for width in [3, 64, 1024] {
        check_embed::<f32>(&gpu, width);
        check_embed::<bf16>(&gpu, width);
        check_embed::<f16>(&gpu, width);
    }
}

fn check_norm<T: Element + DeviceRepr>(gpu: &Gpu, rows: usize, width: usize, add: bool) {
    let rng = &mut rng(width as u64);
    let ((_, mut x), (delta, delta_wide)) = (values::<f32>(rng, rows * width), values::<T>(rng, rows * width));
    let (_, weight) = values::<f32>(rng, width);
    let (mut x_on_device, delta, weight_on_device) = (gpu.up(&x), gpu.up(&delta), gpu.up(&weight));
    let mut out = gpu.up(&vec![T::default(); rows * width]);
    let norm = AddRmsNorm { delta: add.then(|| delta.as_view()), weight: weight_on_device.as_view(), eps: 1e-6 };
    norm.run(&gpu.kernels, &mut x_on_device.as_view_mut(), &mut out.as_view_mut()).unwrap();
    if add {
        x.iter_mut().zip(delta_wide).for_each(|(x, delta)| *x += delta);
    }
    assert_eq!(gpu.down(&x_on_device), x);
    let expected = reference::rms_norm(&x, &weight, 1e-6);
    close(&format!("norm {width}"), &gpu.down(&out), &expected, |i| rounding::<T>() * (expected[i].abs() + 1e-4));
}

#[test]
fn rms_norm_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for (rows, width) in [(1, 1), (3, 63), (5, 64), (300, 1024), (7, 2560), (2, 5000)] {
        for add in [false, true] {
            check_norm::<f32>(&gpu, rows, width, add);
            check_norm::<bf16>(&gpu, rows, width, add);
            check_norm::<f16>(&gpu, rows, width, add);
        }
    }
}

#[test]
fn rms_norm_add_and_scale_match_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for (rows, width) in [(3, 63), (5, 64), (70, 640)] {
        let rng = &mut rng(width as u64);
        let [x, mut sum] = [0, 1].map(|_| random::<f32>(rng, rows * width));
        let weight = random::<f32>(rng, width);
        let (up, mut out) = (gpu.up(&x), gpu.up(&sum));
        let weight_up = gpu.up(&weight);
        let on_gpu = &mut out.as_view_mut();
        gpu.kernels.rms_norm_add(&up.as_view(), &weight_up.as_view(), 1e-6, on_gpu).unwrap();
        gpu.kernels.scale_rows(on_gpu, width, 27.5).unwrap();
        prefold_kernels::rms_norm_add(&x, &weight, 1e-6, &mut sum).unwrap();
        prefold_kernels::scale_rows(&mut sum, width, 27.5).unwrap();
        let expected: Vec<f64> = sum.iter().map(|&x| x.into()).collect();
        close("norm, sum and factor", &gpu.down(&out), &expected, |i| 1e-5 * (expected[i].abs() + 27.5));
    }
}

fn check_layer_norm<T: Element + DeviceRepr>(gpu: &Gpu, rows: usize, width: usize) {
    let rng = &mut rng(width as u64);
    let x: Vec<f32> = random::<f32>(rng, rows * width).iter().map(|x| x + 30.0).collect();
    let (weight, bias): (Vec<f32>, Vec<f32>) = (random(rng, width), random(rng, width));
    let expected = reference::layer_norm(&prefold_kernels::LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 }, &x);
    let (mut x, weight, bias) = (gpu.up(&x), gpu.up(&weight), gpu.up(&bias));
    let norm = cuda::LayerNorm { weight: weight.as_view(), bias: bias.as_view(), eps: 1e-5 };
    let mut out = gpu.up(&vec![T::default(); rows * width]);
    norm.run(&gpu.kernels, &x.as_view(), &mut out.as_view_mut()).unwrap();
    // Values near 30 have steps of 2e-6, which the norm amplifies where the variance is small.
    let exact = |i: usize| 1e-4 * (expected[i].abs() + 1.0);
    close("layer norm", &gpu.down(&out), &expected, |i| exact(i) + rounding::<T>() * expected[i].abs());
    norm.run_in_place(&gpu.kernels, &mut x.as_view_mut()).unwrap();
    close("layer norm in place", &gpu.down(&x), &expected, exact);
}

#[test]
fn layer_norm_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for (rows, width) in [(3, 63), (5, 64), (300, 384), (7, 768), (2, 5000)] {
        check_layer_norm::<f32>(&gpu, rows, width);
        check_layer_norm::<bf16>(&gpu, rows, width);
        check_layer_norm::<f16>(&gpu, rows, width);
    }
}

fn check_layer_norm_columns<T: Element + DeviceRepr>(gpu: &Gpu, width: usize, offset: usize, stride: usize) {
    let rng = &mut rng(width as u64);
    let (x, wide) = values::<T>(rng, 5 * stride);
    let (weight, bias): (Vec<f32>, Vec<f32>) = (random(rng, width), random(rng, width));
    let norm = prefold_kernels::LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 };
    let mut expected: Vec<f64> = wide.iter().map(|&x| x.into()).collect();
    for (row, expected) in wide.chunks(stride).zip(expected.chunks_mut(stride)) {
        let columns = offset..offset + width;
        expected[columns.clone()].copy_from_slice(&reference::layer_norm(&norm, &row[columns]));
    }
    let (mut x, weight, bias) = (gpu.up(&x), gpu.up(&weight), gpu.up(&bias));
    let norm = cuda::LayerNorm { weight: weight.as_view(), bias: bias.as_view(), eps: 1e-5 };
    norm.run_columns(&gpu.kernels, &mut x.as_view_mut(), stride, offset).unwrap();
    let tolerance = |i: usize| rounding::<T>() * (expected[i].abs() + 1e-3) + 1e-5;
    close("layer norm of columns", &gpu.down(&x), &expected, tolerance);
    let refused = norm.run_columns(&gpu.kernels, &mut x.as_view_mut(), stride, stride - width + 1);
    assert!(matches!(refused, Err(CudaError::Arguments(KernelError::Index { .. }))), "{refused:?}");
}

#[test]
fn layer_norm_of_columns_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for (width, offset, stride) in
        [(64, 0, 192), (64, 64, 192), (768, 768, 2304), (63, 63, 189), (12, 3, 36), (1, 0, 1)]
    {
        check_layer_norm_columns::<f32>(&gpu, width, offset, stride);
        check_layer_norm_columns::<bf16>(&gpu, width, offset, stride);
        check_layer_norm_columns::<f16>(&gpu, width, offset, stride);
    }
}

fn check_own_columns<T: Element + DeviceRepr>(gpu: &Gpu, group: usize) {
    let (rows, groups) = (40, 5);
    let (out_width, rng) = (groups * group, &mut rng(group as u64));
    let own: Vec<u32> = (0..rows).map(|_| rng.random_range(0..groups as u32)).collect();
    let mut outside = own.clone();
    outside[3] = groups as u32;
    let [own_up, outside_up] = [gpu.up(&own), gpu.up(&outside)];
    for width in [group, out_width] {
        let x = random::<f32>(rng, rows * width);
        let mut expected = vec![T::default(); rows * out_width];
        prefold_kernels::own_columns(&x, width, &own, group, &mut expected, out_width).unwrap();
        let (x, mut out) = (gpu.up(&x), gpu.up(&vec![T::from_f32(1.0); rows * out_width]));
        let x = x.as_view();
        gpu.kernels.own_columns(&x, width, &own_up.as_view(), group, &mut out.as_view_mut(), out_width).unwrap();
        assert_eq!(bits(&gpu.down(&out)), bits(&expected), "{width} of {out_width}");
        gpu.kernels.own_columns(&x, width, &outside_up.as_view(), group, &mut out.as_view_mut(), out_width).unwrap();
        let found = gpu.down(&out);
        assert!(found[3 * out_width..][..out_width].iter().all(|x| x.to_f32().is_nan()), "a group outside makes NaN");
    }
}

#[test]
fn own_columns_are_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for group in [1, 4, 33] {
        check_own_columns::<f32>(&gpu, group);
        check_own_columns::<bf16>(&gpu, group);
        check_own_columns::<f16>(&gpu, group);
    }
}

fn check_rope<T: Element + DeviceRepr>(gpu: &Gpu, dim: usize, heads: usize, kv_heads: usize, norm: bool) {
    let rng = &mut rng((dim * heads) as u64);
    let (rows, row_width) = (70, (heads + 2 * kv_heads) * dim);
    let inv_freq: Vec<f64> = (0..dim / 2).map(|i| 10_000_f64.powf(-2.0 * i as f64 / dim as f64)).collect();
    let table = RopeTable::new(&inv_freq, 500);
    let (x, wide) = values::<T>(rng, rows * row_width);
    let (weights, positions) = (
        [values::<f32>(rng, dim).1, values::<f32>(rng, dim).1],
        (0..rows).map(|_| rng.random_range(0..500)).collect::<Vec<u32>>(),
    );
    let span =
        |offset, num_heads, i: usize| HeadSpan { offset, num_heads, norm: norm.then_some(weights[i].as_slice()) };
    let spans = [span(0, heads, 0), span(heads * dim, kv_heads, 1)];
    let op =
        prefold_kernels::QkNormRope { table: &table, position_ids: &positions, row_width, spans: &spans, eps: 1e-6 };
    let expected = reference::qk_norm_rope(&op, &inv_freq, &wide);
    let on_device = weights.each_ref().map(|weight| gpu.up(weight));
    let spans: Vec<RopeSpan<'_>> = spans
        .iter()
        .zip(&on_device)
        .map(|(span, weight)| RopeSpan {
            offset: span.offset,
            num_heads: span.num_heads,
            norm: norm.then(|| weight.as_view()),
        })
        .collect();
    let (table_on_device, positions, mut x) = (gpu.up(table.values()), gpu.up(&positions), gpu.up(&x));
    let op = cuda::QkNormRope {
        table: table_on_device.as_view(),
        head_dim: dim,
        position_ids: positions.as_view(),
        row_width,
        spans: &spans,
        eps: 1e-6,
    };
    op.run(&gpu.kernels, &mut x.as_view_mut()).unwrap();
    close(&format!("rope {dim}"), &gpu.down(&x), &expected, |_| 4.0 * rounding::<T>());
}

#[test]
fn qk_norm_rope_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for norm in [false, true] {
        for dim in [2, 6, 20, 64, 128, 256] {
            check_rope::<f32>(&gpu, dim, 4, 2, norm);
            check_rope::<bf16>(&gpu, dim, 3, 1, norm);
            check_rope::<f16>(&gpu, dim, 2, 2, norm);
        }
    }
}

fn check_activate_mul<T: Element + DeviceRepr>(gpu: &Gpu, activation: Activation, width: usize) {
    let (gate_up, wide) = values::<T>(&mut rng(width as u64), 9 * 2 * width);
    let mut out = gpu.up(&vec![T::default(); 9 * width]);
    gpu.kernels.activate_mul(activation, &gpu.up(&gate_up).as_view(), width, &mut out.as_view_mut()).unwrap();
    let expected = reference::activate_mul(activation, &wide, width);
    close(&format!("gated {activation:?} {width}"), &gpu.down(&out), &expected, |i| {
        rounding::<T>() * (expected[i].abs() + 1e-4)
    });
}

#[test]
fn matrices_of_more_than_2_to_the_31_values_are_read_to_their_end() {
    let Some(gpu) = gpu() else { return };
    let (rows, width) = (90_000, 24_576);
    let stream = gpu.kernels.stream();
    let (last, wide) = values::<bf16>(&mut rng(3), width);
    let mut matrix = stream.alloc_zeros::<bf16>(rows * width).unwrap();
    stream.memcpy_htod(&last, &mut matrix.slice_mut((rows - 1) * width..)).unwrap();

    let index = gpu.up(&[rows as u32 - 1]);
    let mut row = gpu.up(&vec![bf16::ZERO; width]);
    gpu.kernels.gather_rows(&matrix.as_view(), width, &index.as_view(), &mut row.as_view_mut()).unwrap();
    assert_eq!(gpu.down(&row), last);

    let mut activated = stream.alloc_zeros::<bf16>(rows * width / 2).unwrap();
    let out = &mut activated.as_view_mut();
    gpu.kernels.activate_mul(Activation::Silu, &matrix.as_view(), width / 2, out).unwrap();
    let found = stream.clone_dtoh(&activated.slice((rows - 1) * width / 2..)).unwrap();
    stream.synchronize().unwrap();
    let expected = reference::activate_mul(Activation::Silu, &wide, width / 2);
    close("silu of the last row", &found, &expected, |i| rounding::<bf16>() * (expected[i].abs() + 1e-4));
}

#[test]
fn activate_mul_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for width in [1, 7, 40, 3072] {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
            check_activate_mul::<f32>(&gpu, activation, width);
            check_activate_mul::<bf16>(&gpu, activation, width);
            check_activate_mul::<f16>(&gpu, activation, width);
        }
    }
}

fn check_activate<T: Element + DeviceRepr>(gpu: &Gpu, activation: Activation, width: usize) {
    let rng = &mut rng(width as u64);
    let ((x, wide), bias) = (values::<T>(rng, 9 * width), random::<f32>(rng, width));
    let (mut x, bias_up) = (gpu.up(&x), gpu.up(&bias));
    let mut out = gpu.up(&vec![T::default(); 9 * width]);
    let plain = Activate { activation, width, bias: None };
    plain.run(&gpu.kernels, &x.as_view(), &mut out.as_view_mut()).unwrap();
    let what = format!("{activation:?} {width}");
    let expected: Vec<f64> = wide.iter().map(|&x| reference::activation(activation, x)).collect();
    let tolerance = |expected: f64| rounding::<T>() * (expected.abs() + 1e-2);
    close(&what, &gpu.down(&out), &expected, |i| tolerance(expected[i]));
    let biased = Activate { bias: Some(bias_up.as_view()), ..plain };
    biased.run_in_place(&gpu.kernels, &mut x.as_view_mut()).unwrap();
    let sums = wide.iter().enumerate().map(|(i, x)| x + bias[i % width]);
    let expected: Vec<f64> = sums.map(|x| reference::activation(activation, x)).collect();
    close(&format!("{what} with a bias"), &gpu.down(&x), &expected, |i| tolerance(expected[i]));
}

#[test]
fn activations_match_the_reference() {
    let Some(gpu) = gpu() else { return };
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
        for width in [1, 7, 40, 1536] {
            check_activate::<f32>(&gpu, activation, width);
            check_activate::<bf16>(&gpu, activation, width);
            check_activate::<f16>(&gpu, activation, width);
        }
    }
}

#[test]
fn pool_rows_gathers_averages_and_normalises() {
    let Some(gpu) = gpu() else { return };
    let rng = &mut rng(9);
    for width in [1, 384, 1024] {
        let (_, x) = values::<f32>(rng, 40 * width);
        let lengths = [1, 5, 1, 17, 0];
        let table: Vec<u32> = (0..lengths.iter().sum()).map(|_| rng.random_range(0..40)).collect();
        let starts: Vec<u32> = [0, 1, 6, 7, 24, 24].to_vec();
        let kinds = [PoolKind::Mean, PoolKind::Max, PoolKind::MeanSqrtLen, PoolKind::WeightedMean];
        for (kind, normalize) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let (on_device, table_up, starts_up) = (gpu.up(&x), gpu.up(&table), gpu.up(&starts));
            let (table_view, starts_view) = (table_up.as_view(), starts_up.as_view());
            let pool = PoolRows { kind, table: table_view, starts: starts_view, rows_end: 40, normalize };
            let mut out = gpu.up(&vec![1.0_f32; 5 * width]);
            gpu.kernels.pool_rows(&on_device.as_view(), width, &pool, &mut out.as_view_mut()).unwrap();
            for (b, found) in gpu.down(&out).chunks(width).enumerate() {
                let rows = &table[starts[b] as usize..starts[b + 1] as usize];
                let pooled = reference::pool(kind, &x, width, rows);
                let length =
                    if normalize && !rows.is_empty() { pooled.iter().map(|x| x * x).sum::<f64>().sqrt() } else { 1.0 };
                let expected: Vec<f64> = pooled.iter().map(|x| x / length).collect();
                assert_close(&format!("{kind:?}"), found, &expected, |_| 2e-6);
            }
        }
    }
}
