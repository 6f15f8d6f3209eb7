//! Values of flags: rates and durations.

use anyhow::{Result, anyhow, ensure};
use std::time::Duration;

/// Maximum of a duration in seconds: a year.
const MAX_SECONDS: f64 = 86_400.0 * 365.0;
/// Maximum arrivals per second: more than a machine sends, and each waits in memory until it is sent.
const MAX_RATE: f64 = 1e6;

pub(super) fn parse_rate(rate: &str) -> Result<f64> {
    let rate: f64 = rate.parse()?;
    ensure!(rate > 0.0 && rate <= MAX_RATE, "must be greater than 0, and {MAX_RATE} at most");
    Ok(rate)
}

pub(super) fn parse_seconds(seconds: &str) -> Result<Duration> {
    let duration = parse_seconds_or_none(seconds)?;
    ensure!(!duration.is_zero(), "must be greater than 0, and {MAX_SECONDS} at most");
    Ok(duration)
}

pub(super) fn parse_seconds_or_none(seconds: &str) -> Result<Duration> {
    let number = seconds.strip_suffix('s').unwrap_or(seconds);
    let seconds: f64 = number.parse().map_err(|_| anyhow!("must be a number of seconds, such as 3 or 0.5"))?;
    ensure!((0.0..=MAX_SECONDS).contains(&seconds), "must be from 0 to {MAX_SECONDS}");
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_their_unit() {
        for (given, seconds) in [("3", 3.0), ("3s", 3.0), ("0.5", 0.5), ("0.5s", 0.5)] {
            assert_eq!(parse_seconds(given).unwrap().as_secs_f64(), seconds, "{given}");
        }
        for given in ["", "s", "3m", "three"] {
            assert!(parse_seconds(given).unwrap_err().to_string().contains("a number of seconds"), "{given}");
        }
        assert!(parse_seconds("0s").is_err() && parse_seconds_or_none("0s").unwrap().is_zero());
    }
}
