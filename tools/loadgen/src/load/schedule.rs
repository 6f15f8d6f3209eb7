//! Arrival times of an open loop.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// Endless arrivals of a Poisson process, as times since its start.
///
/// Independent clients arrive this way: the time between two arrivals is exponentially distributed (drawn by
/// inversion). A seed determines the arrivals; at another rate the same seed gives the same arrivals on another time
/// scale.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    random: StdRng,
    /// Arrivals per second, positive and finite.
    rate: f64,
    seconds: f64,
}

impl Arrivals {
    pub(crate) fn new(rate: f64, seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), rate, seconds: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // In (0, 1], because the logarithm of 0 is infinite.
        let uniform = 1.0 - self.random.random::<f64>();
        self.seconds -= uniform.ln() / self.rate;
        Duration::try_from_secs_f64(self.seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(rate: f64, seed: u64, count: usize) -> Vec<f64> {
        let times: Vec<f64> = Arrivals::new(rate, seed).take(count).map(|time| time.as_secs_f64()).collect();
        std::iter::once(times[0]).chain(times.windows(2).map(|pair| pair[1] - pair[0])).collect()
    }

    #[test]
    fn gaps_are_exponential_with_the_mean_of_the_rate() {
        let (rate, count) = (40.0, 100_000);
        let gaps = gaps(rate, 1, count);
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
        let mean = gaps.iter().sum::<f64>() / count as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count as f64;
        // Six standard errors; the standard deviation of an exponential distribution is its mean.
        let tolerance = 6.0 / (count as f64).sqrt();
        assert!((mean * rate - 1.0).abs() < tolerance, "{mean}");
        assert!((variance.sqrt() * rate - 1.0).abs() < 2.0 * tolerance, "{variance}");
        // The distribution function at a few points.
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let bound = -(1.0f64 - quantile).ln() / rate;
            let below = gaps.iter().filter(|gap| **gap <= bound).count() as f64 / count as f64;
            assert!((below - quantile).abs() < tolerance, "{quantile}: {below}");
        }
    }

    #[test]
    fn gaps_do_not_depend_on_the_gap_before() {
        let gaps = gaps(1.0, 2, 100_000);
        let product: f64 = gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum();
        let correlation = product / gaps.len() as f64;
        assert!(correlation.abs() < 6.0 / (gaps.len() as f64).sqrt(), "{correlation}");
    }

    #[test]
    fn a_seed_gives_its_arrivals_at_any_rate() {
        assert_eq!(gaps(5.0, 7, 100), gaps(5.0, 7, 100));
        assert_ne!(gaps(5.0, 7, 100), gaps(5.0, 8, 100));
        for (slow, fast) in gaps(1.0, 7, 100).iter().zip(gaps(4.0, 7, 100)) {
            assert!((slow - 4.0 * fast).abs() < 1e-6);
        }
    }
}
