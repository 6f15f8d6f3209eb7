//! Tables for people, JSON for machines.

use anyhow::{Context, Result};
use prefold_loadgen::chart::{self, Chart, Line};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Destinations of results besides standard output.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Write the rows as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a picture.
    #[arg(long)]
    svg: Option<PathBuf>,
}

impl Output {
    /// Writes what was asked for: the rows with the command that made them, and the charts.
    pub(crate) fn write(&self, tables: &[&Table], charts: &[Chart]) -> Result<()> {
        if let Some(path) = &self.json {
            let command: Vec<String> = std::env::args().skip(1).collect();
            let rows: Vec<_> = tables.iter().flat_map(|table| table.rows()).collect();
            let document = serde_json::json!({ "command": command.join(" "), "rows": rows });
            std::fs::write(path, serde_json::to_vec_pretty(&document)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        self.svg.as_deref().map_or(Ok(()), |path| chart::write(charts, path))
    }
}

/// Lines over numbers that stand one beside the other at equal distances, whatever they are.
pub(crate) fn chart<'a>(
    [title, x_title, y_title]: [&str; 3],
    x: &[usize],
    lines: impl IntoIterator<Item = (&'a str, Vec<f64>)>,
) -> Chart {
    let line = |(colour, (name, values)): (usize, (&str, Vec<f64>))| Line {
        name: name.to_owned(),
        points: values.into_iter().enumerate().map(|(x, y)| (x as f64, y)).collect(),
        colour,
        dashed: false,
    };
    Chart {
        title: title.to_owned(),
        x_title: x_title.to_owned(),
        y_title: y_title.to_owned(),
        x_labels: x.iter().enumerate().map(|(place, x)| (place as f64, x.to_string())).collect(),
        log_x: false,
        log_y: false,
        lines: lines.into_iter().enumerate().map(line).collect(),
    }
}

/// Rows with named columns, printed as they come.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Map<String, Value>>,
}

impl Table {
    /// Adds and prints a row. Numbers get three significant digits on paper and all of them in JSON.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(&str, Value); N]) {
        if self.rows.is_empty() {
            let names: Vec<String> = cells.iter().map(|(name, value)| pad(name, name, value)).collect();
            println!("{}", names.join("  "));
        }
        let printed: Vec<String> = cells.iter().map(|(name, value)| pad(name, &show(value), value)).collect();
        println!("{}", printed.join("  "));
        self.rows.push(cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    }

    pub(crate) fn rows(&self) -> &[Map<String, Value>] {
        &self.rows
    }

    /// The numbers of a column, of the rows that another column picks.
    pub(crate) fn column(&self, name: &str, pick: impl Fn(&Map<String, Value>) -> bool) -> Vec<f64> {
        self.rows.iter().filter(|row| pick(row)).map(|row| row[name].as_f64().unwrap_or(f64::NAN)).collect()
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let digits = 3_i32.saturating_sub(number.abs().log10().floor() as i32 + 1).clamp(0, 4);
            format!("{number:.*}", digits as usize)
        }
        other => other.to_string(),
    }
}

fn pad(name: &str, text: &str, value: &Value) -> String {
    let width = name.len().max(9);
    if value.is_string() { format!("{text:<24}") } else { format!("{text:>width$}") }
}

/// The fastest of several runs: other work on the machine only ever adds time.
pub(crate) fn fastest(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}
