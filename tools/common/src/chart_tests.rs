use super::*;

fn chart(points: Vec<(f64, f64)>, log_y: bool) -> Chart {
    let line = Line { name: "a < b & c".to_owned(), points, colour: 0, dashed: true };
    let text = String::new;
    let log_x = false;
    let (x_labels, bars) = (Vec::new(), false);
    Chart { title: text(), x_title: text(), y_title: text(), x_labels, log_x, log_y, bars, lines: vec![line] }
}

#[test]
fn axes_end_at_round_numbers_and_hold_every_value() {
    for high in [1e-6, 0.3, 0.7, 1.0, 7.9, 8.1, 55.0, 99.0, 100.0, 101.0, 123_456.0] {
        let axis = Axis::linear(high, false);
        assert!(axis.high >= high * (1.0 - 1e-9) && axis.high <= high * 1.5, "{high}: {axis:?}");
        assert!((4..=10).contains(&axis.ticks.len()), "{high}: {axis:?}");
        assert!(axis.ticks.iter().all(|tick| number(*tick).len() <= 9), "{high}: {axis:?}");
        let axis = Axis::logarithmic(high, high * 30.0);
        assert!(axis.low <= high && axis.high >= high * 30.0 * (1.0 - 1e-9), "{high}: {axis:?}");
        assert!(axis.place(axis.low) == 0.0 && axis.place(axis.high) == 1.0);
    }
    assert_eq!(Axis::linear(0.0, false).high, 1.0);
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
    let logarithmic = Chart { log_x: true, ..chart(vec![(0.0, 1.0), (1.0, 1.0), (10.0, 2.0), (100.0, 3.0)], false) };
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

#[test]
fn whole_numbers_have_whole_labels() {
    for high in [1.0, 2.0, 3.0, 8.0, 32.0, 1000.0] {
        let axis = Axis::linear(high, true);
        assert!(axis.high >= high && axis.ticks.iter().all(|tick| tick.fract() == 0.0), "{high}: {axis:?}");
    }
    let clients = chart(vec![(1.0, 0.5), (2.0, 0.7)], false);
    assert_eq!(clients.axes().0.ticks, [0.0, 1.0, 2.0]);
    assert!(clients.axes().1.ticks.contains(&0.1));
}

#[test]
fn logarithmic_axes_are_named_and_have_room_for_their_labels() {
    let titles = |log_x, log_y| {
        let (x_title, y_title) = ("latency, ms".to_owned(), String::new());
        svg(&[Chart { log_x, x_title, y_title, ..chart(vec![(1.0, 1.0), (1e6, 5.0)], log_y) }])
    };
    let marked =
        |svg: &str| [">latency, ms (log scale)<", ">latency, ms<", ">log scale<"].map(|title| svg.contains(title));
    assert_eq!(marked(&titles(true, false)), [true, false, false]);
    assert_eq!(marked(&titles(false, true)), [false, true, true]);
    assert_eq!(Axis::logarithmic(1.0, 1e6).ticks, [0, 1, 2, 3, 4, 5, 6].map(|power| 10f64.powi(power)));
    assert_eq!(Axis::logarithmic(1.0, 100.0).ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
}

#[test]
fn bars_stand_side_by_side_around_their_labels_from_zero() {
    let series = |points, colour| Line { name: "a".to_owned(), points, colour, dashed: false };
    let x_labels = vec![(0.0, "float32".to_owned()), (1.0, "int8".to_owned())];
    let lines = vec![series(vec![(0.0, 400.0), (1.0, 100.0)], 0), series(vec![(0.0, 200.0), (1.0, f64::NAN)], 1)];
    let svg = svg(&[Chart { bars: true, x_labels, lines, ..chart(Vec::new(), false) }]);
    assert!(!svg.contains("<polyline") && !svg.contains("<circle") && !svg.contains("NaN"), "{svg}");
    let number = |element: &str, name: &str| attribute(element, name).parse::<f64>().unwrap();
    let bars: Vec<[f64; 4]> = svg
        .lines()
        .filter(|line| line.starts_with("<rect x=") && !line.contains("height='10.0'"))
        .map(|line| [" x", " y", "width", "height"].map(|name| number(line, name)))
        .collect();
    let [first, later, beside] = bars[..] else { panic!("{bars:?}") };
    // All end at the axis, and heights are as the values.
    assert!(bars.iter().all(|bar| (bar[1] + bar[3] - TOP - PLOT_HEIGHT).abs() < 0.2), "{bars:?}");
    assert!((first[3] / later[3] - 4.0).abs() < 0.01 && (first[3] / beside[3] - 2.0).abs() < 0.01, "{bars:?}");
    assert!(first[0] + first[2] <= beside[0] && beside[0] + beside[2] < later[0], "{bars:?}");
    for (value, shown) in [(0.0, "0.00"), (1.234, "1.23"), (56.78, "56.8"), (999.6, "1000"), (12345.6, "12346")] {
        assert_eq!(three_digits(value), shown);
    }
}

/// Value of an attribute of an element.
fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    element.split_once(&format!("{name}='")).unwrap().1.split('\'').next().unwrap()
}

#[test]
fn every_text_lies_inside_the_picture() {
    let line = |name: &str, colour| Line {
        name: name.to_owned(),
        points: vec![(1.0, 0.000_001_2), (32.0, 0.000_008_7)],
        colour,
        dashed: false,
    };
    let url = "http://a-rather-long-name.of-a-server.example.com:3000/v1/embeddings";
    let many = (0..40).map(|i| line(&format!("{url}, p{i}"), i)).collect();
    let one = |name: &str, title: &str| Chart {
        title: title.to_owned(),
        x_title: "requests in flight".to_owned(),
        y_title: url.to_owned(),
        lines: vec![line(name, 0)],
        ..chart(Vec::new(), false)
    };
    for charts in [
        vec![one("short", "title"), one("http://127.0.0.1:3000/v1/embeddings, p99", &url.repeat(3))],
        vec![one(&"W".repeat(500), ""), Chart { lines: many, log_y: true, ..one("", "") }],
    ] {
        let svg = svg(&charts);
        let size: Vec<f64> = attribute(&svg, "viewBox").split(' ').map(|value| value.parse().unwrap()).collect();
        let mut top = 0.0;
        for element in svg.lines() {
            if element.starts_with("<g ") {
                top = element.split("translate(0 ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
            }
            let Some(shown) = element.strip_prefix("<text ") else { continue };
            let number = |name| attribute(element, name).parse::<f64>().unwrap();
            let text = shown.split_once('>').unwrap().1.split('<').next().unwrap();
            let bold = if element.contains("bold") { BOLD } else { 1.0 };
            let (x, y, width) = (number(" x"), top + number(" y"), FONT_SIZE * bold * width(text));
            let begin = match attribute(element, "text-anchor") {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            assert!(begin >= 0.0 && begin + width <= size[2], "{begin} + {width} of {}: {element}", size[2]);
            assert!(y >= FONT_SIZE && y <= size[3] - 3.0, "{y} of {}: {element}", size[3]);
        }
    }
}
