//! One layer's attention over sequences that share a prefix: ragged (expand to every sequence, attend, gather
//! back) against compact (a query once, keys and values through the page table).

use crate::report::{Output, Table, chart, fastest};
use anyhow::Result;
use half::bf16;
use prefold_core::{RadixPlan, RaggedBatch};
use prefold_kernels::{Attention, Mask, QkvLayout, QuerySpan, RowView, gather_rows};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

/// Flags of `prefold-bench attention`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Lengths of the shared prefix.
    #[arg(long, value_delimiter = ',', default_value = "0,128,512,2048")]
    prefix: Vec<usize>,
    /// Tokens after it.
    #[arg(long, value_delimiter = ',', default_value = "16,64,256")]
    suffix: Vec<usize>,
    /// Sequences.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Query heads.
    #[arg(long, default_value_t = 16)]
    heads: usize,
    /// Key and value heads.
    #[arg(long, default_value_t = 8)]
    kv_heads: usize,
    /// Width of a head.
    #[arg(long, default_value_t = 128)]
    head_dim: usize,
    /// Runs per case; the fastest counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = QkvLayout { num_heads: args.heads, num_kv_heads: args.kv_heads, head_dim: args.head_dim };
    let mut table = Table::default();
    for &prefix in &args.prefix {
        for &suffix in &args.suffix {
            case(args, layout, prefix, suffix, &mut table)?;
        }
    }
    let names: Vec<String> = args.suffix.iter().map(|suffix| format!("suffix {suffix}")).collect();
    let ratios = |&suffix: &usize| table.column("ragged/compact", |row| row["suffix"] == suffix);
    let lines = names.iter().map(String::as_str).zip(args.suffix.iter().map(ratios));
    let title = format!("Attention: ragged over compact, {} sequences", args.batch);
    args.output.write(&[&table], &[chart([&title, "tokens of the shared prefix", "times"], &args.prefix, lines)])
}

fn attention<'a>(layout: QkvLayout, qkv: &'a [f32], pages: &'a [u32], spans: &'a [QuerySpan]) -> Attention<'a> {
    let row_stride = layout.qkv_width();
    let view = |offset| RowView { data: qkv, row_stride, offset };
    Attention {
        q: view(0),
        k: view(layout.q_width()),
        v: view(layout.q_width() + layout.num_kv_heads * layout.head_dim),
        pages,
        spans,
        layout,
        scale: 1.0 / (layout.head_dim as f32).sqrt(),
        mask: Mask::Causal,
        window: None,
        softcap: None,
        bias: None,
        positions: None,
    }
}

fn case(args: &Args, layout: QkvLayout, prefix: usize, suffix: usize, table: &mut Table) -> Result<()> {
    let mut rng = SmallRng::seed_from_u64(5);
    let shared: Vec<u32> = (0..prefix as u32).collect();
    let sequence = |_| shared.iter().copied().chain((0..suffix).map(|_| rng.random_range(0..1 << 30))).collect();
    let sequences: Vec<Vec<u32>> = (0..args.batch).map(sequence).collect();
    let batch = RaggedBatch::from_sequences(&sequences)?;
    let plan = RadixPlan::new(&batch, 1);
    let width = layout.qkv_width();
    let mut values = SmallRng::seed_from_u64(6);
    let qkv: Vec<f32> = (0..plan.unique_tokens() * width).map(|_| values.random::<f32>() - 0.5).collect();

    let starts = batch.cu_seqlens();
    let segments: Vec<QuerySpan> = plan
        .segments()
        .iter()
        .map(|s| QuerySpan { row: s.start, len: s.len, depth: s.depth, path: starts[s.sequence as usize] })
        .collect();
    let whole: Vec<QuerySpan> = starts
        .windows(2)
        .map(|ends| QuerySpan { row: ends[0], len: ends[1] - ends[0], depth: 0, path: ends[0] })
        .collect();
    let identity: Vec<u32> = (0..batch.total_tokens() as u32).collect();

    let mut expanded = vec![0.0; batch.total_tokens() * width];
    let mut ragged_out = vec![bf16::ZERO; batch.total_tokens() * layout.q_width()];
    let mut out = vec![bf16::ZERO; plan.unique_tokens() * layout.q_width()];
    let ragged = fastest(args.runs, || {
        gather_rows(&qkv, width, plan.scatter(), &mut expanded)?;
        attention(layout, &expanded, &identity, &whole).run::<bf16, bf16>(&mut ragged_out)?;
        Ok(gather_rows(&ragged_out, layout.q_width(), plan.gather(), &mut out)?)
    })?;
    let compact =
        fastest(args.runs, || Ok(attention(layout, &qkv, plan.scatter(), &segments).run::<bf16, bf16>(&mut out)?))?;
    // Two products of head_dim multiply-adds for each visible query-key pair.
    let pairs: f64 =
        segments.iter().map(|s| f64::from(s.len) * (f64::from(s.depth) + f64::from(s.len + 1) / 2.0)).sum();
    let flops = 4.0 * pairs * layout.q_width() as f64;
    table.row([
        ("prefix", json!(prefix)),
        ("suffix", json!(suffix)),
        ("batch", json!(args.batch)),
        ("N/N'", json!(plan.total_tokens() as f64 / plan.unique_tokens() as f64)),
        ("ragged ms", json!(ragged.as_secs_f64() * 1e3)),
        ("compact ms", json!(compact.as_secs_f64() * 1e3)),
        ("ragged/compact", json!(ragged.as_secs_f64() / compact.as_secs_f64())),
        ("compact GFLOP/s", json!(flops / compact.as_secs_f64() / 1e9)),
    ]);
    Ok(())
}
