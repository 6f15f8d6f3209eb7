//! The report in prose, printed below the tables: meaning of the columns and results of the runs.

use crate::results::report::{LoadPart, Report, RunReport};
use prefold_tools::plural::count;

/// N'/N above which almost nothing was shared.
const HARDLY: f64 = 0.95;

/// Fraction of the time from which a server counts as busy.
const BUSY: f64 = 0.8;

/// Everything that is printed below the tables; nothing without a run.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    if report.runs.is_empty() {
        return Vec::new();
    }
    let (mut meaning, mut shown) = match report.mode.as_str() {
        "mixed" => (mixed_columns(), beside_bulk(&report.runs)),
        mode => (columns(mode), throughput(&report.runs, mode).into_iter().collect()),
    };
    if report.shares_prefixes == Some(false) {
        meaning.extend(equal_texts_column(&report.runs));
        shown.extend(use_of_the_server(report));
    } else {
        meaning.extend(ratio_column(&report.runs));
        shown.extend(sharing(report));
    }
    shown.extend(failures(&report.runs));
    shown.extend(repeats(report));
    let blank = || std::iter::once(String::new());
    blank().chain(meaning).chain(blank()).chain(shown).collect()
}

fn columns(mode: &str) -> Vec<String> {
    let load = match mode {
        "rate" => "rate: requests that arrive per second. Latency counts from a request's scheduled start.",
        _ => "concurrency: requests in flight; each response triggers the next request.",
    };
    let others = [
        "requests/s, texts/s, tokens/s: successful responses over the time of the run.",
        "p50, p90, p99: latency that 50%, 90%, 99% of the requests did not exceed, until the last byte.",
    ];
    std::iter::once(load).chain(others).map(str::to_owned).collect()
}

fn mixed_columns() -> Vec<String> {
    let lines = [
        "queries alone, bulk alone: each had the server for itself. during: both at the same time.",
        "p50, p90, p99: latency that 50%, 90%, 99% of the requests did not exceed, until the last byte.",
        "in forward passes: latency over the mean time of a batch's forward pass.",
    ];
    lines.map(str::to_owned).to_vec()
}

fn ratio_column(runs: &[RunReport]) -> Option<String> {
    let server = runs.iter().filter_map(|run| run.server.as_ref()).find(|server| server.compaction_ratio.is_some())?;
    let scope = if server.source == "headers" { "request" } else { "batch" };
    Some(format!(
        "N'/N: fraction of the tokens that the server computed; the rest repeats the beginning of another text of the {scope}."
    ))
}

/// The column of the ratio for a model that shares no prefixes.
fn equal_texts_column(runs: &[RunReport]) -> Option<String> {
    let has_ratio = |run: &RunReport| run.server.as_ref().is_some_and(|server| server.compaction_ratio.is_some());
    runs.iter().any(has_ratio).then(|| {
        "N'/N: 1 unless texts of a batch are equal, because this model is an encoder and shares no beginnings of texts."
            .to_owned()
    })
}

/// Load of a run in words.
fn load(mode: &str, value: f64) -> String {
    match mode {
        "rate" => format!("{value} arrivals per second"),
        _ => format!("{} in flight", count(value as u64, "request")),
    }
}

fn throughput(runs: &[RunReport], mode: &str) -> Option<String> {
    let answered = || runs.iter().filter(|run| run.answered > 0);
    let least = answered().min_by(|a, b| a.load.total_cmp(&b.load))?;
    let most = answered().max_by(|a, b| a.load.total_cmp(&b.load))?;
    let of = |run: &RunReport| format!("{:.1} texts/s with a p50 of {:.1} ms", run.texts_per_s, run.latency_ms.p50);
    if least.load == most.load {
        return Some(format!("With {} the server reached {}.", load(mode, least.load), of(least)));
    }
    Some(format!(
        "With {} the server reached {},\nwith {} {} ({:.2} times the throughput).",
        load(mode, least.load),
        of(least),
        load(mode, most.load),
        of(most),
        most.texts_per_s / least.texts_per_s
    ))
}

