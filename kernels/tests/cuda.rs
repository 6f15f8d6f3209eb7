//! Every CUDA kernel against the naive reference, on random shapes and plans. Skipped with the words "no CUDA device" where
//! there is none, unless REQUIRE_CUDA=1.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

mod common;

use common::*;
use half::f16;
use prefold_kernels::cuda::cudarc::cublas::CudaBlas;
use prefold_kernels::cuda::cudarc::driver::{CudaContext, CudaSlice, DeviceRepr};
use prefold_kernels::cuda::{self, *};
use prefold_kernels::{Dtype, Element, HeadSpan, QkvLayout, QuerySpan, RopeTable, RowView, Store, bf16, reference};
use rand::Rng;
use rand::rngs::StdRng;

/// A device with its kernels.
struct Gpu {
    kernels: Kernels,
    blas: CudaBlas,
}

fn gpu() -> Option<Gpu> {
    let context = match CudaContext::device_count() {
        Ok(1..) => CudaContext::new(0).unwrap(),
        _ => {
            assert!(std::env::var_os("REQUIRE_CUDA").is_none(), "REQUIRE_CUDA is set, but there is no CUDA device");
            println!("skipped: no CUDA device");
            return None;
        }
    };
    exclusive_stream(&context);
    let stream = context.new_stream().unwrap();
    let blas = CudaBlas::new(stream.clone()).unwrap();
    prefer_exact_sums(&blas).unwrap();
    Some(Gpu { kernels: Kernels::new(stream).unwrap(), blas })
}

impl Gpu {
    fn up<T: DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.kernels.stream().clone_htod(values).unwrap()
    }

    fn down<T: DeviceRepr>(&self, slice: &CudaSlice<T>) -> Vec<T> {
        let values = self.kernels.stream().clone_dtoh(slice).unwrap();
        self.kernels.stream().synchronize().unwrap();
        values
    }
}

/// Relative rounding error of a result.
fn rounding<T: Element>() -> f64 {
    match T::DTYPE {
        Dtype::Float32 => 4e-6,
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 2048.0,
    }
}

/// Values of about 1 that the type has exactly, and the same as f32.
fn values<T: Element>(rng: &mut StdRng, len: usize) -> (Vec<T>, Vec<f32>) {
    let narrow: Vec<T> = (0..len).map(|_| T::from_f32(rng.random_range(-1.7..1.7))).collect();
    let wide = narrow.iter().map(|x| x.to_f32()).collect();
    (narrow, wide)
}

fn close<T: Element>(what: &str, found: &[T], expected: &[f64], tolerance: impl Fn(usize) -> f64) {
    let found: Vec<f32> = found.iter().map(|x| x.to_f32()).collect();
    assert_close(what, &found, expected, tolerance);
}

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
    gpu.kernels.embed(&table.as_view(), width, &on_device.as_view(), &mut out.as_view_mut()).unwrap();
    for (row, &id) in gpu.down(&out).chunks(width).zip(&ids) {
        assert_eq!(row, &wide[id as usize * width..][..width]);
    }
}

#[test]
fn embed_widens_rows() {
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

fn check_silu_mul<T: Element + DeviceRepr>(gpu: &Gpu, width: usize) {
    let (gate_up, wide) = values::<T>(&mut rng(width as u64), 9 * 2 * width);
    let mut out = gpu.up(&vec![T::default(); 9 * width]);
    gpu.kernels.silu_mul(&gpu.up(&gate_up).as_view(), width, &mut out.as_view_mut()).unwrap();
    let expected = reference::silu_mul(&wide, width);
    close(&format!("silu {width}"), &gpu.down(&out), &expected, |i| rounding::<T>() * (expected[i].abs() + 1e-4));
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
    gpu.kernels.silu_mul(&matrix.as_view(), width / 2, &mut activated.as_view_mut()).unwrap();
    let found = stream.clone_dtoh(&activated.slice((rows - 1) * width / 2..)).unwrap();
    stream.synchronize().unwrap();
    let expected = reference::silu_mul(&wide, width / 2);
    close("silu of the last row", &found, &expected, |i| rounding::<bf16>() * (expected[i].abs() + 1e-4));
}

#[test]
fn silu_mul_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for width in [1, 7, 40, 3072] {
        check_silu_mul::<f32>(&gpu, width);
        check_silu_mul::<bf16>(&gpu, width);
        check_silu_mul::<f16>(&gpu, width);
    }
}

