//! `prefold bench plot`: several results in one chart.

use crate::http::info::ServerInfo;
use crate::results::report::{LoadPart, Report, RunReport};
use anyhow::{Result, bail};
use prefold_tools::chart::{self, Chart, Line};
use prefold_tools::plural::count;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Draws results of `prefold bench --json`: throughput and latency against load, for mixed loads the latency of the queries
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plot {
    /// Files written by `--json`. Files with the same label form one line
    #[arg(required = true, value_name = "JSON")]
    files: Vec<PathBuf>,

    /// Output file
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,

    /// Title of the chart
    #[arg(long, default_value = "prefold bench")]
    title: String,
}

impl Plot {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let reports = self.files.iter().map(|path| Report::read(path)).collect::<Result<Vec<_>>>()?;
        write(&reports, &self.title, &self.svg)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Draws results of equal mode (closed or open loop).
pub(crate) fn write(reports: &[Report], title: &str, path: &Path) -> Result<()> {
    Ok(chart::write(&charts(reports, title)?, path)?)
}

fn charts(reports: &[Report], title: &str) -> Result<Vec<Chart>> {
    let Some(first) = reports.first() else { bail!("no results to draw") };
    if let Some(other) = reports.iter().find(|report| report.mode != first.mode) {
        let Report { label, mode, .. } = first;
        bail!("{label} has load by {mode} and {} by {}: no common axis", other.label, other.mode);
    }
    let mut series: Vec<Series<'_>> = Vec::new();
    for report in reports {
        let name = series_name(report, reports);
        match series.iter_mut().find(|(label, _)| *label == name) {
            Some((_, runs)) => runs.extend(&report.runs),
            None => series.push((name, report.runs.iter().collect())),
        }
    }
    series.iter_mut().for_each(|(_, runs)| runs.sort_by(|a, b| a.load.total_cmp(&b.load)));

    match first.mode.as_str() {
        "mixed" => Ok(mixed(&series, title)),
        "rate" => Ok(loads(&series, title, "arrivals per second")),
        _ => Ok(loads(&series, title, "requests in flight")),
    }
}

/// A label and its results, in the order of loads.
type Series<'a> = (String, Vec<&'a RunReport>);

/// Label of a report, with the URL if another server has the same model and type and neither was given a label.
fn series_name(report: &Report, reports: &[Report]) -> String {
    let Report { label, url, model, dtype, .. } = report;
    let is_default = *label == ServerInfo::label(model.as_deref(), dtype.as_deref(), url);
    let is_shared = reports.iter().any(|other| other.label == *label && other.url != *url);
    if is_default && is_shared { format!("{label}, {url}") } else { label.clone() }
}

fn chart(title: &str, x_title: &str, y_title: &str) -> Chart {
    Chart {
        title: title.to_owned(),
        x_title: x_title.to_owned(),
        y_title: y_title.to_owned(),
        x_labels: Vec::new(),
        bars: false,
        log_x: false,
        log_y: false,
        lines: Vec::new(),
    }
}

