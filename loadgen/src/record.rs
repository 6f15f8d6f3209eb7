//! Results of a run's requests.

use crate::client::{Answer, Failure, Kind};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Histogram of times in microseconds, with three digits.
#[derive(Debug, Clone)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// Empty histogram.
    #[expect(clippy::expect_used, reason = "the argument is a constant that is allowed")]
    pub(crate) fn new() -> Self {
        Self(Histogram::new(3).expect("zero to five digits are allowed"))
    }

    pub(crate) fn add(&mut self, time: Duration) {
        // The histogram resizes itself, so it accepts every value.
        let _ = self.0.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Quantile in milliseconds; 0 if the histogram is empty.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        milliseconds(self.0.value_at_quantile(quantile).min(self.0.max()) as f64)
    }

    /// Value in milliseconds.
    pub(crate) fn max(&self) -> f64 {
        self.quantile(1.0)
    }

    /// Value in milliseconds.
    pub(crate) fn mean(&self) -> f64 {
        milliseconds(self.0.mean())
    }
}

fn milliseconds(microseconds: f64) -> f64 {
    microseconds / 1e3
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Errors {
    pub(crate) count: u64,
    /// Message of the first one.
    pub(crate) example: String,
}

/// Counts and times of a run, in progress or finished.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Time from a request's scheduled start to the end of its response or to its timeout. Without timeouts a stalled
    /// server would look better than a slow one.
    pub(crate) latency: Times,
    /// Delay of the load generator, from a request's scheduled to its actual start.
    pub(crate) start_delay: Times,
    /// Successful responses.
    pub(crate) answered: u64,
    /// Texts of successful responses.
    pub(crate) texts: u64,
    /// Tokens of successful responses; `None` once a response did not report them.
    pub(crate) tokens: Option<u64>,
    /// Sums over responses of their tokens, and of those that remain when common prefixes count once.
    pub(crate) folded: Option<(u64, u64)>,
    pub(crate) errors: BTreeMap<Kind, Errors>,
    /// Time of the last response or error.
    pub(crate) last: Option<Instant>,
}

/// Scheduled and actual start of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) intended: Instant,
    pub(crate) actual: Instant,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self {
            latency: Times::new(),
            start_delay: Times::new(),
            answered: 0,
            texts: 0,
            tokens: Some(0),
            folded: None,
            errors: BTreeMap::new(),
            last: None,
        }
    }

    /// Counts the result of a request with `texts` texts.
    pub(crate) fn add(&mut self, start: Start, texts: usize, outcome: Result<Answer, Failure>) {
        self.start_delay.add(start.actual.saturating_duration_since(start.intended));
        let end = match outcome {
            Ok(answer) => {
                self.answered += 1;
                self.texts += texts as u64;
                self.tokens = self.tokens.zip(answer.tokens).map(|(sum, tokens)| sum + tokens);
                if let Some((tokens, unique)) = answer.folded {
                    let (all_tokens, all_unique) = self.folded.unwrap_or_default();
                    self.folded = Some((all_tokens + tokens, all_unique + unique));
                }
                self.latency.add(answer.arrived.saturating_duration_since(start.intended));
                answer.arrived
            }
            Err(Failure { kind, message }) => {
                let end = Instant::now();
                if kind == Kind::Timeout {
                    self.latency.add(end.saturating_duration_since(start.intended));
                }
                self.errors.entry(kind).or_insert(Errors { count: 0, example: message }).count += 1;
                end
            }
        };
        self.last = self.last.max(Some(end));
    }

    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut times = Times::new();
        assert_eq!((times.quantile(0.5), times.max(), times.mean()), (0.0, 0.0, 0.0));
        // 1 to 1000 ms in a scrambled order.
        (0..1000u64).for_each(|i| times.add(Duration::from_millis(i * 617 % 1000 + 1)));
        for (quantile, expected) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.001, 1.0), (1.0, 1000.0)] {
            let got = times.quantile(quantile);
            assert!((got - expected).abs() <= expected * 1e-3, "{quantile}: {got}");
        }
        assert!((times.max() - 1000.0).abs() <= 1.0 && (times.mean() - 500.5).abs() <= 1.0);
    }

    #[test]
    fn short_and_long_times_are_kept_to_three_digits() {
        for time in [Duration::from_micros(1), Duration::from_micros(1234), Duration::from_secs(86_400)] {
            let mut times = Times::new();
            times.add(time);
            let expected = time.as_secs_f64() * 1e3;
            assert!((times.quantile(0.5) - expected).abs() <= expected * 1e-3, "{time:?}");
        }
    }

    fn start(intended: Instant, late: u64) -> Start {
        Start { intended, actual: intended + Duration::from_millis(late) }
    }

    #[test]
    fn latency_counts_from_the_intended_start() {
        let (mut record, begin) = (Record::new(), Instant::now());
        let arrived = begin + Duration::from_millis(250);
        record.add(start(begin, 200), 3, Ok(Answer { arrived, tokens: Some(5), folded: Some((40, 10)) }));
        assert!((record.latency.max() - 250.0).abs() < 1.0 && (record.start_delay.max() - 200.0).abs() < 1.0);
        assert_eq!((record.answered, record.texts, record.tokens, record.folded), (1, 3, Some(5), Some((40, 10))));
        assert_eq!(record.last, Some(arrived));
        record.add(start(begin, 0), 1, Ok(Answer { arrived, tokens: None, folded: None }));
        assert_eq!((record.texts, record.tokens, record.folded), (4, None, Some((40, 10))));
    }

    #[test]
    fn errors_are_counted_by_kind_and_only_timeouts_have_a_latency() {
        let (mut record, begin) = (Record::new(), Instant::now() - Duration::from_secs(2));
        for (kind, message) in [(Kind::Status(429), "first"), (Kind::Status(429), "second"), (Kind::BadBody, "x")] {
            record.add(start(begin, 0), 1, Err(Failure { kind, message: message.to_owned() }));
        }
        assert_eq!(record.latency.max(), 0.0);
        record.add(start(begin, 0), 1, Err(Failure { kind: Kind::Timeout, message: String::new() }));
        assert!(record.latency.max() >= 2000.0 * 0.999);
        assert_eq!((record.answered, record.failed()), (0, 4));
        let errors = &record.errors[&Kind::Status(429)];
        assert_eq!((errors.count, errors.example.as_str()), (2, "first"));
    }
}
