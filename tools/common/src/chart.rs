//! SVG charts of lines or bars for all measuring tools of the project.

use crate::text_width::{shorten, width};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Area of the lines.
const PLOT_WIDTH: f64 = 480.0;
const PLOT_HEIGHT: f64 = 260.0;
/// Minimum space left of the lines for labels of the y axis, and right of them for the legend.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 210.0;
/// Maximum width of a name in the legend.
const MOST_NAME: f64 = 420.0;
/// Space between the lines and a name in the legend.
const BEFORE_NAME: f64 = 46.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 18.0;
/// Empty space at the edges.
const MARGIN: f64 = 8.0;
const FONT_SIZE: f64 = 12.0;
/// Width of bold letters relative to others.
const BOLD: f64 = 1.15;
/// Maximum labels of a logarithmic axis; with more, only powers of ten are labelled.
const MOST_LOG_TICKS: usize = 12;
/// Maximum points of a line that are drawn as circles.
const MOST_CIRCLES: usize = 50;
/// Width of the bars around a label, as a fraction of the distance between labels.
const BARS_WIDTH: f64 = 0.7;
const COLOURS: [&str; 10] =
    ["#4269d0", "#d97706", "#3ca951", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#57534e", "#facc15", "#a3e635"];

/// Lines, or groups of bars, with a common x axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// Label of the x axis.
    pub x_title: String,
    /// Label of the y axis.
    pub y_title: String,
    /// Labels of the x axis with their positions. Round numbers if empty.
    pub x_labels: Vec<(f64, String)>,
    /// Logarithmic x axis, which omits values that are not positive.
    pub log_x: bool,
    /// Logarithmic y axis, which omits values that are not positive.
    pub log_y: bool,
    /// Bars from 0 instead of lines, for values at `x_labels` that have nothing in between.
    pub bars: bool,
    /// Lines of the chart, or bars of the same colour.
    pub lines: Vec<Line>,
}

/// Line of a [`Chart`].
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points (x, y) in drawing order. Non-finite points are omitted.
    pub points: Vec<(f64, f64)>,
    /// Colour number; lines with equal numbers have the same colour.
    pub colour: usize,
    /// Dashed instead of solid.
    pub dashed: bool,
}

/// Writes charts, one below the other, to a file.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(charts: &[Chart], path: &Path) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, svg(charts)).map_err(named)
}

/// SVG of charts, one below the other.
pub fn svg(charts: &[Chart]) -> String {
    let space = |space: fn(&Chart) -> f64, least: f64| charts.iter().map(space).fold(least, f64::max);
    let left = space(Chart::width_of_y_labels, LEFT);
    let frame = Frame { left, width: left + PLOT_WIDTH + space(Chart::width_of_legend, RIGHT) };
    let height: f64 = charts.iter().map(Chart::height).sum();
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {:.0} {height}' font-family='sans-serif' \
         font-size='{FONT_SIZE}'>\n<rect width='100%' height='100%' fill='white'/>\n",
        frame.width.ceil()
    );
    let mut top = 0.0;
    for chart in charts {
        let _ = writeln!(svg, "<g transform='translate(0 {top})'>");
        chart.draw(&frame, &mut svg);
        svg.push_str("</g>\n");
        top += chart.height();
    }
    svg.push_str("</svg>\n");
    svg
}

/// Place of the lines in the picture, common to all charts.
struct Frame {
    /// Left end of the x axis.
    left: f64,
    /// Width of the picture.
    width: f64,
}

