//! Results of a run's requests.

use crate::http::client::{Answer, Failure, Kind};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
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

    /// Adds the times of another histogram.
    fn merge(&mut self, other: &Self) {
        // The histogram resizes itself, so it accepts every value.
        let _ = self.0.add(&other.0);
    }

    /// Counts of the times in intervals between round numbers, from the first to the last non-empty interval.
    pub(crate) fn intervals(&self) -> Vec<Interval> {
        let mut counts = BTreeMap::new();
        for value in self.0.iter_recorded() {
            let time = value.value_iterated_to().min(self.0.max());
            let interval = (1..BOUNDS).take_while(|&index| bound(index) <= time).count();
            *counts.entry(interval).or_default() += value.count_since_last_iteration();
        }
        let (Some(&first), Some(&last)) = (counts.keys().next(), counts.keys().next_back()) else { return Vec::new() };
        let interval = |index: usize| Interval {
            from_ms: milliseconds(bound(index) as f64),
            to_ms: milliseconds(bound(index + 1) as f64),
            count: counts.get(&index).copied().unwrap_or(0),
        };
        (first..=last).map(interval).collect()
    }
}

/// Number of interval bounds, which end at two months.
const BOUNDS: usize = 72;

/// Bound of an interval in microseconds: 0, 10, 15, 20, 30, 50, 70, 100, 150 and so on, six to a power of ten.
fn bound(index: usize) -> u64 {
    const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];
    let Some(index) = index.checked_sub(1) else { return 0 };
    STEPS[index % 6] * 10u64.pow(index as u32 / 6)
}

/// Number of times in an interval, excluding its upper end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    pub(crate) count: u64,
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
    /// Sums over responses of their tokens, and of their tokens when common prefixes count once.
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

    /// Adds the results of other requests.
    pub(crate) fn merge(&mut self, other: &Self) {
        let Self { latency, start_delay, answered, texts, tokens, folded, errors, last } = other;
        self.latency.merge(latency);
        self.start_delay.merge(start_delay);
        self.answered += answered;
        self.texts += texts;
        self.tokens = self.tokens.zip(*tokens).map(|(sum, tokens)| sum + tokens);
        self.folded = match (self.folded, *folded) {
            (Some((tokens, unique)), Some((more, more_unique))) => Some((tokens + more, unique + more_unique)),
            (one, other) => one.or(other),
        };
        for (kind, Errors { count, example }) in errors {
            self.errors.entry(*kind).or_insert(Errors { count: 0, example: example.clone() }).count += count;
        }
        self.last = self.last.max(*last);
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

    #[test]
    fn intervals_hold_every_time_once() {
        let mut times = Times::new();
        assert_eq!(times.intervals(), []);
        for micros in [0, 9, 10, 14, 15, 1_400, 1_500, 1_600, 2_900, 3_000, 4_999, 60_000_000] {
            times.add(Duration::from_micros(micros));
        }
        let intervals = times.intervals();
        let of = |from_ms: f64| *intervals.iter().find(|interval| interval.from_ms == from_ms).unwrap();
        for (from_ms, to_ms, count) in [
            (0.0, 0.01, 2),
            (0.01, 0.015, 2),
            (0.015, 0.02, 1),
            (0.02, 0.03, 0),
            (1.0, 1.5, 1),
            (1.5, 2.0, 2),
            (2.0, 3.0, 1),
            (3.0, 5.0, 2),
            (50_000.0, 70_000.0, 1),
        ] {
            assert_eq!(of(from_ms), Interval { from_ms, to_ms, count });
        }
        assert_eq!(intervals.iter().map(|interval| interval.count).sum::<u64>(), 12);
        assert!(intervals.windows(2).all(|pair| pair[0].to_ms == pair[1].from_ms));
        let last = intervals.last().unwrap();
        assert_eq!((last.from_ms, last.count), (50_000.0, 1));
        assert!(bound(BOUNDS) > 60 * 60 * 1_000_000);
        // A time beyond the last bound belongs to the last interval.
        times.add(Duration::from_secs(u64::MAX / 2_000_000));
        assert_eq!(times.intervals().len(), BOUNDS);
    }

    #[test]
    fn merged_records_are_that_of_all_requests() {
        let begin = Instant::now();
        let outcome = |i: u64| match i % 3 {
            0 => Err(Failure { kind: Kind::Status(429), message: format!("{i}") }),
            _ => Ok(Answer { arrived: begin + Duration::from_millis(i), tokens: Some(i), folded: Some((i, 1)) }),
        };
        let record = |range: std::ops::Range<u64>| {
            let mut record = Record::new();
            range.for_each(|i| record.add(start(begin, i), 2, outcome(i)));
            record
        };
        let (whole, mut parts) = (record(0..30), record(0..11));
        parts.merge(&record(11..30));
        let counts = |record: &Record| (record.answered, record.texts, record.tokens, record.folded);
        assert_eq!(counts(&parts), counts(&whole));
        assert_eq!(parts.errors, whole.errors);
        assert_eq!(parts.latency.intervals(), whole.latency.intervals());
        assert_eq!(parts.start_delay.max(), whole.start_delay.max());
        assert!(parts.last >= Some(begin + Duration::from_millis(29)));
        // Tokens are known only if every response reported them.
        let mut unknown = record(0..0);
        unknown.tokens = None;
        parts.merge(&unknown);
        assert_eq!((parts.tokens, parts.answered), (None, 20));
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
