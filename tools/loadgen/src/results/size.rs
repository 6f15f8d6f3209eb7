//! The servers that a rate needs, from the rate that one of them carries.

use prefold_tools::plural::count;
use serde::{Deserialize, Serialize};

/// What is asked of the servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Goal {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Latency that 99% of them must not exceed.
    pub(crate) p99_ms: f64,
}

/// Result of a search, as in the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Size {
    /// Asked requests per second.
    pub(crate) rate: f64,
    /// Asked latency.
    pub(crate) p99_ms: f64,
    /// Requests in flight in the closed loop that shows the most the server answers.
    pub(crate) saturating: usize,
    /// Requests per second in this loop.
    pub(crate) saturated_requests_per_s: f64,
    /// Requests per second at which it keeps the latency; absent if there is no such rate.
    pub(crate) carried_requests_per_s: Option<f64>,
    /// Latency at this rate.
    pub(crate) carried_p99_ms: Option<f64>,
    /// Fraction of the time in which the model computed at this rate, if the server has metrics.
    pub(crate) busy: Option<f64>,
    /// Cores that the server used in the closed loop, if it has metrics.
    pub(crate) cores_per_server: Option<f64>,
    /// Servers that the asked rate needs.
    pub(crate) servers: Option<u64>,
    /// Cores of these servers.
    pub(crate) cores: Option<u64>,
}

/// Servers that a rate needs, if each carries `carried`. A Poisson stream that is split at random over N servers is a Poisson stream
/// of an Nth of the rate at each of them, so each meets the load that was measured.
pub(crate) fn servers(rate: f64, carried: f64) -> u64 {
    // A millionth is rounding.
    ((rate / carried - 1e-6).ceil() as u64).max(1)
}

/// Cores of a server that used this many on average; a core of which a tenth is used counts as none.
pub(crate) fn whole_cores(used: f64) -> u64 {
    ((used - 0.1).ceil() as u64).max(1)
}

impl Size {
    /// The result in words, for requests of up to `texts` texts.
    pub(crate) fn lines(&self, texts: Option<usize>) -> Vec<String> {
        let texts = texts.map_or(String::new(), |texts| format!(" (up to {} each)", count(texts, "text")));
        let cores = self.cores_per_server.map_or(String::new(), |cores| format!(", on {cores:.1} cores"));
        let mut lines = vec![
            String::new(),
            format!("{} requests/s{texts} with a p99 of at most {} ms:", self.rate, self.p99_ms),
            format!(
                "  the server answers up to   {:.1} requests/s (in a closed loop with {} requests in flight{cores})",
                self.saturated_requests_per_s, self.saturating
            ),
        ];
        let (Some(carried), Some(p99), Some(servers)) =
            (self.carried_requests_per_s, self.carried_p99_ms, self.servers)
        else {
            lines.push(format!("  within {} ms at             no rate that was tried", self.p99_ms));
            lines.push(
                "  More servers of this kind do not help: a request is too slow even if it meets hardly any other, or other work on the \
                 machine disturbs it.\n  Shorter or fewer texts per request, more cores per server or a smaller --dtype do."
                    .to_owned(),
            );
            return lines;
        };
        let busy = self.busy.map_or(String::new(), |busy| format!(", computing {:.0}% of the time", 100.0 * busy));
        lines.push(format!("  it keeps the p99 up to     {carried} requests/s ({p99:.1} ms{busy})"));
        let share = 100.0 * self.rate / (servers as f64 * carried);
        let cores = self.cores.map_or(String::new(), |cores| format!(", {} in all", count(cores, "core")));
        let spare = count(servers + 1, "server");
        lines.push(format!(
            "  needed                     {} like this one{cores}, each at {share:.0}% of that rate; {spare} if one may fail",
            count(servers, "server")
        ));
        lines
    }
}

#[cfg(test)]
#[path = "size_tests.rs"]
mod tests;