/// Axis with its ends and label positions.
#[derive(Debug, Clone, PartialEq)]
struct Axis {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// Linear axis from 0 to a round number at or above `high`, for whole numbers with whole labels.
    fn linear(high: f64, whole: bool) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let power = 10f64.powf(high.log10().floor());
        let step = [0.1, 0.2, 0.5, 1.0, 2.0].map(|part| part * power).into_iter().find(|step| high / step <= 8.0);
        let step = if whole { step.unwrap_or(power).max(1.0) } else { step.unwrap_or(power) };
        let count = (high / step).ceil();
        Self {
            low: 0.0,
            high: count * step,
            log: false,
            ticks: (0..=count as u32).map(|i| f64::from(i) * step).collect(),
        }
    }

    /// Logarithmic axis around positive values, with labels at 1, 2 and 5 of each power of ten.
    fn logarithmic(low: f64, high: f64) -> Self {
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let steps = (low.log10().floor() as i32..=high.log10().ceil() as i32)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|part| part * 10f64.powi(power)));
        let steps: Vec<f64> = steps.collect();
        let low = steps.iter().copied().rfind(|step| *step <= low).unwrap_or(low);
        let high = steps.iter().copied().find(|step| *step >= high && *step > low).unwrap_or(high);
        let mut ticks: Vec<f64> = steps.into_iter().filter(|step| (low..=high).contains(step)).collect();
        if ticks.len() > MOST_LOG_TICKS {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9);
        }
        Self { low, high, log: true, ticks }
    }

    /// Relative position: 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.log10() } else { value };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }
}

