//! SVG line charts for all measuring tools of the project.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
/// Points of a line up to which each has a circle.
const MOST_CIRCLES: usize = 50;
const COLOURS: [&str; 10] =
    ["#4269d0", "#d97706", "#3ca951", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#57534e", "#facc15", "#a3e635"];

/// Lines with a common x axis.
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
    /// Lines of the chart.
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
pub fn write(charts: &[Chart], path: &Path) -> Result<()> {
    std::fs::write(path, svg(charts)).with_context(|| format!("cannot write {}", path.display()))
}

/// SVG of charts, one below the other.
pub fn svg(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' \
         font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
    );
    for (i, chart) in charts.iter().enumerate() {
        let _ = writeln!(svg, "<g transform='translate(0 {})'>", HEIGHT * i as f64);
        chart.draw(&mut svg);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
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
    /// Linear axis from 0 to a round number at or above `high`.
    fn linear(high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let power = 10f64.powf(high.log10().floor());
        let step = [0.1, 0.2, 0.5, 1.0, 2.0].map(|part| part * power).into_iter().find(|step| high / step <= 8.0);
        let step = step.unwrap_or(power);
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
        Self { low, high, log: true, ticks: steps.into_iter().filter(|step| (low..=high).contains(step)).collect() }
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
            if log { Axis::logarithmic(low, high) } else { Axis::linear(high) }
        };
        let (mut x, y) = (axis(self.log_x, |point| point.0), axis(self.log_y, |point| point.1));
        if let (Some(first), Some(last)) = (self.x_labels.first(), self.x_labels.last()) {
            x = Axis { low: first.0, high: last.0.max(first.0 + 1.0), log: false, ticks: Vec::new() };
        }
        (x, y)
    }

    fn draw(&self, svg: &mut String) {
        let (x_axis, y_axis) = self.axes();
        let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * x_axis.place(value);
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y_axis.place(value);
        text(svg, (LEFT, 18.0), "start' font-weight='bold", &self.title);
        text(svg, ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0), "middle", &self.x_title);
        text(svg, (8.0, TOP - 14.0), "start", &self.y_title);
        for &tick in &y_axis.ticks {
            let _ = writeln!(svg, "<path d='M{LEFT} {:.1}H{:.1}' stroke='#ddd'/>", y(tick), WIDTH - RIGHT);
            text(svg, (LEFT - 8.0, y(tick) + 4.0), "end", &number(tick));
        }
        let numbers = x_axis.ticks.iter().map(|&tick| (tick, number(tick)));
        for (tick, label) in self.x_labels.iter().cloned().chain(numbers) {
            text(svg, (x(tick), HEIGHT - BOTTOM + 18.0), "middle", &label);
        }
        for (i, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[line.colour % COLOURS.len()];
            let dashes = if line.dashed { " stroke-dasharray='6 4'" } else { "" };
            let points: Vec<_> = line.points.iter().filter(|point| self.has_place(point)).collect();
            let path: Vec<String> = points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
            let stroke = format!("fill='none' stroke='{colour}' stroke-width='2'{dashes}");
            let _ = writeln!(svg, "<polyline points='{}' {stroke}/>", path.join(" "));
            // Points this close look like a thicker line.
            for point in points.iter().filter(|_| points.len() <= MOST_CIRCLES) {
                let _ = writeln!(svg, "<circle cx='{:.1}' cy='{:.1}' r='3' fill='{colour}'/>", x(point.0), y(point.1));
            }
            let (left, top) = (WIDTH - RIGHT + 16.0, TOP + 18.0 * i as f64);
            let _ = writeln!(svg, "<path d='M{left} {top}h24' {stroke}/>");
            text(svg, (left + 30.0, top + 4.0), "start", &line.name);
        }
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{text}</text>");
}

/// Formats a number without the rounding errors of binary fractions.
fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let scale = 10f64.powf(6.0 - digits);
    format!("{}", (value * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, log_y: bool) -> Chart {
        let line = Line { name: "a < b & c".to_owned(), points, colour: 0, dashed: true };
        let text = String::new;
        let log_x = false;
        Chart { title: text(), x_title: text(), y_title: text(), x_labels: Vec::new(), log_x, log_y, lines: vec![line] }
    }

    #[test]
    fn axes_end_at_round_numbers_and_hold_every_value() {
        for high in [1e-6, 0.3, 0.7, 1.0, 7.9, 8.1, 55.0, 99.0, 100.0, 101.0, 123_456.0] {
            let axis = Axis::linear(high);
            assert!(axis.high >= high * (1.0 - 1e-9) && axis.high <= high * 1.5, "{high}: {axis:?}");
            assert!((4..=10).contains(&axis.ticks.len()), "{high}: {axis:?}");
            assert!(axis.ticks.iter().all(|tick| number(*tick).len() <= 9), "{high}: {axis:?}");
            let axis = Axis::logarithmic(high, high * 30.0);
            assert!(axis.low <= high && axis.high >= high * 30.0 * (1.0 - 1e-9), "{high}: {axis:?}");
            assert!(axis.place(axis.low) == 0.0 && axis.place(axis.high) == 1.0);
        }
        assert_eq!(Axis::linear(0.0).high, 1.0);
        assert_eq!(number(0.1 + 0.2), "0.3");
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let points = vec![(1.0, 10.0), (2.0, f64::NAN), (3.0, 0.0), (4.0, 20.0)];
        for (log_y, circles) in [(false, 3), (true, 2)] {
            let svg = svg(&[chart(points.clone(), log_y)]);
            assert_eq!(svg.matches("<circle").count(), circles, "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("a &lt; b &amp; c"), "{svg}");
        }
        for log_y in [false, true] {
            let svg = svg(&[chart(Vec::new(), log_y)]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_logarithmic_x_axis_puts_factors_at_equal_distances() {
        let logarithmic =
            Chart { log_x: true, ..chart(vec![(0.0, 1.0), (1.0, 1.0), (10.0, 2.0), (100.0, 3.0)], false) };
        let svg = svg(&[logarithmic]);
        let points = svg.split("<polyline points='").nth(1).unwrap().split('\'').next().unwrap();
        let x: Vec<f64> = points.split(' ').map(|point| point.split(',').next().unwrap().parse().unwrap()).collect();
        assert!(x.len() == 3 && (x[2] - x[1] - (x[1] - x[0])).abs() < 0.2 && x[1] > x[0], "{x:?}");
    }

    #[test]
    fn a_line_of_many_points_has_no_circles() {
        let svg = svg(&[chart((0..200).map(|i| (f64::from(i), 1.0)).collect(), false)]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (0, 1));
    }

    #[test]
    fn greater_values_stand_higher_and_further_right() {
        for log_y in [false, true] {
            let svg = svg(&[chart(vec![(1.0, 10.0), (2.0, 30.0)], log_y)]);
            let points = svg.split("<polyline points='").nth(1).unwrap().split('\'').next().unwrap();
            let points: Vec<f64> = points.split([' ', ',']).map(|value| value.parse().unwrap()).collect();
            assert!(points[0] < points[2] && points[1] > points[3], "{points:?}");
        }
    }
}
