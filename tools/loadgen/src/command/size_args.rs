//! Flags of a search for the rate that a server carries.

use crate::command::values::{parse_rate, parse_seconds};
use crate::results::size::Goal;
use std::time::Duration;

/// Flags of the search. The load's flags are the search's own.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sizing")]
pub(crate) struct SizeArgs {
    /// Search for the rate at which the server keeps --p99, and say how many such servers, or cores, RATE requests per
    /// second need. Takes at most 14 runs of three times --duration
    #[arg(long, value_name = "RATE", requires = "p99", value_parser = parse_rate,
          conflicts_with_all = ["rate", "concurrency", "requests", "warmup_requests"])]
    size_for: Option<f64>,

    /// Latency in milliseconds that 99% of the requests must not exceed
    #[arg(long, value_name = "MS", requires = "size_for", value_parser = parse_milliseconds)]
    p99: Option<Duration>,
}

impl SizeArgs {
    /// The goal, if there is one.
    pub(crate) fn goal(&self) -> Option<Goal> {
        let (rate, p99) = self.size_for.zip(self.p99)?;
        Some(Goal { rate, p99_ms: 1e3 * p99.as_secs_f64() })
    }
}

fn parse_milliseconds(milliseconds: &str) -> anyhow::Result<Duration> {
    let milliseconds: f64 = milliseconds.parse()?;
    parse_seconds(&(milliseconds / 1e3).to_string())
}
