//! The report, as data and as text.

use crate::batches::{BatchSize, BatchSizeReport, DEFAULT_THRESHOLD};
use crate::flops::Costs;
use crate::lengths::{Bucket, Quantiles};
use crate::recommend::Recommendation;
use crate::words::factor;
use prefold_backends::ModelSummary;
use prefold_core::{EngineConfig, Task};
use prefold_tools::plural::count;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result as FmtResult};

/// All results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    model: ModelReport,
    input: InputReport,
    batch_sizes: Vec<BatchSizeReport>,
    /// Histogram for the largest size: texts by number of leading tokens shared with an earlier text of the batch.
    shared_prefix_lengths: Vec<Bucket>,
    recommendation: Option<Recommendation>,
}

/// The model's shape and costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ModelReport {
    model_type: String,
    task: &'static str,
    layers: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_heads: usize,
    num_kv_heads: usize,
    head_dim: usize,
    max_input_length: usize,
    /// P L of the cost model.
    position_wise_flops_per_token: u64,
    /// A of the cost model.
    attention_flops_per_pair_and_layer: u64,
}

/// Totals of the input as the server would process it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct InputReport {
    pub(crate) requests: usize,
    pub(crate) texts: usize,
    pub(crate) tokens: usize,
    pub(crate) tokens_per_text: Quantiles,
}

impl ModelReport {
    pub(crate) fn new(model: &ModelSummary, costs: &Costs) -> Self {
        let shape = &model.shape;
        Self {
            model_type: model.model_type.clone(),
            // The task of the head: a classifier with one label also reranks.
            task: match &model.capabilities.classify {
                Some(_) => Task::Classify.as_str(),
                None => model.capabilities.tasks().next().map_or("", Task::as_str),
            },
            layers: shape.sliding_windows.len(),
            hidden_size: shape.hidden_size,
            intermediate_size: shape.intermediate_size,
            num_heads: shape.num_heads,
            num_kv_heads: shape.num_kv_heads,
            head_dim: shape.head_dim,
            max_input_length: model.capabilities.max_input_length,
            position_wise_flops_per_token: costs.position_wise,
            attention_flops_per_pair_and_layer: costs.attention,
        }
    }
}

impl Report {
    /// The report on batch sizes; `flags` make the server use the same model.
    pub(crate) fn new(
        model: ModelReport,
        input: InputReport,
        mut sizes: Vec<BatchSize<'_>>,
        flags: Vec<String>,
    ) -> Self {
        sizes.retain(|size| size.batches > 0);
        let batch_sizes: Vec<_> = sizes.iter().map(BatchSize::report).collect();
        let recommendation = Recommendation::from(&batch_sizes, input.tokens_per_text.max, flags);
        let shared_prefix_lengths = sizes.last().map_or_else(Vec::new, |size| size.shared.buckets());
        Self { model, input, batch_sizes, shared_prefix_lengths, recommendation }
    }

    /// Indented JSON object with a final line feed.
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    fn write_sizes(&self, f: &mut Formatter<'_>) -> FmtResult {
        writeln!(f, "   texts    tokens    tokens          shared prefix (tokens)     attention   predicted speed-up")?;
        writeln!(f, "in batch  in batch  computed   N'/N   p10   p50   p90    max      of FLOPs    ragged   compact")?;
        for size in &self.batch_sizes {
            let BatchSizeReport { texts, tokens_per_batch, unique_tokens_per_batch, compaction_ratio, .. } = size;
            let Quantiles { p10, p50, p90, max, .. } = size.shared_prefix;
            let share = 100.0 * size.attention_share;
            let (ragged, compact) = (factor(size.speed_up_ragged), factor(size.speed_up_compact));
            write!(f, "{texts:8} {tokens_per_batch:9.0} {unique_tokens_per_batch:9.0} {compaction_ratio:6.3}")?;
            writeln!(f, " {p10:5} {p50:5} {p90:5} {max:6} {share:12.1}% {ragged:>8}x {compact:>8}x")?;
        }
        Ok(())
    }

    fn write_prefixes(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Some(size) = self.batch_sizes.last() else { return Ok(()) };
        let total: usize = self.shared_prefix_lengths.iter().map(|bucket| bucket.texts).sum();
        let texts = count(size.texts, "text");
        writeln!(f, "\nTokens that an earlier text of the batch begins with too, batches of {texts}:\n")?;
        for &Bucket { from, to, texts } in &self.shared_prefix_lengths {
            let range = if from == to { from.to_string() } else { format!("{from} to {to}") };
            let percent = 100.0 * texts as f64 / total as f64;
            let bar = "#".repeat((percent / 2.0).round() as usize);
            let line = format!("{range:>16} {:>15} {percent:5.1}%  {bar}", count(texts, "text"));
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn write_recommendation(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Some(advice) = &self.recommendation else { return Ok(()) };
        let &Recommendation { worth_it, batch_size, predicted_speed_up, most_speed_up, .. } = advice;
        let (speed_up, most) = (factor(predicted_speed_up).to_string(), factor(most_speed_up).to_string());
        if worth_it {
            let more = if most == speed_up { String::new() } else { format!(" ({most} times with the best size)") };
            let texts = count(batch_size, "text");
            writeln!(
                f,
                "\nWorth it: up to {speed_up} times as fast in batches of {texts}{more}, with compact attention."
            )?;
            if let Some(size) = self.batch_sizes.iter().find(|size| size.texts == batch_size) {
                let batches = count(size.batches, "such batch");
                let under = (size.batches_under_threshold * size.batches as f64).round();
                let has = if size.batches == 1 { "has" } else { "have" };
                writeln!(f, "{under} of {batches} {has} N'/N at or under {DEFAULT_THRESHOLD} and would be compacted.")?;
            }
            writeln!(
                f,
                "\nThis assumes full batches of {texts}, consecutive in the input. A server has them if requests have as many\n\
                 texts or as many wait in its queue; on a CPU it also ends a batch at about {} ms (--max-batch-ms).",
                EngineConfig::MAX_BATCH_MS_OF_PREFIXES
            )?;
        } else if self.input.texts == 1 {
            // Its command would turn compaction off for a server whose traffic is unknown.
            return writeln!(f, "\nOne text shares nothing: give as many texts as a batch of the server has.");
        } else {
            writeln!(f, "\nNot worth it: at most {most} times as fast; the texts share too little.")?;
            let largest = count(self.batch_sizes.last().map_or(1, |size| size.texts), "text");
            writeln!(f, "\nThis assumes full batches of up to {largest}, consecutive in the input.")?;
        }
        writeln!(f, "\n    {}", advice.command)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        let ModelReport { model_type, task, layers, hidden_size, intermediate_size, .. } = &self.model;
        let InputReport { requests, texts, tokens, tokens_per_text } = &self.input;
        let Quantiles { mean, p50, p99, max, .. } = tokens_per_text;
        let gigaflops = self.model.position_wise_flops_per_token as f64 / 1e9;
        let layers = count(*layers, "layer");
        writeln!(
            f,
            "model    {model_type} ({task}): {layers} of {hidden_size}, MLP {intermediate_size}, {gigaflops:.3} GFLOPs per token"
        )?;
        let (texts, lines, tokens) = (count(*texts, "text"), count(*requests, "line"), count(*tokens, "token"));
        writeln!(f, "input    {texts} in {lines}, {tokens}")?;
        writeln!(f, "lengths  mean {mean:.1} tokens, p50 {p50}, p99 {p99}, max {max}\n")?;
        self.write_sizes(f)?;
        self.write_prefixes(f)?;
        self.write_recommendation(f)
    }
}
