//! Tables for people, JSON for machines.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where results go besides standard output.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Write the rows as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write a picture.
    #[arg(long)]
    pub(crate) svg: Option<PathBuf>,
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

    /// Writes the rows with the command that made them.
    pub(crate) fn write_json(&self, path: Option<&Path>) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        let command: Vec<String> = std::env::args().skip(1).collect();
        let document = serde_json::json!({ "command": command.join(" "), "rows": self.rows });
        std::fs::write(path, serde_json::to_vec_pretty(&document)?)
            .with_context(|| format!("cannot write {}", path.display()))
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
