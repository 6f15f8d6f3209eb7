//! A whole forward pass of a shape with random weights: compaction off, ragged (the paper's mode) and compact.
//!
//! The grid is the paper's (arXiv 2601.15013): a batch of sequences that share a prefix, and a batch shaped
//! like MS MARCO reranking (ten passages a query). Plans are made before the clock starts, as the planner
//! makes them while another batch runs.

use crate::report::{Output, Table, chart, fastest};
use crate::shapes::{Shape, Sizes};
use anyhow::{Context, Result, ensure};
use prefold_backends::{AttentionMode, DeviceChoice, Dtype, LoadOptions, ModelSource, take_profile, used_device_bytes};
use prefold_core::{Batch, ModelBackend, RadixPlan, RaggedBatch, Wanted};
use prefold_loadgen::chart::Chart;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// See the module.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value = "smollm2-135m")]
    shape: Shape,
    /// Layers, if not the shape's own: fewer for a quick look.
    #[arg(long)]
    layers: Option<usize>,
    /// Device: `cpu`, `cuda` or `cuda:N`.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// `bfloat16`, `float32`, `int8` on a CPU, or `float16` on a GPU.
    #[arg(long, default_value = "bfloat16")]
    dtype: Dtype,
    /// Instructions of the CPU kernels, as for the server.
    #[arg(long)]
    cpu_kernels: Option<String>,
    /// Batches without sharing in addition, as sequences times tokens: `1x32,32x512`.
    #[arg(long, value_delimiter = ',', value_parser = parse_batch)]
    unshared: Vec<(usize, usize)>,
    /// Sequences in a batch.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Tokens of a sequence after the shared prefix.
    #[arg(long, default_value_t = 256)]
    suffix: usize,
    /// Lengths of the shared prefix.
    #[arg(long, value_delimiter = ',', default_value = "1,32,128,512,1024,2048")]
    prefix: Vec<usize>,
    /// Leave out the batch that is shaped like MS MARCO.
    #[arg(long)]
    no_msmarco: bool,
    /// Runs of each case; the fastest counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Print the share of each operation.
    #[arg(long)]
    profile: bool,
    /// Directory of the generated models, which are kept for the next run.
    #[arg(long, default_value = "target/bench-models")]
    models: PathBuf,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let on_gpu = args.device != DeviceChoice::Cpu;
    ensure!(!(args.profile && on_gpu), "--profile times calls on the CPU; a GPU's work is only queued by them");
    let own = args.shape.sizes();
    let sizes = Sizes { layers: args.layers.unwrap_or(own.layers), ..own };
    let directory = model(args, sizes)?;
    let mut ragged = load(args, &directory, AttentionMode::Ragged)?;
    let mut compact = load(args, &directory, AttentionMode::Compact)?;

    let mut cases: Vec<(String, RaggedBatch)> = Vec::new();
    if !args.no_msmarco {
        cases.push(("ms-marco, 16 x 10".to_owned(), ms_marco(16, sizes.vocab)?));
    }
    for &prefix in &args.prefix {
        cases.push((format!("prefix {prefix}"), shared_prefix(args.batch, prefix, args.suffix, sizes.vocab)?));
    }
    for &(sequences, len) in &args.unshared {
        cases.push((format!("unshared {sequences} x {len}"), shared_prefix(sequences, 0, len, sizes.vocab)?));
    }
    let mut table = Table::default();
    for (name, batch) in cases {
        let pairs = batch.attention_work();
        let plan = RadixPlan::new(&batch, 1);
        let wanted = vec![Wanted::Embedding; batch.num_sequences()];
        let batch = Batch { ragged: batch, wanted };
        let times = [
            time(args, "off", &mut compact, (&batch, None))?,
            time(args, "ragged", &mut ragged, (&batch, Some(&plan)))?,
            time(args, "compact", &mut compact, (&batch, Some(&plan)))?,
        ]
        .map(|time| time.as_secs_f64());
        let (tokens, unique, unique_pairs) = (plan.total_tokens(), plan.unique_tokens(), plan.attention_work());
        table.row([
            ("case", json!(name)),
            ("N", json!(tokens)),
            ("N/N'", json!(tokens as f64 / unique as f64)),
            ("off ms", json!(times[0] * 1e3)),
            ("ragged ms", json!(times[1] * 1e3)),
            ("compact ms", json!(times[2] * 1e3)),
            ("off/ragged", json!(times[0] / times[1])),
            ("off/compact", json!(times[0] / times[2])),
            ("off us/token", json!(times[0] * 1e6 / tokens as f64)),
            ("compact tokens/s", json!(tokens as f64 / times[2])),
            ("off linear GFLOP/s", json!(sizes.linear_flops() * tokens as f64 / times[0] / 1e9)),
            ("off TFLOP/s", json!(sizes.flops(tokens, pairs) / times[0] / 1e12)),
            ("compact TFLOP/s", json!(sizes.flops(unique, unique_pairs) / times[2] / 1e12)),
            ("device MiB", json!(used_device_bytes(args.device).map(|bytes| bytes >> 20))),
        ]);
    }
    args.output.write(&[&table], &[speed_ups(args, &table)])
}

