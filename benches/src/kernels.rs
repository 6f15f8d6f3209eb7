//! Matrix products compared with the CPU's measured peak and candle's `f32` product, and element-wise kernels compared
//! with a memory copy, all alternating in one run, because the machines are shared.

use crate::report::{Output, Table, chart, fastest};
use anyhow::Result;
use candle_core::{Device, Tensor};
use half::bf16;
use prefold_kernels::{
    Activation, Element, Gemm, HeadSpan, Isa, PackedMatrix, QkNormRope, RopeTable, activate_mul, gather_rows, rms_norm,
    run_peak,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use serde_json::json;
use std::time::Instant;

/// Flags of `prefold-bench kernels`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rows of the input.
    #[arg(long, value_delimiter = ',', default_value = "1,16,128,1024,4096")]
    rows: Vec<usize>,
    /// Rounds; the fastest of each contestant counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    output: Output,
}

/// (model, layer, out_features, in_features)
const LAYERS: [(&str, &str, usize, usize); 10] = [
    ("SmolLM2-135M", "qkv", 960, 576),
    ("SmolLM2-135M", "gate-up", 3072, 576),
    ("SmolLM2-135M", "down", 576, 1536),
    ("Qwen3-0.6B", "qkv", 4096, 1024),
    ("Qwen3-0.6B", "o", 1024, 2048),
    ("Qwen3-0.6B", "gate-up", 6144, 1024),
    ("Qwen3-0.6B", "down", 1024, 3072),
    ("Qwen3-4B", "qkv", 6144, 2560),
    ("Qwen3-4B", "gate-up", 19_456, 2560),
    ("Qwen3-4B", "down", 2560, 9728),
];

/// Layers in the picture, which has two lines for each model; the table has all layers.
const DRAWN: [&str; 2] = ["gate-up", "down"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut products = Products { runs: args.runs, table: Table::default(), peaks: [0.0; 2] };
    for (model, layer, out_features, in_features) in LAYERS {
        for &rows in &args.rows {
            products.measure(&format!("{model} {layer}"), [rows, out_features, in_features])?;
        }
    }
    let table = products.table;
    println!();
    let mut elementwise = Table::default();
    for width in [576, 1024, 2560] {
        element_wise(args, &mut elementwise, width)?;
    }
    let drawn = LAYERS.iter().filter(|(_, layer, ..)| DRAWN.contains(layer));
    let names: Vec<String> = drawn.map(|(model, layer, ..)| format!("{model} {layer}")).collect();
    let shares = |name: &String| table.column("of peak", |row| row["layer"] == name.as_str());
    let lines = names.iter().map(|name| (name.as_str(), shares(name)));
    let titles = ["Linear layers in bfloat16: share of the measured peak", "rows of the input", "of peak"];
    args.output.write(&[&table, &elementwise], &[chart(titles, &args.rows, lines)])
}

fn random<A: Element>(len: usize) -> Vec<A> {
    let mut rng = SmallRng::seed_from_u64(len as u64);
    (0..len).map(|_| A::from_f32(rng.random::<f32>() - 0.5)).collect()
}

/// Products, each with the peak: the highest measured so far, because disturbances only lower it.
struct Products {
    runs: usize,
    table: Table,
    /// In bf16 and in f32.
    peaks: [f64; 2],
}