impl Chart {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.lines.iter().flat_map(|line| &line.points).copied().filter(|point| self.has_place(point))
    }

    fn has_place(&self, &(x, y): &(f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && (x > 0.0 || !self.log_x) && (y > 0.0 || !self.log_y)
    }

    fn axes(&self) -> (Axis, Axis) {
        let axis = |log: bool, value: fn((f64, f64)) -> f64| {
            let low = self.points().map(value).fold(f64::INFINITY, f64::min);
            let high = self.points().map(value).fold(0.0_f64, f64::max);
            let whole = self.points().map(value).all(|value| value.fract() == 0.0);
            if log { Axis::logarithmic(low, high) } else { Axis::linear(high, whole) }
        };
        let (mut x, y) = (axis(self.log_x, |point| point.0), axis(self.log_y, |point| point.1));
        if let (Some(first), Some(last)) = (self.x_labels.first(), self.x_labels.last()) {
            // Bars stand around their labels.
            let (low, high) =
                if self.bars { (first.0 - 0.5, last.0 + 0.5) } else { (first.0, last.0.max(first.0 + 1.0)) };
            x = Axis { low, high, log: false, ticks: Vec::new() };
        }
        (x, y)
    }

    fn height(&self) -> f64 {
        let legend = TOP + LEGEND_LINE * self.lines.len() as f64;
        legend.max(TOP + PLOT_HEIGHT + BOTTOM)
    }

    fn width_of_y_labels(&self) -> f64 {
        let widths = self.axes().1.ticks.into_iter().map(|tick| FONT_SIZE * width(&number(tick)));
        widths.fold(0.0, f64::max) + 2.0 * MARGIN
    }

    fn width_of_legend(&self) -> f64 {
        let widths = self.lines.iter().map(|line| (FONT_SIZE * width(&line.name)).min(MOST_NAME));
        BEFORE_NAME + widths.fold(0.0, f64::max) + MARGIN
    }

    fn draw(&self, frame: &Frame, svg: &mut String) {
        let (x_axis, y_axis) = self.axes();
        let (left, right, bottom) = (frame.left, frame.left + PLOT_WIDTH, TOP + PLOT_HEIGHT);
        let x = |value: f64| left + PLOT_WIDTH * x_axis.place(value);
        let y = |value: f64| bottom - PLOT_HEIGHT * y_axis.place(value);
        let bold = "start' font-weight='bold";
        text(svg, (left, 18.0), bold, &self.title, (frame.width - left - MARGIN) / BOLD);
        let x_title = axis_title(&self.x_title, x_axis.log);
        text(svg, (left + PLOT_WIDTH / 2.0, bottom + 38.0), "middle", &x_title, PLOT_WIDTH);
        text(svg, (MARGIN, TOP - 14.0), "start", &axis_title(&self.y_title, y_axis.log), frame.width - 2.0 * MARGIN);
        for &tick in &y_axis.ticks {
            let _ = writeln!(svg, "<path d='M{left:.1} {:.1}H{right:.1}' stroke='#ddd'/>", y(tick));
            text(svg, (left - MARGIN, y(tick) + 4.0), "end", &number(tick), f64::INFINITY);
        }
        let numbers = x_axis.ticks.iter().map(|&tick| (tick, number(tick)));
        for (tick, label) in self.x_labels.iter().cloned().chain(numbers) {
            text(svg, (x(tick), bottom + 18.0), "middle", &label, 2.0 * (LEFT - MARGIN));
        }
        let place = Place { x: &x, y: &y };
        for (i, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[line.colour % COLOURS.len()];
            let (sample, top) = (right + 16.0, TOP + LEGEND_LINE * i as f64);
            if self.bars {
                self.draw_bars(i, colour, &place, svg);
                rectangle(svg, (sample, top - 5.0), (24.0, 10.0), colour);
            } else {
                let dashes = if line.dashed { " stroke-dasharray='6 4'" } else { "" };
                let stroke = format!("fill='none' stroke='{colour}' stroke-width='2'{dashes}");
                self.draw_line(line, colour, &stroke, &place, svg);
                let _ = writeln!(svg, "<path d='M{sample:.1} {top}h24' {stroke}/>");
            }
            text(svg, (right + BEFORE_NAME, top + 4.0), "start", &line.name, MOST_NAME);
        }
    }

    fn draw_line(&self, line: &Line, colour: &str, stroke: &str, place: &Place<'_>, svg: &mut String) {
        let points: Vec<_> = line.points.iter().filter(|point| self.has_place(point)).collect();
        let at = |point: &(f64, f64)| ((place.x)(point.0), (place.y)(point.1));
        let path: Vec<String> = points.iter().map(|point| at(point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline points='{}' {stroke}/>", path.join(" "));
        // Points this close look like a thicker line.
        for (x, y) in points.iter().filter(|_| points.len() <= MOST_CIRCLES).map(|point| at(point)) {
            let _ = writeln!(svg, "<circle cx='{x:.1}' cy='{y:.1}' r='3' fill='{colour}'/>");
        }
    }

    /// The bars of a line, each with its value above it. Those of all lines are side by side around their label.
    fn draw_bars(&self, number: usize, colour: &str, place: &Place<'_>, svg: &mut String) {
        let width = BARS_WIDTH / self.lines.len() as f64;
        for &(x, y) in self.lines[number].points.iter().filter(|point| self.has_place(point)) {
            let begin = x - BARS_WIDTH / 2.0 + width * number as f64;
            let (left, right) = ((place.x)(begin), (place.x)(begin + width));
            let (top, bottom) = ((place.y)(y), (place.y)(0.0));
            rectangle(svg, (left + 1.0, top), (right - left - 2.0, bottom - top), colour);
            text(svg, ((left + right) / 2.0, top - 3.0), "middle", &three_digits(y), f64::INFINITY);
        }
    }
}

/// Where a chart draws a value on each axis.
struct Place<'a> {
    x: &'a dyn Fn(f64) -> f64,
    y: &'a dyn Fn(f64) -> f64,
}

fn rectangle(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
    let _ = writeln!(svg, "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' fill='{colour}'/>");
}

fn axis_title(title: &str, log: bool) -> String {
    match (log, title) {
        (false, title) => title.to_owned(),
        (true, "") => "log scale".to_owned(),
        (true, title) => format!("{title} (log scale)"),
    }
}

/// Draws a text, shortened to a width. The full text of a shortened one is its tooltip.
fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str, most: f64) {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let shown = shorten(text, most / FONT_SIZE);
    let whole = if shown == text { String::new() } else { format!("<title>{}</title>", escape(text)) };
    let _ = writeln!(svg, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{}{whole}</text>", escape(&shown));
}

/// Formats a number without the rounding errors of binary fractions.
fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let scale = 10f64.powf(6.0 - digits);
    format!("{}", (value * scale).round() / scale)
}

/// A number with three significant digits, whole from 100.
fn three_digits(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (2.0 - digits).max(0.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
