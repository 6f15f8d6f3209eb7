//! Tables of a mixed load: queries and bulk clients, each alone and together.

use crate::results::report::{self, Latency, LoadPart, RunReport};
use prefold_tools::plural::count;
use std::fmt::Write;

/// Width of the names in the first column.
const NAME: usize = 19;
/// Width of a histogram's longest bar.
const BAR: usize = 12;

impl LoadPart {
    fn name(self) -> &'static str {
        match self {
            Self::QueriesAlone => "queries alone",
            Self::QueriesBesideBulk => "queries during bulk",
            Self::BulkAlone => "bulk alone",
            Self::BulkBesideQueries => "bulk during queries",
        }
    }
}

/// All tables for one number of bulk clients.
pub(crate) fn lines(runs: &[RunReport]) -> Vec<String> {
    let mut parts: Vec<(LoadPart, &RunReport)> = runs.iter().filter_map(|run| Some((run.part?, run))).collect();
    parts.sort_by_key(|(part, _)| *part as u8);
    let mut lines = throughput_and_latency(&parts);
    lines.extend(forward_passes(&parts));
    lines.extend(histograms(&parts));
    lines.push(String::new());
    lines.extend(bulk_throughput(runs));
    lines.extend(parts.iter().flat_map(|(part, run)| {
        run.problems().into_iter().map(|problem| format!("{}: {problem}", part.name())).collect::<Vec<_>>()
    }));
    lines
}

fn throughput_and_latency(parts: &[(LoadPart, &RunReport)]) -> Vec<String> {
    let name = count(parts.first().map_or(0, |(_, run)| run.load as u64), "bulk client");
    let rows = parts.iter().map(|(part, run)| run.row(&format!("{:<NAME$}", part.name())));
    ["".to_owned(), report::header(&format!("{name:<NAME$}"))].into_iter().chain(rows).collect()
}

/// Latencies in units of the server's forward pass, the minimum that a query waits for; empty for servers that do not report it.
fn forward_passes(parts: &[(LoadPart, &RunReport)]) -> Vec<String> {
    let row = |(part, run): &(LoadPart, &RunReport)| {
        let (server, Latency { p50, p90, p99, max, .. }) = (run.server.as_ref()?, run.latency_passes?);
        let (batches, texts, pass) = (server.batches?, server.texts_per_batch?, server.pass_ms()?);
        let name = part.name();
        Some(format!(
            "{name:<NAME$} {batches:>9} {texts:>7.1} {pass:>10.1} {p50:>9.1} {p90:>9.1} {p99:>9.1} {max:>9.1}"
        ))
    };
    let rows: Vec<_> = parts.iter().filter_map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    let header = format!(
        "{:<NAME$} {:>9} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "in forward passes", "batches", "texts", "pass ms", "p50", "p90", "p99", "max"
    );
    ["".to_owned(), header].into_iter().chain(rows).collect()
}

/// Histograms of the latency in adjacent columns; intervals that are empty in all of them are omitted.
fn histograms(parts: &[(LoadPart, &RunReport)]) -> Vec<String> {
    let mut bounds: Vec<(f64, f64)> = parts
        .iter()
        .flat_map(|(_, run)| run.histogram.iter().filter(|interval| interval.count > 0))
        .map(|interval| (interval.from_ms, interval.to_ms))
        .collect();
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    bounds.dedup();
    let mut header = format!("{:<NAME$}", "requests by latency");
    parts.iter().for_each(|(part, _)| header += &format!("  {:<NAME$}", part.name()));
    let row = |&(from, to): &(f64, f64)| {
        let mut row = format!("{:<NAME$}", format!("{from:>7} - {to:>6} ms"));
        for (_, run) in parts {
            let count = |from_ms: f64| run.histogram.iter().find(|interval| interval.from_ms == from_ms);
            let count = count(from).map_or(0, |interval| interval.count);
            let most = run.histogram.iter().map(|interval| interval.count).max().unwrap_or(1).max(1);
            // At least one character for at least one request.
            let bar = "#".repeat((count as usize * BAR).div_ceil(most as usize));
            let count = if count == 0 { String::new() } else { count.to_string() };
            let _ = write!(row, "  {count:>6} {bar:<BAR$}");
        }
        row.trim_end().to_owned()
    };
    ["".to_owned(), header.trim_end().to_owned()].into_iter().chain(bounds.iter().map(row)).collect()
}

/// Bulk throughput with the queries, without them, and the ratio, also by round.
fn bulk_throughput(runs: &[RunReport]) -> Option<String> {
    let of = |part| runs.iter().find(|run| run.part == Some(part));
    let (alone, beside) = (of(LoadPart::BulkAlone)?, of(LoadPart::BulkBesideQueries)?);
    let ratio = |beside: f64, alone: f64| format!("{:.3}", beside / alone);
    let rounds = beside.rounds_texts_per_s.iter().zip(&alone.rounds_texts_per_s);
    let rounds: Vec<_> = rounds.map(|(&beside, &alone)| ratio(beside, alone)).collect();
    let tokens = beside.tokens_per_s.zip(alone.tokens_per_s);
    let tokens = tokens.map_or(String::new(), |(beside, alone)| format!(", tokens/s {beside:.0} of {alone:.0}"));
    Some(format!(
        "bulk throughput during queries: {} of bulk alone (texts/s {:.1} of {:.1}{tokens}; by round {})",
        ratio(beside.texts_per_s, alone.texts_per_s),
        beside.texts_per_s,
        alone.texts_per_s,
        rounds.join(", ")
    ))
}

#[cfg(test)]
#[path = "mixed_tests.rs"]
mod tests;
