//! cuBLAS products, and the bias that they are added to.

use super::*;
use half::f16;
use prefold_kernels::cuda;
use prefold_kernels::{Store, bf16, reference};

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
