//! The report, as data and as text.

use crate::batches::BatchSize;
use crate::flops::Costs;
use crate::lengths::{Bucket, Quantiles};
use crate::recommend::Recommendation;
use prefold_backends::ModelOutline;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result as FmtResult};

/// Everything that was found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    model: ModelReport,
    input: InputReport,
    batch_sizes: Vec<BatchSizeReport>,
    /// Of the largest size: texts by the number of tokens that an earlier text of the batch begins with too.
    shared_prefix_lengths: Vec<Bucket>,
    recommendation: Option<Recommendation>,
}

/// The model as far as it matters here.
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
    /// P L.
    position_wise_flops_per_token: u64,
    /// A.
    attention_flops_per_pair_and_layer: u64,
}

/// The texts as the server would get them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct InputReport {
    pub(crate) requests: usize,
    pub(crate) texts: usize,
    pub(crate) tokens: usize,
    pub(crate) tokens_per_text: Quantiles,
}

/// Batches of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct BatchSizeReport {
    /// In a batch.
    pub(crate) texts: usize,
    pub(crate) batches: usize,
    /// N, mean.
    pub(crate) tokens_per_batch: f64,
    /// N', mean.
    pub(crate) unique_tokens_per_batch: f64,
    /// N'/N over all batches.
    pub(crate) compaction_ratio: f64,
    /// Part of the batches with N'/N at or under 0.95.
    pub(crate) batches_under_threshold: f64,
    /// Pairs of the trees as a part of all pairs.
    pub(crate) attention_ratio: f64,
    /// Part of attention in the operations without compaction.
    pub(crate) attention_share: f64,
    pub(crate) speed_up_ragged: f64,
    pub(crate) speed_up_compact: f64,
    /// Tokens of a text that an earlier text of its batch begins with too.
    pub(crate) shared_prefix: Quantiles,
}

impl ModelReport {
    pub(crate) fn new(model: &ModelOutline, costs: &Costs) -> Self {
        let shape = &model.shape;
        Self {
            model_type: model.model_type.clone(),
            task: model.task.as_str(),
            layers: shape.sliding_windows.len(),
            hidden_size: shape.hidden_size,
            intermediate_size: shape.intermediate_size,
            num_heads: shape.num_heads,
            num_kv_heads: shape.num_kv_heads,
            head_dim: shape.head_dim,
            max_input_length: model.max_input_length,
            position_wise_flops_per_token: costs.position_wise,
            attention_flops_per_pair_and_layer: costs.attention,
        }
    }
}

impl BatchSizeReport {
    fn new(size: &BatchSize<'_>, costs: &Costs) -> Self {
        let work = size.work;
        let prediction = costs.predict(work);
        let per_batch = |count: u64| count as f64 / size.batches as f64;
        Self {
            texts: size.texts,
            batches: size.batches,
            tokens_per_batch: per_batch(work.rows),
            unique_tokens_per_batch: per_batch(work.unique_rows),
            compaction_ratio: work.unique_rows as f64 / work.rows as f64,
            batches_under_threshold: size.under_threshold as f64 / size.batches as f64,
            attention_ratio: work.unique_pairs as f64 / work.pairs as f64,
            attention_share: prediction.attention_share,
            speed_up_ragged: prediction.ragged,
            speed_up_compact: prediction.compact,
            shared_prefix: size.shared.quantiles(),
        }
    }
}

impl Report {
    pub(crate) fn new(model: ModelReport, input: InputReport, mut sizes: Vec<BatchSize<'_>>, costs: &Costs) -> Self {
        sizes.retain(|size| size.batches > 0);
        let batch_sizes: Vec<_> = sizes.iter().map(|size| BatchSizeReport::new(size, costs)).collect();
        let recommendation = Recommendation::from(&batch_sizes, input.tokens_per_text.max);
        let shared_prefix_lengths = sizes.last().map_or_else(Vec::new, |size| size.shared.buckets());
        Self { model, input, batch_sizes, shared_prefix_lengths, recommendation }
    }

    /// One object, in lines, ended by a line feed.
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
            let (ragged, compact) = (size.speed_up_ragged, size.speed_up_compact);
            write!(f, "{texts:8} {tokens_per_batch:9.0} {unique_tokens_per_batch:9.0} {compaction_ratio:6.3}")?;
            writeln!(f, " {p10:5} {p50:5} {p90:5} {max:6} {share:12.1}% {ragged:8.2}x {compact:8.2}x")?;
        }
        Ok(())
    }

    fn write_prefixes(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Some(size) = self.batch_sizes.last() else { return Ok(()) };
        let total: usize = self.shared_prefix_lengths.iter().map(|bucket| bucket.texts).sum();
        writeln!(f, "\nTokens that an earlier text of the batch begins with too, batches of {}:\n", size.texts)?;
        for &Bucket { from, to, texts } in &self.shared_prefix_lengths {
            let range = if from == to { from.to_string() } else { format!("{from} to {to}") };
            let percent = 100.0 * texts as f64 / total as f64;
            let bar = "#".repeat((percent / 2.0).round() as usize);
            writeln!(f, "{range:>16} {texts:9} texts {percent:5.1}%  {bar}")?;
        }
        Ok(())
    }

    fn write_recommendation(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Some(advice) = &self.recommendation else { return Ok(()) };
        let &Recommendation { worth_it, batch_size, predicted_speed_up, .. } = advice;
        if worth_it {
            let size = self.batch_sizes.iter().find(|size| size.texts == batch_size);
            let under = 100.0 * size.map_or(0.0, |size| size.batches_under_threshold);
            writeln!(
                f,
                "\nWorth it: up to {predicted_speed_up:.2} times as fast from batches of {batch_size} texts on (compact attention);"
            )?;
            writeln!(f, "{under:.0}% of these have N'/N at or under 0.95 and would be compacted.")?;
        } else {
            writeln!(f, "\nNot worth it: {predicted_speed_up:.2} times as fast at most; too little is shared.")?;
        }
        writeln!(f, "\n    prefold {}", advice.flags())
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        let ModelReport { model_type, task, layers, hidden_size, intermediate_size, .. } = &self.model;
        let InputReport { requests, texts, tokens, tokens_per_text } = &self.input;
        let Quantiles { mean, p50, p99, max, .. } = tokens_per_text;
        let gigaflops = self.model.position_wise_flops_per_token as f64 / 1e9;
        writeln!(
            f,
            "model    {model_type} ({task}): {layers} layers of {hidden_size}, MLP {intermediate_size}, {gigaflops:.3} GFLOPs for a token"
        )?;
        writeln!(f, "input    {texts} texts in {requests} lines, {tokens} tokens")?;
        writeln!(f, "lengths  {mean:.1} tokens in the mean, p50 {p50}, p99 {p99}, longest {max}\n")?;
        self.write_sizes(f)?;
        self.write_prefixes(f)?;
        self.write_recommendation(f)
    }
}
