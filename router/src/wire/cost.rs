//! Cost of a request, and its headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use prefold_core::{Response as Answered, Timings, Usage};
use std::time::Duration;

/// Header with the number of inputs whose token ids look like another tokenizer's, if there are any.
pub(crate) const FOREIGN: HeaderName = HeaderName::from_static("x-foreign-token-ids");

/// Tokens and times of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) usage: Usage,
    pub(crate) timings: Timings,
}

impl Cost {
    pub(crate) fn of<T>(answered: &Answered<T>) -> Self {
        Self { usage: answered.usage, timings: answered.timings }
    }

    /// Inserts TEI's headers (integer milliseconds) and the compaction headers.
    ///
    /// `x-compute-tokens` counts the request's tokens, `x-compute-compact-tokens` counts prefixes that its inputs share
    /// only once; `x-compaction-ratio` is their ratio. `x-truncated-inputs` counts truncated inputs, and [`FOREIGN`] warns.
    /// None of them depends on other requests.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap, device: &str, elapsed: Duration) {
        let Self { usage, timings } = self;
        let milliseconds = |duration: Duration| HeaderValue::from(duration.as_millis() as u64);
        let mut insert = |name, value| headers.insert(HeaderName::from_static(name), value);
        if let Ok(device) = HeaderValue::from_str(device) {
            insert("x-compute-type", device);
        }
        insert("x-compute-time", milliseconds(elapsed));
        insert("x-total-time", milliseconds(elapsed));
        insert("x-tokenization-time", milliseconds(timings.tokenization));
        insert("x-queue-time", milliseconds(timings.queue));
        insert("x-planning-time", milliseconds(timings.planning));
        insert("x-inference-time", milliseconds(timings.inference));
        insert("x-compute-characters", HeaderValue::from(usage.characters));
        insert("x-compute-tokens", HeaderValue::from(usage.tokens));
        insert("x-compute-compact-tokens", HeaderValue::from(usage.computed_tokens));
        insert("x-truncated-inputs", HeaderValue::from(usage.truncated_inputs));
        if let Ok(ratio) = HeaderValue::from_str(&format!("{:.4}", usage.compaction_ratio())) {
            insert("x-compaction-ratio", ratio);
        }
        if usage.foreign_inputs > 0 {
            headers.insert(FOREIGN, HeaderValue::from(usage.foreign_inputs));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_milliseconds_and_counts() {
        let cost = Cost {
            usage: Usage { characters: 11, tokens: 7, computed_tokens: 5, truncated_inputs: 2, foreign_inputs: 3 },
            timings: Timings {
                total: Duration::from_micros(9_900),
                tokenization: Duration::from_micros(1_999),
                queue: Duration::from_millis(3),
                planning: Duration::from_micros(40),
                inference: Duration::from_millis(5),
            },
        };
        let mut headers = HeaderMap::new();
        cost.write_headers(&mut headers, "cpu", Duration::from_millis(12));
        for (name, value) in [
            ("x-compute-type", "cpu"),
            ("x-compute-time", "12"),
            ("x-total-time", "12"),
            ("x-tokenization-time", "1"),
            ("x-queue-time", "3"),
            ("x-planning-time", "0"),
            ("x-inference-time", "5"),
            ("x-compute-characters", "11"),
            ("x-compute-tokens", "7"),
            ("x-compute-compact-tokens", "5"),
            ("x-truncated-inputs", "2"),
            ("x-foreign-token-ids", "3"),
            ("x-compaction-ratio", "0.7143"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
    }
}
