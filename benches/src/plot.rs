//! A small line chart as SVG.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

/// Lines over common, evenly spaced x labels.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    pub(crate) x_labels: Vec<String>,
    pub(crate) lines: Vec<(String, Vec<f64>)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
const COLOURS: [&str; 4] = ["#4269d0", "#efb118", "#3ca951", "#ff725c"];

impl Chart {
    /// Writes the picture, if a path is given.
    pub(crate) fn write(&self, path: Option<&Path>) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        std::fs::write(path, self.svg()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn svg(&self) -> String {
        let top = self.lines.iter().flat_map(|(_, values)| values).fold(0.0_f64, |top, &value| top.max(value));
        let step = tick(top);
        let top = (top / step).ceil() * step;
        let x = |i: usize| LEFT + (WIDTH - LEFT - RIGHT) * i as f64 / (self.x_labels.len().max(2) - 1) as f64;
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top;
        let mut svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' \
             font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
        );
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(svg, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{text}</text>");
        };
        text(LEFT, TOP - 18.0, "start", &self.title);
        text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", &self.x_title);
        text(8.0, TOP - 18.0, "start", &self.y_title);
        for (i, label) in self.x_labels.iter().enumerate() {
            text(x(i), HEIGHT - BOTTOM + 18.0, "middle", label);
        }
        for i in 0..=(top / step).round() as usize {
            let value = i as f64 * step;
            text(LEFT - 8.0, y(value) + 4.0, "end", &format!("{value}"));
        }
        for (i, (name, values)) in self.lines.iter().enumerate() {
            let last = values.last().copied().unwrap_or_default();
            let _ = writeln!(
                svg,
                "<text x='{:.1}' y='{:.1}'>{name}</text>",
                x(values.len().saturating_sub(1)) + 8.0,
                y(last) + 4.0
            );
            let points: Vec<String> =
                values.iter().enumerate().map(|(i, &value)| format!("{:.1},{:.1}", x(i), y(value))).collect();
            let colour = COLOURS[i % COLOURS.len()];
            let points = points.join(" ");
            let _ = writeln!(svg, "<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>");
        }
        for i in 0..=(top / step).round() as usize {
            let y = y(i as f64 * step);
            let _ = writeln!(svg, "<path d='M{LEFT} {y:.1}H{:.1}' stroke='#ddd' stroke-width='0.5'/>", WIDTH - RIGHT);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A round number of which four to ten fit below `top`.
fn tick(top: f64) -> f64 {
    let power = 10f64.powf(top.max(1e-9).log10().floor());
    [0.1, 0.2, 0.5, 1.0].into_iter().map(|part| part * power).find(|step| top / step <= 8.0).unwrap_or(power)
}
