//! Prints what the GEMM reaches beside the CPU's peak, each the best of eight tries in turn, because other work on the
//! machine disturbs: `cargo bench -p prefold-kernels --bench throughput -- [ISA [M N K]]`.

use prefold_kernels::{Element, Gemm, Int8, Isa, KernelError, PackedMatrix, Packing, bf16, run_peak};
use std::time::Instant;

fn random<A: Element>(len: usize) -> Vec<A> {
    (0..len).map(|i| A::from_f32(((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5)).collect()
}

/// Runs `f` and returns the giga-operations per second of the number of operations that it returns.
fn rate(f: impl FnOnce() -> Result<usize, KernelError>) -> Result<f64, KernelError> {
    let clock = Instant::now();
    let operations = f()?;
    Ok(operations as f64 / clock.elapsed().as_secs_f64() / 1e9)
}

fn measure<P: Packing>(isa: Isa, m: usize, n: usize, k: usize) -> Result<(), KernelError> {
    let weight = PackedMatrix::<P>::pack(&random::<f32>(n * k), n, k)?;
    let x = random::<P::Input>(m * k);
    let mut out = vec![0.0; m * n];
    let gemm = Gemm::<P>::new(&x, &weight);
    let operations = 2 * m * n * k;
    let repeats = (10_000_000_000 / operations).clamp(1, 1000);
    gemm.run_with(isa, &mut out)?;
    let (mut peak, mut best) = (0.0_f64, 0.0_f64);
    for _ in 0..8 {
        peak = peak.max(rate(|| Ok(run_peak::<P>(isa, 1_000_000)))?);
        best = best.max(rate(|| {
            (0..repeats).try_for_each(|_| gemm.run_with(isa, &mut out))?;
            Ok(operations * repeats)
        })?);
    }
    println!(
        "{isa:>11} {:>8} m {m:5} n {n:5} k {k:5}: {best:7.1} of {peak:7.1} G/s: {:4.1}%",
        P::DTYPE,
        100.0 * best / peak,
    );
    Ok(())
}

fn main() -> Result<(), KernelError> {
    // `cargo bench` adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|x| x != "--bench");
    let filter = args.next().unwrap_or_default();
    let shape: Vec<usize> = args.filter_map(|x| x.parse().ok()).collect();
    for isa in Isa::available().into_iter().rev().filter(|isa| filter.is_empty() || isa.to_string() == filter) {
        if let [m, n, k] = shape[..] {
            measure::<Int8>(isa, m, n, k)?;
            measure::<bf16>(isa, m, n, k)?;
            measure::<f32>(isa, m, n, k)?;
            continue;
        }
        for (n, k) in [(960, 576), (3072, 576), (576, 1536), (4096, 1024), (6144, 1024), (1024, 3072), (2560, 9728)] {
            for m in [1, 16, 128, 1024] {
                measure::<Int8>(isa, m, n, k)?;
                measure::<bf16>(isa, m, n, k)?;
            }
            measure::<f32>(isa, 1024, n, k)?;
        }
    }
    Ok(())
}