fn model(args: &Args, sizes: Sizes) -> Result<PathBuf> {
    let directory = args.models.join(format!("{:?}-{}", args.shape, sizes.layers));
    if !directory.join("model.safetensors").exists() {
        crate::model::write(args.shape, sizes, Path::new("models/prefold-mini"), &directory)?;
    }
    Ok(directory)
}

fn load(args: &Args, directory: &Path, attention: AttentionMode) -> Result<ModelBackend> {
    let source = ModelSource::Path(directory.to_owned());
    let options = LoadOptions {
        source,
        device: Some(args.device),
        dtype: Some(args.dtype),
        cpu_kernels: args.cpu_kernels.clone(),
        attention,
        ..LoadOptions::default()
    };
    Ok(prefold_backends::load(&options).with_context(|| directory.display().to_string())?.backend)
}

fn time(
    args: &Args,
    name: &str,
    backend: &mut ModelBackend,
    (batch, plan): (&Batch, Option<&RadixPlan>),
) -> Result<Duration> {
    if args.device != DeviceChoice::Cpu {
        // The first pass on a GPU makes buffers and chooses the library's kernels.
        backend.forward(batch, plan)?;
    }
    let time = fastest(args.runs, || {
        if args.profile {
            take_profile();
        }
        Ok(backend.forward(batch, plan).map(drop)?)
    })?;
    if args.profile {
        let mut shares = take_profile();
        let total: f64 = shares.iter().map(|(_, time)| time.as_secs_f64()).sum();
        shares.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let shares: Vec<String> = shares
            .iter()
            .map(|(name, time)| format!("{name} {:.1}% ({:.1?})", 100.0 * time.as_secs_f64() / total, time))
            .collect();
        println!("  {name}: {}", shares.join(", "));
    }
    Ok(time)
}

/// `32x512` as (32, 512).
fn parse_batch(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is not of the form 32x512");
    let (sequences, len) = text.split_once('x').ok_or_else(wrong)?;
    match (sequences.parse(), len.parse()) {
        (Ok(sequences @ 1..), Ok(len @ 1..)) => Ok((sequences, len)),
        _ => Err(wrong()),
    }
}

fn random(rng: &mut SmallRng, len: usize, vocab: usize) -> Vec<u32> {
    (0..len).map(|_| rng.random_range(0..vocab as u32)).collect()
}

fn shared_prefix(sequences: usize, prefix: usize, suffix: usize, vocab: usize) -> Result<RaggedBatch> {
    let mut rng = SmallRng::seed_from_u64(3);
    let shared = random(&mut rng, prefix, vocab);
    let sequences: Vec<Vec<u32>> =
        (0..sequences).map(|_| [&shared[..], &random(&mut rng, suffix, vocab)].concat()).collect();
    Ok(RaggedBatch::from_sequences(&sequences)?)
}

/// The token counts of `tests/workloads/docs-rerank.jsonl` with its embedding template.
fn ms_marco(queries: usize, vocab: usize) -> Result<RaggedBatch> {
    let mut rng = SmallRng::seed_from_u64(4);
    let system = random(&mut rng, 18, vocab);
    let glue = random(&mut rng, 22, vocab);
    let end = random(&mut rng, 8, vocab);
    let mut batch = RaggedBatch::default();
    for _ in 0..queries {
        let query = random(&mut rng, 12, vocab);
        for _ in 0..10 {
            let len = rng.random_range(40..115);
            batch.push(&[&system[..], &query, &glue, &random(&mut rng, len, vocab), &end].concat())?;
        }
    }
    Ok(batch)
}

/// The cases of [`Args::prefix`].
fn speed_ups(args: &Args, table: &Table) -> Chart {
    let is_prefix = |row: &serde_json::Map<String, serde_json::Value>| {
        row["case"].as_str().is_some_and(|case| case.starts_with("prefix"))
    };
    let lines = [("N/N' (bound)", "N/N'"), ("compact", "off/compact"), ("ragged", "off/ragged")]
        .map(|(name, column)| (name, table.column(column, is_prefix)));
    let title = format!(
        "{:?}, {}: speed-up of compaction, {} sequences, suffix {}",
        args.shape, args.dtype, args.batch, args.suffix
    );
    chart([&title, "tokens of the shared prefix", "times"], &args.prefix, lines)
}
