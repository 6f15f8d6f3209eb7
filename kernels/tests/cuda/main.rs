//! Every CUDA kernel against the naive reference, on random shapes and plans. Skipped with the words "no CUDA device" where
//! there is none, unless REQUIRE_CUDA=1.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod experts;
mod heads;
mod positions;
mod products;
mod rows;

use common::*;
use prefold_kernels::cuda::cudarc::cublas::CudaBlas;
use prefold_kernels::cuda::cudarc::driver::{CudaContext, CudaSlice, DeviceRepr};
use prefold_kernels::cuda::*;
use prefold_kernels::{Dtype, Element};
use rand::Rng;
use rand::rngs::StdRng;
use std::sync::Arc;

/// A device with its kernels.
struct Gpu {
    kernels: Kernels,
    blas: Blas,
}

fn gpu() -> Option<Gpu> {
    if let Err(error) = device_count() {
        assert!(
            std::env::var_os("REQUIRE_CUDA").is_none(),
            "REQUIRE_CUDA is set, but there is no CUDA device: {error}"
        );
        println!("skipped: no CUDA device: {error}");
        return None;
    }
    let context = CudaContext::new(0).unwrap();
    exclusive_streams(&context);
    let stream = context.new_stream().unwrap();
    let kernels = Kernels::new(stream.clone()).unwrap();
    let blas = Blas::new(Arc::new(CudaBlas::new(stream).unwrap()), &kernels).unwrap();
    Some(Gpu { kernels, blas })
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
        Dtype::Float32 | Dtype::Int8 => 4e-6,
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 2048.0,
    }
}

/// Values of about 1 that the type represents exactly, and the same values as f32.
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
fn indices_reach_the_device_through_pinned_memory() {
    let Some(gpu) = gpu() else { return };
    let mut pinned = Pinned::default();
    for len in [1, 1000, 70_000, 3] {
        let words: Vec<u32> = (0..len).map(|i| i * 7 + len).collect();
        let mut to = gpu.up(&vec![0_u32; len as usize]);
        pinned.upload(gpu.kernels.stream(), &words, &mut to.as_view_mut()).unwrap();
        assert_eq!(gpu.down(&to), words);
    }
}

/// Downloads may be fetched in any order or dropped, and later ones use their memory again.
#[test]
fn results_are_what_they_were_when_their_copies_were_queued() {
    let Some(gpu) = gpu() else { return };
    let downloads = Downloads::default();
    for round in 0..3 {
        let mut slices: Vec<_> = [3, 0, 70_000, 1].map(|len| gpu.up(&vec![round as f32; len])).into();
        let mut queued: Vec<_> =
            slices.iter().map(|slice| downloads.start(gpu.kernels.stream(), &slice.as_view()).unwrap()).collect();
        for slice in &mut slices {
            gpu.kernels.scale_rows(&mut slice.as_view_mut(), 1, 7.0).unwrap();
        }
        drop(queued.swap_remove(0));
        for (len, download) in [1, 0, 70_000].into_iter().zip(queued) {
            assert_eq!(download.values().unwrap(), vec![round as f32; len]);
        }
    }
}

/// An upload may follow an unfinished one, and pinned memory may be dropped before its copy is done.
#[test]
fn pinned_memory_stays_what_it_is_until_it_is_copied() {
    let Some(gpu) = gpu() else { return };
    let lists: Vec<Vec<u32>> = (0..20).map(|list| (0..500).map(|i| i * 3 + list).collect()).collect();
    let mut pinned = Pinned::default();
    let mut slices: Vec<_> = lists.iter().map(|list| gpu.up(&vec![0_u32; list.len()])).collect();
    for (words, to) in lists.iter().zip(&mut slices) {
        pinned.upload(gpu.kernels.stream(), words, &mut to.as_view_mut()).unwrap();
    }
    drop(pinned);
    for (words, to) in lists.iter().zip(&slices) {
        assert_eq!(gpu.down(to), *words);
    }
}