/// One line for each number of bulk clients.
fn beside_bulk(runs: &[RunReport]) -> Vec<String> {
    let of = |part, load: f64| runs.iter().find(move |run| run.part == Some(part) && run.load == load);
    let line = |beside: &RunReport| {
        let alone = of(LoadPart::QueriesAlone, beside.load)?;
        let bulk = of(LoadPart::BulkBesideQueries, beside.load)?.texts_per_s
            / of(LoadPart::BulkAlone, beside.load)?.texts_per_s;
        Some(format!(
            "With {}, half of the queries took at most {:.1} ms, alone {:.1} ms; the bulk kept {:.1}% of its throughput.",
            count(beside.load as u64, "bulk client"),
            beside.latency_ms.p50,
            alone.latency_ms.p50,
            100.0 * bulk
        ))
    };
    runs.iter().filter(|run| run.part == Some(LoadPart::QueriesBesideBulk)).filter_map(line).collect()
}

/// Savings by compaction, or advice on sharing between texts.
fn sharing(report: &Report) -> Option<String> {
    let ratio = |run: &RunReport| run.server.as_ref()?.compaction_ratio;
    let ratios = report.runs.iter().filter_map(|run| Some((run, ratio(run)?)));
    let (run, least) = ratios.min_by(|a, b| a.1.total_cmp(&b.1))?;
    if least > HARDLY {
        return Some(format!(
            "Hardly anything was shared (N'/N {least:.4}): the texts of a batch begin differently, or compaction is off. Single texts \
             share nothing until\nrequests queue; more texts per request (--texts 10) or more requests in flight (--concurrency 32) \
             may change that."
        ));
    }
    let saved = 100.0 * (1.0 - least);
    let when = match report.mode.as_str() {
        "mixed" => format!("With {}", count(run.load as u64, "bulk client")),
        mode => format!("With {}", load(mode, run.load)),
    };
    Some(format!(
        "{when} {saved:.1}% of the tokens needed no computation, since other texts of the batch begin with them too."
    ))
}

/// Advice for a model whose texts share nothing: how much of the time it computed under the highest load, and what gives more.
fn use_of_the_server(report: &Report) -> Option<String> {
    let is_whole = |run: &&RunReport| matches!(run.part, None | Some(LoadPart::BulkBesideQueries));
    let run = report.runs.iter().filter(is_whole).max_by(|a, b| a.load.total_cmp(&b.load))?;
    let busy = run.server.as_ref()?.busy()?;
    let when = match report.mode.as_str() {
        "mixed" => format!("With {}", count(run.load as u64, "bulk client")),
        mode => format!("With {}", load(mode, run.load)),
    };
    let percent = 100.0 * busy;
    if busy < BUSY {
        return Some(format!(
            "{when} the model computed {percent:.0}% of the time: more texts per request (--texts 32) or more requests in flight\n\
             (--concurrency 16) use the rest."
        ));
    }
    let smaller = match report.dtype.as_deref() {
        Some("float32") => {
            ", or a smaller type (--dtype bfloat16 or int8; `prefold accuracy` measures its effect on answers and speed)"
        }
        Some("bfloat16" | "float16") => {
            ", or a smaller type (--dtype int8; `prefold accuracy` measures its effect on answers and speed)"
        }
        _ => "",
    };
    Some(format!(
        "{when} the model computed {percent:.0}% of the time: more throughput takes more cores or servers{smaller}."
    ))
}

fn failures(runs: &[RunReport]) -> Option<String> {
    let (failed, sent) = runs.iter().fold((0, 0), |(failed, sent), run| (failed + run.failed, sent + run.sent));
    (failed > 0).then(|| format!("{failed} of {} failed; the lines above name the errors.", count(sent, "request")))
}

/// A remark if requests were sent more than once, which costs less than distinct ones.
pub(crate) fn repeats(report: &Report) -> Option<String> {
    let is_bulk = |run: &&RunReport| matches!(run.part, None | Some(LoadPart::BulkAlone | LoadPart::BulkBesideQueries));
    let sent: u64 = report.runs.iter().filter(is_bulk).map(|run| run.sent).sum();
    let distinct = report.different_requests as u64;
    (sent > distinct).then(|| {
        format!(
            "{} for {}: repeats cost less, from a cache or because equal texts of a batch are computed once.",
            count(sent, "request"),
            distinct_requests(distinct)
        )
    })
}

fn distinct_requests(number: u64) -> String {
    count(number, "distinct request")
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
