//! Prints what the GEMM reaches beside the CPU's peak, each the best of eight tries in turn, because other work on the
//! machine disturbs: `cargo bench -p prefold-kernels --bench throughput -- [ISA [M N K]]`.

use prefold_kernels::{Element, Gemm, Isa, KernelError, PackedMatrix, Packing, bf16, run_peak};
use std::time::Instant;

fn random<A: Element>(len: usize) -> Vec<A> {
    (0..len).map(|i| A::from_f32(((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5)).collect()
}

/// Giga-operations per second.
fn rate(operations: f64, f: impl FnOnce()) -> f64 {
    let clock = Instant::now();
    f();
    operations / clock.elapsed().as_secs_f64() / 1e9
}

fn measure<A: Element + Packing<Input = A>>(isa: Isa, m: usize, n: usize, k: usize) -> Result<(), KernelError> {
    let weight = PackedMatrix::<A>::pack(&random::<A>(n * k), n, k)?;
    let x = random::<A>(m * k);
    let mut out = vec![0.0; m * n];
    let gemm = Gemm::<A>::new(&x, &weight);
    let operations = (2 * m * n * k) as f64;
    let repeats = (1e10 / operations).clamp(1.0, 1000.0).ceil();
    gemm.run_with(isa, &mut out)?;
    let (mut peak, mut best) = (0.0_f64, 0.0_f64);
    for _ in 0..8 {
        let count = run_peak::<A>(isa, 1) * 2_000_000;
        let full = || assert_eq!(run_peak::<A>(isa, 2_000_000), count);
        peak = peak.max(rate(count as f64, full));
        let mut result = Ok(());
        let run = || (0..repeats as usize).for_each(|_| result = gemm.run_with(isa, &mut out));
        best = best.max(rate(operations * repeats, run));
        result?;
    }
    println!(
        "{isa:>10} {:>8} m {m:5} n {n:5} k {k:5}: {best:6.1} of {peak:6.1} GFLOP/s: {:4.1}%",
        <A as Element>::DTYPE,
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
            measure::<bf16>(isa, m, n, k)?;
            measure::<f32>(isa, m, n, k)?;
            continue;
        }
        for (n, k) in [(960, 576), (3072, 576), (576, 1536), (4096, 1024), (6144, 1024), (1024, 3072), (2560, 9728)] {
            for m in [1, 16, 128, 1024] {
                measure::<bf16>(isa, m, n, k)?;
            }
            measure::<f32>(isa, 1024, n, k)?;
        }
    }
    Ok(())
}
