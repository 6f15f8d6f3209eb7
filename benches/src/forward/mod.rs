//! A whole forward pass of a shape with random weights: compaction off, ragged (the paper's mode) and compact.
//!
//! The grid is the paper's (arXiv 2601.15013): a batch of sequences that share a prefix, and a batch shaped
//! like MS MARCO reranking (ten passages a query). Plans are made before the clock starts, since the planner makes them
//! while another batch runs. The weights are loaded once for all batches and ways.

mod answers;
mod args;
mod batches;
mod gaps;
mod ways;

use crate::report::{Table, chart};
use crate::shapes::Sizes;
use answers::Answers;
use anyhow::{Result, ensure};
pub(crate) use args::Args;
use batches::batches;
use prefold_backends::{DeviceChoice, used_device_bytes};
use prefold_tools::chart::Chart;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use ways::{Case, Measured, Model, smallest_cosine};

pub(crate) fn run(args: &Args) -> Result<()> {
    let on_gpu = args.device != DeviceChoice::Cpu;
    ensure!(!(args.profile && on_gpu), "--profile times calls on the CPU; a GPU's work is only queued by them");
    let own = args.shape.sizes();
    let sizes = Sizes { layers: args.layers.unwrap_or(own.layers), ..own };
    let batches = batches(&args.batches, sizes.vocab)?;
    let directory = generated(args, sizes)?;
    let answers = |path: &PathBuf| Answers::new(path, args, &directory, sizes.layers);
    let mut answers = args.answers.as_ref().map(answers).transpose()?;
    let mut model = Model::load(args, &directory)?;

    let (mut table, mut broken) = (Table::default(), Vec::new());
    for (name, batch) in batches {
        let case = Case::new(batch);
        let measured = model.measure(&case)?;
        report(args, sizes, &name, &case, &measured, &mut table);
        args.output.write_rows(&[&table])?;
        if let Some(answers) = &mut answers {
            answers.push(&name, &case, &measured)?;
        }
        if !measured.iter().flat_map(|it| &it.answers).flatten().all(|value| value.is_finite()) {
            broken.push(name);
        }
    }
    args.output.write(&[&table], &[speed_ups(args, &table)])?;
    ensure!(broken.is_empty(), "answers that are not finite: {}", broken.join("; "));
    Ok(())
}

/// Directory of the model, which is written if it does not exist.
fn generated(args: &Args, sizes: Sizes) -> Result<PathBuf> {
    let directory = args.models.join(format!("{:?}-{}", args.shape, sizes.layers));
    if !directory.join("model.safetensors").exists() {
        crate::model::write(args.shape, sizes, Path::new("router/builtin"), &directory)?;
    }
    Ok(directory)
}

/// Adds a batch's row. Ways that the model lacks are `null`.
fn report(args: &Args, sizes: Sizes, name: &str, case: &Case, measured: &[Measured], table: &mut Table) {
    let median = |way: usize| measured.get(way).map(|it: &Measured| it.times.median());
    let off = measured.first().map_or(f64::NAN, |it| it.times.median());
    let millis = |way: usize| json!(median(way).map(|seconds| seconds * 1e3));
    let range = |way: usize| measured.get(way).map_or(Value::Null, |it| it.times.range(1e3));
    let speed_up = |way: usize| json!(median(way).map(|seconds| off / seconds));
    // JSON has no NaN, and `null` stands for ways that the model lacks.
    let cosine = |way: usize| {
        let cosine = measured.get(way).map(|it| smallest_cosine(&measured[0].answers, &it.answers));
        if cosine.is_some_and(f64::is_nan) { json!("NaN") } else { json!(cosine) }
    };
    let (tokens, unique) = (case.plan.total_tokens(), case.plan.unique_tokens());
    let (pairs, unique_pairs) = (case.batch.ragged.attention_work(), case.plan.attention_work());
    let rate = |way: usize| json!(median(way).map(|seconds| tokens as f64 / seconds));
    let compact_flops = sizes.flops(unique, unique_pairs);
    table.row_and(
        [
            ("case", json!(name)),
            ("N", json!(tokens)),
            ("N/N'", json!(tokens as f64 / unique as f64)),
            ("off ms", millis(0)),
            ("off range", range(0)),
            ("ragged ms", millis(1)),
            ("ragged range", range(1)),
            ("compact ms", millis(2)),
            ("compact range", range(2)),
            ("off/ragged", speed_up(1)),
            ("off/compact", speed_up(2)),
            ("ragged cosine", cosine(1)),
            ("compact cosine", cosine(2)),
            ("off us/token", json!(off * 1e6 / tokens as f64)),
            ("off TFLOP/s", json!(sizes.flops(tokens, pairs) / off / 1e12)),
            ("compact TFLOP/s", json!(median(2).map(|seconds| compact_flops / seconds / 1e12))),
            ("device MiB", json!(used_device_bytes(args.device).map(|bytes| bytes >> 20))),
        ],
        [
            ("sequences", json!(case.batch.ragged.num_sequences())),
            ("runs", json!(args.runs)),
            ("off tokens/s", rate(0)),
            ("ragged tokens/s", rate(1)),
            ("compact tokens/s", rate(2)),
            ("off linear GFLOP/s", json!(sizes.linear_flops() * tokens as f64 / off / 1e9)),
        ],
    );
}

/// The batches with a shared prefix.
fn speed_ups(args: &Args, table: &Table) -> Chart {
    let is_prefix =
        |row: &serde_json::Map<String, Value>| row["case"].as_str().is_some_and(|case| case.starts_with("prefix"));
    let lines = [("N/N' (bound)", "N/N'"), ("compact", "off/compact"), ("ragged", "off/ragged")]
        .map(|(name, column)| (name, table.column(column, is_prefix)));
    let batches::Args { batch, suffix, .. } = &args.batches;
    let title = format!("{:?}, {}: speed-up of compaction, {batch} sequences, suffix {suffix}", args.shape, args.dtype);
    chart([&title, "tokens of the shared prefix", "times"], args.batches.prefixes(), lines)
}