#[test]
fn pool_rows_gathers_averages_and_normalises() {
    let Some(gpu) = gpu() else { return };
    let rng = &mut rng(9);
    for width in [1, 384, 1024] {
        let (_, x) = values::<f32>(rng, 40 * width);
        let lengths = [1, 5, 1, 17];
        let table: Vec<u32> = (0..lengths.iter().sum()).map(|_| rng.random_range(0..40)).collect();
        let starts: Vec<u32> = [0, 1, 6, 7, 24].to_vec();
        for normalize in [false, true] {
            let (on_device, table_up, starts_up) = (gpu.up(&x), gpu.up(&table), gpu.up(&starts));
            let pool = PoolRows { table: table_up.as_view(), starts: starts_up.as_view(), rows_end: 40, normalize };
            let mut out = gpu.up(&vec![0.0_f32; 4 * width]);
            gpu.kernels.pool_rows(&on_device.as_view(), width, &pool, &mut out.as_view_mut()).unwrap();
            for (b, found) in gpu.down(&out).chunks(width).enumerate() {
                let rows = &table[starts[b] as usize..starts[b + 1] as usize];
                let mean = |column: usize| {
                    let sum: f64 = rows.iter().map(|&row| f64::from(x[row as usize * width + column])).sum();
                    sum / rows.len() as f64
                };
                let mean: Vec<f64> = (0..width).map(mean).collect();
                let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
                let expected: Vec<f64> = mean.iter().map(|x| if normalize { x / length } else { *x }).collect();
                assert_close("pool", found, &expected, |_| 2e-6);
            }
        }
    }
}

fn check_gemm<T: Element + DeviceRepr, O: Element + DeviceRepr>(gpu: &Gpu, m: usize, n: usize, k: usize) {
    let rng = &mut rng((m * n * k) as u64);
    let ((x, x_wide), (weight, weight_wide)) = (values::<T>(rng, m * k), values::<T>(rng, n * k));
    let (before, before_wide) = values::<O>(rng, m * n);
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let product = reference::matmul(&wide(&x_wide), &wide(&weight_wide), k);
    let (x, weight) = (gpu.up(&x), gpu.up(&weight));
    for columns in [0..n, n / 3..n] {
        for store in [Store::Overwrite, Store::Accumulate] {
            let pick = |i: usize| i / columns.len() * n + columns.start + i % columns.len();
            let before: Vec<O> = (0..m * columns.len()).map(|i| before[pick(i)]).collect();
            let expected: Vec<f64> = (0..m * columns.len())
                .map(|i| product[pick(i)] + if store == Store::Accumulate { before_wide[pick(i)].into() } else { 0.0 })
                .collect();
            let mut out = gpu.up(&before);
            let (x, weight, columns) = (x.as_view(), weight.as_view(), columns.clone());
            let gemm = cuda::Gemm { x, weight, in_features: k, columns, store };
            gemm.run(&gpu.kernels, &gpu.blas, &mut out.as_view_mut()).unwrap();
            // Products are of size up to 3; f32 sums of k of them.
            let tolerance = |i: usize| rounding::<O>() * expected[i].abs() + 1e-5 * (k as f64).sqrt() * 3.0;
            close(&format!("gemm {m} {n} {k}"), &gpu.down(&out), &expected, tolerance);
        }
    }
}

