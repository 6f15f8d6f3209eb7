//! Server-side results of a run: number and size of batches, compaction ratio, time breakdown.

use crate::load::record::Record;
use prefold_tools::plural::count;
use serde::{Deserialize, Serialize};

/// Names of metrics that count batches.
const BATCHES: &str = "te_batch_next_size_count";
const SEQUENCES: &str = "te_batch_next_size_sum";
const TOKENS: &str = "te_batch_next_tokens_sum";
const UNIQUE_TOKENS: &str = "prefold_batch_unique_tokens_sum";
/// Names of metrics that count requests and their seconds.
const REQUESTS: &str = "te_request_duration_count";
const TOTAL: &str = "te_request_duration_sum";
const TOKENIZATION: &str = "te_request_tokenization_duration_sum";
const QUEUE: &str = "te_request_queue_duration_sum";
const INFERENCE: &str = "te_request_inference_duration_sum";
/// Names of metrics that sum seconds of batches.
const PLANNING: &str = "prefold_planning_duration_sum";
const BATCH_INFERENCE: &str = "prefold_batch_inference_duration_sum";
const IDLE: &str = "prefold_backend_idle_duration_sum";
/// Name of the metric that sums seconds of the process on all cores.
const CPU: &str = "process_cpu_seconds_total";

const NAMES: [&str; 13] = [
    BATCHES,
    SEQUENCES,
    TOKENS,
    UNIQUE_TOKENS,
    REQUESTS,
    TOTAL,
    TOKENIZATION,
    QUEUE,
    INFERENCE,
    PLANNING,
    BATCH_INFERENCE,
    IDLE,
    CPU,
];

/// Monotonic sums in the order of [`NAMES`]; absent if the server does not have the metric, or not yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counters([Option<f64>; NAMES.len()]);

/// The server's view of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerSide {
    /// Source: `metrics`, covering everything the server did during the run, or `headers` of the responses.
    pub(crate) source: String,
    /// Absent if the source is `headers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) texts_per_batch: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_per_batch: Option<f64>,
    /// N'/N: computed rows over tokens, all batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compaction_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_ms: Option<RequestTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch_ms: Option<BatchTime>,
    /// CPU time of the server's process, summed over cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_s: Option<f64>,
}

/// Time breakdown of a request in the server: means over requests, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestTime {
    /// Time from arrival to the result, without network reads and writes.
    pub(crate) total: f64,
    pub(crate) tokenization: f64,
    pub(crate) queue: f64,
    pub(crate) inference: f64,
}

/// Time breakdown of a batch: means over batches, in milliseconds. Only prefold reports it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchTime {
    /// Planning on the CPU, while the previous batch is computed.
    pub(crate) planning: f64,
    pub(crate) inference: f64,
    /// The backend's wait for the batch.
    pub(crate) idle: f64,
}

impl Counters {
    /// Parses Prometheus metrics with text-embeddings-inference's names.
    pub(crate) fn parse(metrics: &str) -> Self {
        Self(NAMES.map(|name| sample(metrics, name)))
    }

    /// Growth since `before`. A server's first batch creates metrics, so an absent one was 0.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|i| Some(self.0[i]? - before.0[i].unwrap_or(0.0))))
    }

    /// Sum of the growths in two times.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| match (self.0[i], other.0[i]) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        }))
    }

    fn get(&self, name: &str) -> Option<f64> {
        NAMES.iter().position(|&other| other == name).and_then(|i| self.0[i])
    }

    /// Ratio of two sums, if both are known.
    fn ratio(&self, name: &str, of: &str) -> Option<f64> {
        self.get(of).filter(|&of| of > 0.0).and_then(|of| Some(self.get(name)? / of))
    }

    fn request_ms(&self) -> Option<RequestTime> {
        let mean = |name| Some(1000.0 * self.ratio(name, REQUESTS)?);
        let (tokenization, queue, inference) = (mean(TOKENIZATION)?, mean(QUEUE)?, mean(INFERENCE)?);
        Some(RequestTime { total: mean(TOTAL)?, tokenization, queue, inference })
    }

    fn batch_ms(&self) -> Option<BatchTime> {
        let mean = |name| Some(1000.0 * self.ratio(name, BATCHES)?);
        Some(BatchTime { planning: mean(PLANNING)?, inference: mean(BATCH_INFERENCE)?, idle: mean(IDLE)? })
    }
}

