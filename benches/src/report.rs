//! Results as tables and as JSON.

use anyhow::{Context, Result};
use prefold_tools::chart::{self, Chart, Line};
use serde_json::{Map, Value, json};
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
    /// Writes the requested files: the rows with their command, and the charts.
    pub(crate) fn write(&self, tables: &[&Table], charts: &[Chart]) -> Result<()> {
        self.write_rows(tables)?;
        self.svg.as_deref().map_or(Ok(()), |path| Ok(chart::write(charts, path)?))
    }

    /// Writes the rows so far, so that a killed command keeps them.
    pub(crate) fn write_rows(&self, tables: &[&Table]) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let rows: Vec<_> = tables.iter().flat_map(|table| table.rows()).collect();
        let document = json!({ "command": command().join(" "), "rows": rows });
        std::fs::write(path, serde_json::to_vec_pretty(&document)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The arguments of this program.
pub(crate) fn command() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// Lines over categories: the x values are drawn at equal distances, whatever their size.
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
        bars: false,
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
    /// Adds and prints a row. Numbers are printed with three significant digits, cosines with six; JSON has all digits.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(&str, Value); N]) {
        self.row_and(cells, []);
    }

    /// Adds a row with further cells that only JSON has.
    pub(crate) fn row_and<const N: usize, const M: usize>(
        &mut self,
        cells: [(&str, Value); N],
        unprinted: [(&str, Value); M],
    ) {
        if self.rows.is_empty() {
            let names: Vec<String> = cells.iter().map(|(name, value)| pad(name, name, value)).collect();
            println!("{}", names.join("  "));
        }
        let printed: Vec<String> = cells.iter().map(|(name, value)| pad(name, &show(name, value), value)).collect();
        println!("{}", printed.join("  "));
        self.rows.push(cells.into_iter().chain(unprinted).map(|(name, value)| (name.to_owned(), value)).collect());
    }

    pub(crate) fn rows(&self) -> &[Map<String, Value>] {
        &self.rows
    }

    /// The numbers of a column, from the rows that match another column.
    pub(crate) fn column(&self, name: &str, pick: impl Fn(&Map<String, Value>) -> bool) -> Vec<f64> {
        self.rows.iter().filter(|row| pick(row)).map(|row| row[name].as_f64().unwrap_or(f64::NAN)).collect()
    }
}

/// A printed value: a range as `1.20-1.35`, and `-` for a missing value.
fn show(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(ends) => ends.iter().map(|end| show(name, end)).collect::<Vec<_>>().join("-"),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let digits = 3_i32.saturating_sub(number.abs().log10().floor() as i32 + 1).clamp(0, 4);
            // Cosines near 1 differ in the digits after the nines.
            let digits = if name.ends_with("cosine") { 6 } else { digits };
            format!("{number:.*}", digits as usize)
        }
        other => other.to_string(),
    }
}

fn pad(name: &str, text: &str, value: &Value) -> String {
    let width = name.len().max(if name.ends_with("range") { 13 } else { 9 });
    if value.is_string() { format!("{text:<24}") } else { format!("{text:>width$}") }
}

/// Times of one contestant, ascending.
#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// Median in seconds; NaN without times.
    pub(crate) fn median(&self) -> f64 {
        let seconds = |index: usize| self.0.get(index).map_or(f64::NAN, Duration::as_secs_f64);
        let middle = self.0.len() / 2;
        match self.0.len() % 2 {
            0 => (seconds(middle.wrapping_sub(1)) + seconds(middle)) / 2.0,
            _ => seconds(middle),
        }
    }

    /// Minimum and maximum in seconds, each times `factor`.
    pub(crate) fn range(&self, factor: f64) -> Value {
        let ends = self.0.first().zip(self.0.last());
        ends.map_or(Value::Null, |(min, max)| json!([min, max].map(|end| end.as_secs_f64() * factor)))
    }
}

/// Times `N` contestants; `run` receives the contestant's number. They alternate, so that drift, such as of the clock, affects all alike.
pub(crate) fn rounds<const N: usize>(runs: usize, mut run: impl FnMut(usize) -> Result<()>) -> Result<[Times; N]> {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..runs {
        for (contestant, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            run(contestant)?;
            times.push(start.elapsed());
        }
    }
    Ok(times.map(Times::new))
}

/// The fastest of several runs: other work on the machine only adds time.
pub(crate) fn fastest(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(millis: &[u64]) -> Times {
        Times::new(millis.iter().map(|&ms| Duration::from_millis(ms)).collect())
    }

    #[test]
    fn the_middle_and_the_ends_of_times_in_any_order() {
        assert!((times(&[9, 1, 4]).median() - 0.004).abs() < 1e-12);
        assert!((times(&[9, 1, 4, 6]).median() - 0.005).abs() < 1e-12);
        assert!((times(&[3]).median() - 0.003).abs() < 1e-12);
        assert!(times(&[]).median().is_nan());
        assert_eq!(times(&[9, 1, 4]).range(1e3), json!([1.0, 9.0]));
        assert_eq!(times(&[]).range(1e3), Value::Null);
    }

    #[test]
    fn contestants_take_turns() {
        let mut order = Vec::new();
        let times: [Times; 3] = rounds(2, |contestant| {
            order.push(contestant);
            Ok(())
        })
        .unwrap();
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        assert!(times.iter().all(|times| times.0.len() == 2));
    }

    #[test]
    fn values_on_paper() {
        assert_eq!(show("off ms", &json!(12.345)), "12.3");
        assert_eq!(show("off range", &json!([1.2345, 12.345])), "1.23-12.3");
        assert_eq!(show("compact cosine", &json!(0.999_987_6)), "0.999988");
        assert_eq!(show("compact ms", &Value::Null), "-");
        assert_eq!(show("N", &json!(16_384)), "16384");
    }
}