#[test]
fn gemm_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    for (m, n, k) in [(1, 64, 32), (7, 96, 64), (130, 384, 576), (33, 30, 1024)] {
        check_gemm::<f32, f32>(&gpu, m, n, k);
        check_gemm::<bf16, bf16>(&gpu, m, n, k);
        check_gemm::<bf16, f32>(&gpu, m, n, k);
        check_gemm::<f16, f16>(&gpu, m, n, k);
        check_gemm::<f16, f32>(&gpu, m, n, k);
    }
}

#[test]
fn biases_are_what_products_are_added_to() {
    let Some(gpu) = gpu() else { return };
    let (_, bias) = values::<f32>(&mut rng(3), 37);
    let mut out = gpu.up(&vec![1.0_f32; 3 * 37]);
    for (accumulate, expected) in [(true, 1.0), (false, 0.0)] {
        let bias_up = gpu.up(&bias);
        gpu.kernels.bias_rows(&bias_up.as_view(), accumulate, &mut out.as_view_mut()).unwrap();
        for (i, found) in gpu.down(&out).iter().enumerate() {
            assert_eq!(*found, expected + bias[i % 37]);
        }
    }
}

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
    let expected = reference::attention(&op);
    let half = size_of::<T>() == 2;
    let plan = AttentionPlan::new(layout, half, &tree.scatter, &pieces).unwrap();
    let (words, qkv) = (gpu.up(plan.words()), gpu.up(&qkv));
    let mut out = gpu.up(&vec![T::default(); tree.rows * layout.q_width()]);
    let attention = cuda::Attention {
        q: Columns { data: qkv.as_view(), row_stride: width },
        kv: Columns { data: qkv.slice(layout.q_width()..), row_stride: width },
        plan: plan.on_device(words.as_view()).unwrap(),
        layout,
        scale: op.scale,
        window,
    };
    attention.run(&gpu.kernels, &mut out.as_view_mut()).unwrap();
    let tolerance = if half { 2e-2 } else { 1e-5 };
    // Spans are in the order of their rows and leave none out.
    close(&format!("{layout:?} {window:?} seed {seed}"), &gpu.down(&out), &expected, |_| tolerance);
}

#[test]
fn attention_matches_the_reference() {
    let Some(gpu) = gpu() else { return };
    let shapes = [(1, 1, 64), (4, 2, 64), (16, 8, 128), (32, 8, 128), (7, 1, 128), (3, 3, 80), (2, 1, 20), (9, 3, 1)];
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
        mask: prefold_kernels::Mask::Causal,
        window: None,
        bias: None,
    };
    let expected = reference::attention(&op);
    let plan = AttentionPlan::new(layout, true, &pages, &spans).unwrap();
    let (words, q, kv) = (gpu.up(plan.words()), gpu.up(&q), gpu.up(&kv));
    let mut out = gpu.up(&vec![bf16::ZERO; total as usize * q_width]);
    let attention = cuda::Attention {
        q: Columns { data: q.as_view(), row_stride: q_width },
        kv: Columns { data: kv.as_view(), row_stride: kv_width },
        plan: plan.on_device(words.as_view()).unwrap(),
        layout,
        scale: 0.1,
        window: None,
    };
    attention.run(&gpu.kernels, &mut out.as_view_mut()).unwrap();
    close("identity", &gpu.down(&out), &expected, |_| 2e-2);
}

#[test]
fn indices_reach_the_device_through_pinned_memory() {
    let Some(gpu) = gpu() else { return };
    let mut pinned = Pinned::default();
    for len in [1, 1000, 70_000, 3] {
        let words: Vec<u32> = (0..len).map(|i| i * 7 + len).collect();
        let mut to = gpu.up(&vec![0_u32; len as usize]);
        pinned.upload(&gpu.kernels, &words, &mut to.as_view_mut()).unwrap();
        assert_eq!(gpu.down(&to), words);
    }
}
