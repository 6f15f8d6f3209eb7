//! Prints the throughput of the GEMM next to the CPU's peak, and for a single row next to the time to read its weights. Each
//! figure is the best of eight tries in turn, because other work on the machine disturbs the measurement:
//! `cargo bench -p prefold-kernels --bench throughput -- [ISA [M N K]]`; or attention of one sequence, with
//! `-- ISA HEADS KV_HEADS HEAD_DIM TOKENS`.

use prefold_kernels::{
    Attention, Element, Float, Gemm, Int8, Isa, KernelError, Mask, PackedMatrix, Packing, QkvLayout, QuerySpan,
    RowView, advise_huge_pages, bf16, run_peak, run_read,
};
use std::time::Instant;

fn random<A: Element>(len: usize) -> Vec<A> {
    (0..len).map(|i| A::from_f32(((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5)).collect()
}

/// Runs `f`, which returns its number of operations, and returns giga-operations per second.
fn rate(f: impl FnOnce() -> Result<usize, KernelError>) -> Result<f64, KernelError> {
    let clock = Instant::now();
    let operations = f()?;
    Ok(operations as f64 / clock.elapsed().as_secs_f64() / 1e9)
}

fn measure<P: Packing>(isa: Isa, m: usize, n: usize, k: usize) -> Result<(), KernelError> {
    let weight = PackedMatrix::<P>::pack(&random::<f32>(n * k), n, k)?;
    let x = random::<P::Input>(m * k);
    // As the buffers of a pass: in huge pages, from a cache line on.
    let mut memory = vec![0.0_f32; m * n + 16];
    advise_huge_pages(&mut memory);
    let start = memory.as_ptr().align_offset(64);
    let out = &mut memory[start..start + m * n];
    let gemm = Gemm::<P>::new(&x, &weight);
    let operations = 2 * m * n * k;
    let repeats = (10_000_000_000 / operations).clamp(1, 1000);
    gemm.run_with(isa, out)?;
    let (mut peak, mut best, mut read) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..8 {
        if m == 1 {
            read = read.max(rate(|| Ok((0..repeats).map(|_| run_read(isa, &weight)).sum()))?);
        }
        peak = peak.max(rate(|| Ok(run_peak::<P>(isa, 1_000_000)))?);
        best = best.max(rate(|| {
            (0..repeats).try_for_each(|_| gemm.run_with(isa, out))?;
            Ok(operations * repeats)
        })?);
    }
    let (dtype, share) = (P::DTYPE, 100.0 * best / peak);
    print!("{isa:>11} {dtype:>8} m {m:5} n {n:5} k {k:5}: {best:7.1} of {peak:7.1} G/s: {share:4.1}%");
    if m == 1 {
        let used = best * (n * k * P::DTYPE.size()) as f64 / operations as f64;
        print!("; weights {used:5.1} of {read:5.1} GB/s: {:4.1}%", 100.0 * used / read);
    }
    println!();
    Ok(())
}

/// Attention of one sequence, causal and full. Every visible query-key pair is counted.
fn measure_attention<F: Float>(isa: Isa, layout: QkvLayout, tokens: usize) -> Result<(), KernelError> {
    let qkv = random::<f32>(tokens * layout.qkv_width());
    let view = |offset| RowView { data: &qkv, row_stride: layout.qkv_width(), offset };
    let pages: Vec<u32> = (0..tokens as u32).collect();
    let path_lens = [tokens as u32];
    let mut out = vec![0.0_f32; tokens * layout.q_width()];
    let mut rates = [0.0_f64; 2];
    for (mask, rate_of) in [Mask::Causal, Mask::Full { path_lens: &path_lens }].into_iter().zip(&mut rates) {
        let attention = Attention {
            q: view(0),
            k: view(layout.q_width()),
            v: view(layout.q_width() + layout.kv_width()),
            pages: &pages,
            spans: &[QuerySpan { row: 0, len: tokens as u32, depth: 0, path: 0 }],
            layout,
            scale: 0.1,
            mask,
            window: None,
            softcap: None,
            bias: None,
            positions: None,
        };
        let pairs = if matches!(mask, Mask::Causal) { tokens * (tokens + 1) / 2 } else { tokens * tokens };
        let operations = 4 * pairs * layout.q_width();
        let repeats = (2_000_000_000 / operations).clamp(1, 1000);
        for _ in 0..8 {
            *rate_of = rate_of.max(rate(|| {
                (0..repeats).try_for_each(|_| attention.run_with::<F, f32>(isa, &mut out))?;
                Ok(operations * repeats)
            })?);
        }
    }
    let [causal, full] = rates;
    let dtype = <F as Element>::DTYPE;
    println!("{isa:>11} {dtype:>8} {layout:?} {tokens} tokens: causal {causal:7.1}, full {full:7.1} G/s");
    Ok(())
}

fn main() -> Result<(), KernelError> {
    // `cargo bench` adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|x| x != "--bench");
    let filter = args.next().unwrap_or_default();
    let shape: Vec<usize> = args.filter_map(|x| x.parse().ok()).collect();
    for isa in Isa::available().into_iter().rev().filter(|isa| filter.is_empty() || isa.to_string() == filter) {
        if let [num_heads, num_kv_heads, head_dim, tokens] = shape[..] {
            let layout = QkvLayout { num_heads, num_kv_heads, head_dim };
            measure_attention::<bf16>(isa, layout, tokens)?;
            measure_attention::<f32>(isa, layout, tokens)?;
            continue;
        }
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
