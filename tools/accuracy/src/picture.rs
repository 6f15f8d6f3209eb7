//! The report as charts.

use crate::embeddings::Embeddings;
use crate::measure::quantiles;
use crate::report::{Agreement, Cost, Report};
use crate::scores::{Classification, Errors, Rerank};
use prefold_tools::chart::{Chart, Line};

const MEGABYTE: f64 = 1e6;

/// Charts of the errors and of the cost, drawn one below the other.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let Report { model, reference, other, agreement, .. } = report;
    let title = format!("{model}: {} compared with {}, {}", other.dtype, reference.dtype, report.compared());
    let mut charts = match agreement {
        Agreement::Embeddings(embeddings) => of_embeddings(embeddings),
        Agreement::Rerank(rerank) => of_rerank(rerank),
        Agreement::Classification(classification) => of_classification(classification),
    };
    charts.extend(of_costs(reference, other));
    if let Some(first) = charts.first_mut() {
        first.title = title;
    }
    charts
}

fn of_embeddings(embeddings: &Embeddings) -> Vec<Chart> {
    let Embeddings { texts, similarity_error, .. } = embeddings;
    let distances = texts.iter().map(|text| 1.0 - text.cosine).collect();
    let orders = [
        curve("1 - Kendall's tau-b", 0, texts.iter().filter_map(|text| text.kendall_tau_b).map(lacking).collect()),
        curve(
            "1 - overlap of the 10 nearest",
            1,
            texts.iter().filter_map(|text| text.top_10_overlap).map(lacking).collect(),
        ),
    ];
    vec![
        percentiles(
            "difference of cosines",
            true,
            vec![
                curve("text: 1 - cosine of its two vectors", 0, distances),
                curve("pair of texts: change of their cosine", 1, similarity_error.percentiles.clone()),
            ],
        ),
        percentiles("order of the others by similarity to a text: 0 is the same", false, orders.into()),
    ]
}

fn of_rerank(rerank: &Rerank) -> Vec<Chart> {
    let taus = rerank.queries.iter().filter_map(|query| query.kendall_tau_b).map(lacking).collect();
    let order = curve("query: 1 - Kendall's tau-b", 0, taus);
    vec![of_errors(&rerank.errors), percentiles("order of a query's documents: 0 is the same", false, vec![order])]
}

fn of_classification(classification: &Classification) -> Vec<Chart> {
    vec![of_errors(&classification.errors)]
}

fn of_errors(errors: &Errors) -> Chart {
    let lines = [("score", 0, &errors.score_percentiles), ("logit", 1, &errors.logit_percentiles)];
    let lines = lines.map(|(name, colour, values)| curve(name, colour, values.clone()));
    percentiles("absolute error", true, lines.into())
}

/// Memory and speed of both runs, as bars: nothing lies between two types.
fn of_costs(reference: &Cost, other: &Cost) -> Vec<Chart> {
    let names = [reference, other].into_iter().enumerate().map(|(at, cost)| (at as f64, cost.dtype.clone()));
    let x_labels: Vec<(f64, String)> = names.collect();
    let line = |name: &str, colour: usize, value: fn(&Cost) -> Option<f64>| {
        let points = [reference, other].into_iter().enumerate();
        let points = points.filter_map(|(at, cost)| Some((at as f64, value(cost)?))).collect();
        Line { name: name.to_owned(), points, colour, dashed: false }
    };
    let mut memory = vec![
        line("resident at rest", 0, |cost| in_megabytes(cost.resident_bytes)),
        line("peak", 1, |cost| in_megabytes(cost.peak_bytes)),
        line("GPU", 2, |cost| in_megabytes(cost.device_bytes)),
    ];
    memory.retain(|line| !line.points.is_empty());
    let speed = vec![line("speed", 0, |cost| Some(cost.tokens_per_s))];
    let chart =
        |y_title: &str, lines| Chart { x_labels: x_labels.clone(), bars: true, ..chart("", y_title, false, lines) };
    vec![chart("memory, MB", memory), chart("tokens/s", speed)]
}

fn in_megabytes(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64 / MEGABYTE)
}

/// Chart of distributions: each value over the percentage of values that do not exceed it.
fn percentiles(y_title: &str, log_y: bool, lines: Vec<Line>) -> Chart {
    chart("from the least changed to the most changed, percent", y_title, log_y, lines)
}

fn chart(x_title: &str, y_title: &str, log_y: bool, lines: Vec<Line>) -> Chart {
    Chart {
        title: String::new(),
        x_title: x_title.to_owned(),
        y_title: y_title.to_owned(),
        x_labels: Vec::new(),
        bars: false,
        log_x: false,
        log_y,
        lines,
    }
}

/// Distribution of values as a line over percent.
fn curve(name: &str, colour: usize, values: Vec<f64>) -> Line {
    let values = quantiles(values);
    let last = values.len().saturating_sub(1).max(1) as f64;
    let points = values.into_iter().enumerate().map(|(rank, value)| (100.0 * rank as f64 / last, value)).collect();
    Line { name: name.to_owned(), points, colour, dashed: false }
}

/// 1 minus the agreement.
fn lacking(agreement: f64) -> f64 {
    1.0 - agreement
}