/// Sum of a metric's samples over all labels.
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
    /// Computed from the growth of the metrics during a run, or else from response headers.
    ///
    /// Metrics count each batch. Headers only show sharing within a request, so they are used only without metrics.
    pub(crate) fn new(run: Option<Counters>, record: &Record) -> Option<Self> {
        // Other servers lack these metrics; a server restarted during the run has fewer batches than before.
        if let Some(run) = run.filter(|run| run.get(BATCHES).is_some_and(|batches| batches > 0.0)) {
            return Some(Self {
                source: "metrics".to_owned(),
                batches: run.get(BATCHES).map(|batches| batches as u64),
                texts_per_batch: run.ratio(SEQUENCES, BATCHES),
                tokens_per_batch: run.ratio(TOKENS, BATCHES),
                compaction_ratio: run.ratio(UNIQUE_TOKENS, TOKENS),
                request_ms: run.request_ms(),
                batch_ms: run.batch_ms(),
                cpu_s: run.get(CPU),
            });
        }
        let (tokens, unique) = record.folded?;
        Some(Self {
            source: "headers".to_owned(),
            batches: None,
            texts_per_batch: None,
            tokens_per_batch: None,
            compaction_ratio: (tokens > 0).then(|| unique as f64 / tokens as f64),
            request_ms: None,
            batch_ms: None,
            cpu_s: None,
        })
    }

    /// Mean time of a batch's forward pass, in milliseconds.
    pub(crate) fn pass_ms(&self) -> Option<f64> {
        self.batch_ms.map(|batch| batch.inference).filter(|ms| *ms > 0.0)
    }

    /// Fraction of the time in which the backend computed instead of waiting for a batch.
    pub(crate) fn busy(&self) -> Option<f64> {
        let BatchTime { inference, idle, .. } = self.batch_ms?;
        (inference + idle > 0.0).then(|| inference / (inference + idle))
    }

    /// Remarks from the metrics, in addition to the ratio.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let batches = self.batches.zip(self.texts_per_batch);
        let batches = batches
            .map(|(batches, texts)| format!("the server formed {} of {texts:.1} texts", count(batches, "batch")));
        let request = self.request_ms.map(|RequestTime { total, tokenization, queue, inference }| {
            let rest = (total - tokenization - queue - inference).max(0.0);
            format!(
                "a request's {total:.1} ms in the server: {tokenization:.1} tokenization, {queue:.1} queue, \
                 {inference:.1} forward pass, {rest:.1} the rest"
            )
        });
        let batch = self.batch_ms.map(|BatchTime { planning, inference, idle }| {
            format!(
                "a batch: {inference:.1} ms forward pass, {planning:.2} ms planning during the previous one, \
                 {idle:.2} ms that the backend waited for it"
            )
        });
        batches.into_iter().chain(request).chain(batch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP te_batch_next_size Sequences in a batch\n# TYPE te_batch_next_size histogram\n\
        te_batch_next_size_bucket{le=\"1\"} 1\nte_batch_next_size_sum 12\nte_batch_next_size_count 3\n\
        te_batch_next_tokens_sum{replica=\"a b\"} 100 1700000000\nte_batch_next_tokens_sum{replica=\"} 5\"} 20\n\
        te_batch_next_tokens_summary 9\n";

    fn counters(values: &[(&str, f64)]) -> Option<Counters> {
        Some(Counters::parse(&values.iter().map(|(name, value)| format!("{name} {value}\n")).collect::<String>()))
    }

    fn between(before: Option<Counters>, after: Option<Counters>, record: &Record) -> Option<ServerSide> {
        ServerSide::new(before.zip(after).map(|(before, after)| after.since(&before)), record)
    }

    #[test]
    fn growths_are_summed_by_metric() {
        let one = counters(&[(BATCHES, 2.0), (TOKENS, 30.0)]).unwrap();
        let other = counters(&[(BATCHES, 3.0), (IDLE, 0.5)]).unwrap();
        assert_eq!(Some(one.plus(&other)), counters(&[(BATCHES, 5.0), (TOKENS, 30.0), (IDLE, 0.5)]));
    }

    #[test]
    fn samples_are_summed_over_labels() {
        let expected = counters(&[(BATCHES, 3.0), (SEQUENCES, 12.0), (TOKENS, 120.0)]).unwrap();
        assert_eq!(Counters::parse(METRICS), expected);
        assert_eq!(Counters::parse("<html>"), Counters::default());
    }

    #[test]
    fn metrics_count_what_lies_between() {
        let batches = |n: f64| [(BATCHES, n), (SEQUENCES, n * 4.0), (TOKENS, n * 40.0)];
        let with_unique = |n: f64, unique: f64| counters(&[&batches(n)[..], &[(UNIQUE_TOKENS, unique)]].concat());
        let mut record = Record::new();
        record.folded = Some((10, 5));
        let server = between(with_unique(2.0, 60.0), with_unique(6.0, 100.0), &record).unwrap();
        assert_eq!((server.source.as_str(), server.batches), ("metrics", Some(4)));
        assert_eq!((server.texts_per_batch, server.tokens_per_batch), (Some(4.0), Some(40.0)));
        assert_eq!(server.compaction_ratio, Some(0.25));
        assert_eq!((server.request_ms, server.batch_ms), (None, None));
        // Without prefold's metric there is no ratio; without metrics the headers are used.
        let server = between(counters(&batches(2.0)), counters(&batches(3.0)), &record).unwrap();
        assert_eq!(server.compaction_ratio, None);
        for before in [None, counters(&batches(3.0))] {
            let server = between(before, counters(&batches(1.0)), &record).unwrap();
            assert_eq!((server.source.as_str(), server.compaction_ratio), ("headers", Some(0.5)));
        }
        assert_eq!(between(None, None, &Record::new()), None);
    }

    #[test]
    fn time_is_a_mean_over_requests_and_over_batches() {
        let te = [(REQUESTS, 4.0), (TOTAL, 2.0), (TOKENIZATION, 0.1), (QUEUE, 0.4), (INFERENCE, 1.2), (BATCHES, 2.0)];
        let own = [(PLANNING, 0.01), (BATCH_INFERENCE, 0.8), (IDLE, 0.3)];
        let server = |after| between(counters(&[]), after, &Record::new()).unwrap();
        let prefold = server(counters(&[&te[..], &own].concat()));
        let request = RequestTime { total: 500.0, tokenization: 25.0, queue: 100.0, inference: 300.0 };
        assert_eq!(prefold.request_ms, Some(request));
        assert_eq!(prefold.batch_ms, Some(BatchTime { planning: 5.0, inference: 400.0, idle: 150.0 }));
        let other = server(counters(&te));
        assert_eq!((other.request_ms, other.batch_ms), (Some(request), None));
    }
}
