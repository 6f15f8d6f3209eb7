//! Pace: tokens computed per unit of time.

use std::time::Duration;

/// Compute time in nanoseconds after which the weight of a batch has fallen to 1/e.
const MEMORY: f64 = 5e9;

/// Mean pace over the batches of the last seconds of compute time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    tokens: f64,
    /// Nanoseconds.
    time: f64,
}

impl Pace {
    /// Records a batch of `tokens` that took `time`, and returns the tokens computed in that time at the mean pace, this batch included.
    pub(crate) fn observe(&mut self, tokens: usize, time: Duration) -> f64 {
        let time = time.as_nanos() as f64;
        let kept = (-time / MEMORY).exp();
        self.tokens = self.tokens * kept + tokens as f64;
        self.time = self.time * kept + time;
        if self.time > 0.0 { time * self.tokens / self.time } else { tokens as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_worth_the_tokens_that_others_have_in_its_time() {
        let mut pace = Pace::default();
        assert_eq!(pace.observe(100, Duration::from_millis(10)), 100.0, "the first is the measure");
        for _ in 0..100 {
            assert!((pace.observe(1000, Duration::from_millis(100)) - 1000.0).abs() < 1e-6);
        }
        // Ten tokens in the time of fifty.
        let worth = pace.observe(10, Duration::from_millis(5));
        assert!((49.0..50.0).contains(&worth), "{worth}");
        assert_eq!(pace.observe(7, Duration::ZERO), 0.0);
    }
}
