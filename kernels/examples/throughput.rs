//! Prints what the GEMM reaches beside the CPU's peak: `cargo run --release -p prefold-kernels --example throughput`.

use prefold_kernels::{Activation, Gemm, Isa, KernelError, PackedMatrix, PackedMatrixBuilder, bf16, run_peak};
use std::time::Instant;

fn random<A: Activation>(len: usize) -> Vec<A> {
    (0..len).map(|i| A::from_f32(((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5)).collect()
}

fn peak(isa: Isa, precision: prefold_kernels::Precision) -> f64 {
    let start = Instant::now();
    run_peak(isa, precision, 1_000_000) as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn measure<A: Activation>(isa: Isa, m: usize, n: usize, k: usize) -> Result<(), KernelError> {
    let mut weight = PackedMatrixBuilder::new(A::PRECISION, n, k)?;
    weight.push(&random::<A>(n * k))?;
    let weight: PackedMatrix = weight.finish()?;
    let x = random::<A>(m * k);
    let mut out = vec![0.0; m * n];
    let gemm = Gemm::new(&x, &weight);
    let operations = (2 * m * n * k) as f64;
    let repeats = (5e9 / operations).clamp(1.0, 300.0) as usize;
    gemm.run_with(isa, &mut out)?;
    // The best of several: the machine is shared. Each is beside its own peak.
    let (mut best, mut best_peak, mut ratio) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..12 {
        let peak = peak(isa, A::PRECISION);
        let start = Instant::now();
        for _ in 0..repeats {
            gemm.run_with(isa, &mut out)?;
        }
        let speed = operations * repeats as f64 / start.elapsed().as_secs_f64() / 1e9;
        best = best.max(speed);
        best_peak = best_peak.max(peak);
        ratio = ratio.max(speed / peak);
    }
    println!(
        "{isa:>10} {:>8} m {m:5} n {n:5} k {k:5}: {best:7.1} GFLOP/s of {best_peak:7.1}: {:4.1}% (best pair {:4.1}%)",
        A::PRECISION.to_string(),
        100.0 * best / best_peak,
        100.0 * ratio
    );
    Ok(())
}

fn main() -> Result<(), KernelError> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for isa in Isa::available().into_iter().rev().filter(|isa| filter.is_empty() || isa.to_string() == filter) {
        for (n, k) in [(960, 576), (3072, 576), (576, 1536), (4096, 1024), (6144, 1024), (1024, 3072), (2560, 9728)] {
            for m in [1, 16, 128, 1024] {
                measure::<bf16>(isa, m, n, k)?;
            }
            measure::<f32>(isa, 1024, n, k)?;
        }
    }
    Ok(())
}