impl Products {
    fn measure(&mut self, name: &str, [m, n, k]: [usize; 3]) -> Result<()> {
        let (weight, x) = (random::<f32>(n * k), random::<f32>(m * k));
        let narrow = |values: &[f32]| values.iter().map(|&value| bf16::from_f32(value)).collect::<Vec<_>>();
        let (packed, packed_bf16) =
            (PackedMatrix::<f32>::pack(&weight, n, k)?, PackedMatrix::<bf16>::pack(&narrow(&weight), n, k)?);
        let x_bf16 = narrow(&x);
        let mut out = vec![0.0; m * n];
        let transposed = Tensor::from_vec(weight, (n, k), &Device::Cpu)?.t()?;
        let x_tensor = Tensor::from_slice(&x, (m, k), &Device::Cpu)?;

        let flops = 2.0 * (m * n * k) as f64;
        let repeats = (4e9 / flops).clamp(1.0, 1000.0) as usize;
        let mut best = [0.0_f64; 3];
        for _ in 0..self.runs {
            let contestants: [&mut dyn FnMut() -> Result<()>; 3] = [
                &mut || Ok(Gemm::new(&x_bf16, &packed_bf16).run(&mut out)?),
                &mut || Ok(Gemm::new(&x, &packed).run(&mut vec![0.0; m * n])?),
                &mut || Ok(x_tensor.matmul(&transposed).map(drop)?),
            ];
            for (best, contestant) in best.iter_mut().zip(contestants) {
                let start = Instant::now();
                (0..repeats).try_for_each(|_| contestant())?;
                *best = best.max(flops * repeats as f64 / start.elapsed().as_secs_f64() / 1e9);
            }
            for (peak, run) in self.peaks.iter_mut().zip([run_peak::<bf16>, run_peak::<f32>]) {
                let start = Instant::now();
                let operations = run(Isa::best(), 300_000) as f64;
                *peak = peak.max(operations / start.elapsed().as_secs_f64() / 1e9);
            }
        }
        let ([ours_bf16, ours_f32, candle], [peak_bf16, peak_f32]) = (best, self.peaks);
        self.table.row([
            ("layer", json!(name)),
            ("m", json!(m)),
            ("n", json!(n)),
            ("k", json!(k)),
            ("bf16 GFLOP/s", json!(ours_bf16)),
            ("of peak", json!(ours_bf16 / peak_bf16)),
            ("f32 GFLOP/s", json!(ours_f32)),
            ("of peak f32", json!(ours_f32 / peak_f32)),
            ("candle f32", json!(candle)),
            ("bf16/candle", json!(ours_bf16 / candle)),
        ]);
        Ok(())
    }
}

/// Enough rows to exceed the caches.
const ROWS: usize = 16_384;

fn element_wise(args: &Args, table: &mut Table, width: usize) -> Result<()> {
    let x = random::<f32>(ROWS * width);
    let weight = random::<f32>(width);
    let index: Vec<u32> = (0..ROWS as u32).map(|i| i.wrapping_mul(7919) % ROWS as u32).collect();
    let table_of_angles =
        RopeTable::new(&(0..32).map(|i| 1e6_f64.powf(-f64::from(i) / 32.0)).collect::<Vec<_>>(), ROWS);
    let positions: Vec<u32> = (0..ROWS as u32).collect();
    let head_weight = random::<f32>(64);
    let spans = [HeadSpan { offset: 0, num_heads: width / 64, norm: Some(&head_weight) }];
    let rotation =
        QkNormRope { table: &table_of_angles, position_ids: &positions, row_width: width, spans: &spans, eps: 1e-6 };
    let (mut out, mut half, mut rotated) = (x.clone(), vec![bf16::ZERO; ROWS * width], x.clone());

    // Bytes read and written.
    let values = (ROWS * width) as f64;
    let copy = fastest(args.runs, || {
        out.par_chunks_mut(1 << 16).zip(x.par_chunks(1 << 16)).for_each(|(out, x)| out.copy_from_slice(x));
        Ok(())
    })?;
    let copy = 8.0 * values / copy.as_secs_f64() / 1e9;
    let mut report = |name: &str, bytes: f64, kernel: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let speed = bytes / fastest(args.runs, kernel)?.as_secs_f64() / 1e9;
        table.row([
            ("kernel", json!(name)),
            ("width", json!(width)),
            ("GB/s", json!(speed)),
            ("copy GB/s", json!(copy)),
            ("of copy", json!(speed / copy)),
        ]);
        Ok(())
    };
    report("rms_norm to bf16", 6.0 * values, &mut || Ok(rms_norm(&x, &weight, 1e-6, &mut half)?))?;
    report("rms_norm to f32", 8.0 * values, &mut || Ok(rms_norm(&x, &weight, 1e-6, &mut out)?))?;
    report("silu_mul to bf16", 5.0 * values, &mut || {
        Ok(activate_mul(Activation::Silu, &x, width / 2, &mut half[..ROWS * (width / 2)])?)
    })?;
    report("qk_norm_rope", 8.0 * values, &mut || Ok(rotation.run(&mut rotated)?))?;
    report("gather_rows", 8.0 * values, &mut || Ok(gather_rows(&x, width, &index, &mut out)?))
}
