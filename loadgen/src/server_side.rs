//! What the server's own metrics tell of a run: batches, their size and how much of them was computed.

use crate::record::Record;
use serde::{Deserialize, Serialize};

/// Sums that only grow while a server runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    batches: f64,
    sequences: f64,
    tokens: f64,
    /// Only prefold has it.
    unique_tokens: Option<f64>,
}

/// A run as the server saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerSide {
    /// Where this is from: `metrics`, all that the server did during the run, or `headers`, the answers' own.
    pub(crate) source: String,
    /// Absent when only the headers tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) texts_per_batch: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_per_batch: Option<f64>,
    /// N'/N: rows computed over tokens of all batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compaction_ratio: Option<f64>,
}

impl Counters {
    /// From the text of Prometheus metrics with text-embeddings-inference's names. What is not there is 0, because
    /// a server's first batch brings them into being.
    pub(crate) fn parse(metrics: &str) -> Self {
        Self {
            batches: sample(metrics, "te_batch_next_size_count").unwrap_or_default(),
            sequences: sample(metrics, "te_batch_next_size_sum").unwrap_or_default(),
            tokens: sample(metrics, "te_batch_next_tokens_sum").unwrap_or_default(),
            unique_tokens: sample(metrics, "prefold_batch_unique_tokens_sum"),
        }
    }
}

/// The sum of a metric's samples, whatever their labels.
fn sample(metrics: &str, name: &str) -> Option<f64> {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

impl ServerSide {
    /// From what the metrics said before a run and after it, or else from the answers' headers.
    ///
    /// The metrics count each batch once. A batch that several requests shared counts for each of them in the
    /// headers, so these serve only where there are no metrics.
    pub(crate) fn new(before: Option<Counters>, after: Option<Counters>, record: &Record) -> Option<Self> {
        let ratio = |unique: f64, tokens: f64| (tokens > 0.0).then(|| unique / tokens);
        // Other servers have none of these, and one that began again in between has smaller ones.
        let both = before.zip(after).filter(|(before, after)| after.batches > before.batches);
        if let Some((before, after)) = both {
            let batches = after.batches - before.batches;
            let tokens = after.tokens - before.tokens;
            let unique = after.unique_tokens.map(|unique| unique - before.unique_tokens.unwrap_or(0.0));
            return Some(Self {
                source: "metrics".to_owned(),
                batches: Some(batches as u64),
                texts_per_batch: Some((after.sequences - before.sequences) / batches),
                tokens_per_batch: Some(tokens / batches),
                compaction_ratio: unique.and_then(|unique| ratio(unique, tokens)),
            });
        }
        let (tokens, unique) = record.batch?;
        Some(Self {
            source: "headers".to_owned(),
            batches: None,
            texts_per_batch: None,
            tokens_per_batch: None,
            compaction_ratio: ratio(unique as f64, tokens as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP te_batch_next_size Sequences in a batch\n# TYPE te_batch_next_size histogram\n\
        te_batch_next_size_bucket{le=\"1\"} 1\nte_batch_next_size_sum 12\nte_batch_next_size_count 3\n\
        te_batch_next_tokens_sum{replica=\"a b\"} 100 1700000000\nte_batch_next_tokens_sum{replica=\"} 5\"} 20\n\
        te_batch_next_tokens_summary 9\n";

    #[test]
    fn samples_are_summed_over_labels() {
        let counters = Counters { batches: 3.0, sequences: 12.0, tokens: 120.0, unique_tokens: None };
        assert_eq!(Counters::parse(METRICS), counters);
        assert_eq!(Counters::parse("<html>"), Counters::default());
    }

    #[test]
    fn metrics_count_what_lies_between() {
        let counters = |batches, unique_tokens| {
            Some(Counters { batches, sequences: batches * 4.0, tokens: batches * 40.0, unique_tokens })
        };
        let mut record = Record::new();
        record.batch = Some((10, 5));
        let server = ServerSide::new(counters(2.0, Some(60.0)), counters(6.0, Some(100.0)), &record).unwrap();
        assert_eq!((server.source.as_str(), server.batches), ("metrics", Some(4)));
        assert_eq!((server.texts_per_batch, server.tokens_per_batch), (Some(4.0), Some(40.0)));
        assert_eq!(server.compaction_ratio, Some(0.25));
        // Without prefold's metric there is no ratio; without metrics the headers tell.
        assert_eq!(ServerSide::new(counters(2.0, None), counters(3.0, None), &record).unwrap().compaction_ratio, None);
        for (before, after) in [(None, counters(1.0, None)), (counters(3.0, None), counters(1.0, None))] {
            let server = ServerSide::new(before, after, &record).unwrap();
            assert_eq!((server.source.as_str(), server.compaction_ratio), ("headers", Some(0.5)));
        }
        assert_eq!(ServerSide::new(None, None, &Record::new()), None);
    }
}