/// Throughput and latency against load.
fn loads(series: &[Series<'_>], title: &str, x_title: &str) -> Vec<Chart> {
    let mut throughput = chart(title, x_title, "texts/s");
    let mut latency = Chart { log_y: true, ..chart("", x_title, "latency, ms") };
    for (colour, (label, runs)) in series.iter().enumerate() {
        let line = |name: String, dashed: bool, value: fn(&RunReport) -> f64| Line {
            name,
            points: runs.iter().map(|run| (run.load, value(run))).collect(),
            colour,
            dashed,
        };
        throughput.lines.push(line(label.clone(), false, |run| run.texts_per_s));
        latency.lines.push(line(format!("{label}, p50"), false, |run| run.latency_ms.p50));
        latency.lines.push(line(format!("{label}, p99"), true, |run| run.latency_ms.p99));
    }
    vec![throughput, latency]
}

/// Distribution of the queries' latency for each number of bulk clients, and the throughput of the bulk. Measurements
/// of one alone are dashed.
fn mixed(series: &[Series<'_>], title: &str) -> Vec<Chart> {
    let mut clients: Vec<f64> = series.iter().flat_map(|(_, runs)| runs.iter().map(|run| run.load)).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    let mut charts: Vec<_> = clients.iter().map(|&clients| latencies(series, title, clients)).collect();
    let mut throughput = chart("", "bulk clients", "texts/s of the bulk");
    for (colour, (label, runs)) in series.iter().enumerate() {
        for (part, name, dashed) in
            [(LoadPart::BulkAlone, "without queries", true), (LoadPart::BulkBesideQueries, "with queries", false)]
        {
            let points =
                runs.iter().filter(|run| run.part == Some(part)).map(|run| (run.load, run.texts_per_s)).collect();
            throughput.lines.push(Line { name: format!("{label}, {name}"), points, colour, dashed });
        }
    }
    charts.push(throughput);
    charts
}

/// Cumulative distribution of the queries' latency, alone and together with the bulk.
fn latencies(series: &[Series<'_>], title: &str, clients: f64) -> Chart {
    let title = format!("{title}: queries with {}", count(clients as u64, "bulk client"));
    let mut chart = Chart { log_x: true, ..chart(&title, "latency, ms", "% of the queries") };
    for (colour, (label, runs)) in series.iter().enumerate() {
        for (part, name, dashed) in
            [(LoadPart::QueriesAlone, "alone", true), (LoadPart::QueriesBesideBulk, "with bulk", false)]
        {
            let run = runs.iter().find(|run| run.part == Some(part) && run.load == clients);
            let points =
                run.map(|run| run.percentiles_ms.iter().enumerate().map(|(percent, &ms)| (ms, percent as f64)));
            let points = points.into_iter().flatten().collect();
            chart.lines.push(Line { name: format!("{label}, {name}"), points, colour, dashed });
        }
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(label: &str, mode: &str, loads: &[f64]) -> Report {
        let run = |load: &f64| {
            json!({
                "load": load, "elapsed_s": 1.0, "interrupted": false, "sent": 1, "answered": 1, "failed": 0,
                "requests_per_s": load, "texts_per_s": load * 2.0, "tokens_per_s": null,
                "latency_ms": { "mean": 1, "p50": load * 3.0, "p90": 1, "p99": load * 4.0, "max": 9 },
                "start_delay_ms": { "p99": 0, "max": 0 }, "errors": [], "server": null
            })
        };
        let runs: Vec<_> = loads.iter().map(run).collect();
        serde_json::from_value(json!({
            "label": label, "version": "0", "url": "u", "model": null, "file": "f", "clients": 1,
            "texts_per_request": null, "different_requests": 1, "mode": mode, "runs": runs
        }))
        .unwrap()
    }

    #[test]
    fn one_label_is_one_line_in_the_order_of_loads() {
        let reports = [report("a", "rate", &[4.0]), report("b", "rate", &[1.0, 2.0]), report("a", "rate", &[1.0])];
        let charts = charts(&reports, "t").unwrap();
        let lines: Vec<_> = charts[0].lines.iter().map(|line| (line.name.as_str(), line.points.clone())).collect();
        assert_eq!(lines, [("a", vec![(1.0, 2.0), (4.0, 8.0)]), ("b", vec![(1.0, 2.0), (2.0, 4.0)])]);
        let names: Vec<_> = charts[1].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["a, p50", "a, p99", "b, p50", "b, p99"]);
        assert_eq!(charts[1].lines[1].points, [(1.0, 4.0), (4.0, 16.0)]);
    }

    #[test]
    fn two_servers_of_one_model_are_two_lines() {
        let of = |url: &str, load: f64, label: &str| Report {
            url: url.to_owned(),
            model: Some("m".to_owned()),
            dtype: Some("int8".to_owned()),
            ..report(label, "rate", &[load])
        };
        let names = |reports: &[Report]| -> Vec<String> {
            charts(reports, "t").unwrap()[0].lines.iter().map(|line| line.name.clone()).collect()
        };
        assert_eq!(names(&[of("a", 1.0, "m, int8"), of("b", 1.0, "m, int8")]), ["m, int8, a", "m, int8, b"]);
        assert_eq!(names(&[of("a", 1.0, "m, int8"), of("a", 2.0, "m, int8")]), ["m, int8"]);
        assert_eq!(names(&[of("a", 1.0, "own"), of("b", 2.0, "own")]), ["own"]);
    }

    #[test]
    fn a_mixed_load_is_drawn_as_distributions_and_bulk_throughput() {
        let mixed = |label: &str, loads: &[f64]| {
            let mut report = report(label, "mixed", &[]);
            let parts =
                [LoadPart::QueriesAlone, LoadPart::QueriesBesideBulk, LoadPart::BulkAlone, LoadPart::BulkBesideQueries];
            for (load, (number, part)) in loads.iter().flat_map(|load| parts.iter().enumerate().map(move |p| (load, p)))
            {
                let mut run = self::report("", "", &[*load]).runs.remove(0);
                run.part = Some(*part);
                run.texts_per_s = 100.0 - number as f64;
                run.percentiles_ms = vec![1.0 + number as f64, 20.0 * load];
                report.runs.push(run);
            }
            report
        };
        let charts = charts(&[mixed("a", &[2.0, 16.0]), mixed("b", &[2.0])], "t").unwrap();
        let titles: Vec<_> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles, ["t: queries with 2 bulk clients", "t: queries with 16 bulk clients", ""]);
        let lines = |chart: &Chart| -> Vec<_> {
            chart.lines.iter().map(|line| (line.name.clone(), line.dashed, line.colour, line.points.clone())).collect()
        };
        let name = |name: &str| name.to_owned();
        assert_eq!(
            lines(&charts[0])[..3],
            [
                (name("a, alone"), true, 0, vec![(1.0, 0.0), (40.0, 1.0)]),
                (name("a, with bulk"), false, 0, vec![(2.0, 0.0), (40.0, 1.0)]),
                (name("b, alone"), true, 1, vec![(1.0, 0.0), (40.0, 1.0)]),
            ]
        );
        assert_eq!(
            lines(&charts[2])[..2],
            [
                (name("a, without queries"), true, 0, vec![(2.0, 98.0), (16.0, 98.0)]),
                (name("a, with queries"), false, 0, vec![(2.0, 97.0), (16.0, 97.0)]),
            ]
        );
    }

    #[test]
    fn loads_of_different_kinds_do_not_share_an_axis() {
        let error = charts(&[report("a", "rate", &[]), report("b", "concurrency", &[])], "t").unwrap_err();
        assert!(error.to_string().contains("a has load by rate and b by concurrency"), "{error}");
        assert!(charts(&[], "t").is_err());
    }
}
