//! A load generator for embedding and reranking servers: `prefold bench`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// `prefold bench`: sends requests to a server and reports throughput and latency.
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    /// The server's address
    #[arg(long, default_value = "http://127.0.0.1:3000")]
    url: String,
}

impl Bench {
    /// Runs the command to its end.
    pub fn run(self) -> ExitCode {
        eprintln!("error: prefold bench is being built; it does nothing yet ({})", self.url);
        ExitCode::from(2)
    }
}
