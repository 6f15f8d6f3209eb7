//! Values of flags: rates and durations.

use anyhow::{Result, ensure};
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
    let seconds: f64 = seconds.parse()?;
    ensure!((0.0..=MAX_SECONDS).contains(&seconds), "must be from 0 to {MAX_SECONDS}");
    Ok(Duration::from_secs_f64(seconds))
}
