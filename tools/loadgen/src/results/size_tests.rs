use super::*;

#[test]
fn servers_and_cores_follow_from_the_carried_rate() {
    for (rate, carried, needed) in [(500.0, 180.0, 3), (540.0, 180.0, 3), (541.0, 180.0, 4), (0.3, 180.0, 1)] {
        assert_eq!(servers(rate, carried), needed, "{rate} {carried}");
    }
    for (used, whole) in [(0.3, 1), (1.04, 1), (1.2, 2), (1.95, 2), (7.6, 8)] {
        assert_eq!(whole_cores(used), whole, "{used}");
    }
}

fn size() -> Size {
    Size {
        rate: 500.0,
        p99_ms: 50.0,
        saturating: 16,
        saturated_requests_per_s: 231.2,
        carried_requests_per_s: Some(180.0),
        carried_p99_ms: Some(47.1),
        busy: Some(0.75),
        cores_per_server: Some(1.92),
        servers: Some(3),
        cores: Some(6),
    }
}

#[test]
fn the_result_in_words() {
    let text = size().lines(Some(10)).join("\n");
    for words in [
        "500 requests/s (up to 10 texts each) with a p99 of at most 50 ms:",
        "the server answers up to   231.2 requests/s (in a closed loop with 16 requests in flight, on 1.9 cores)",
        "it keeps the p99 up to     180 requests/s (47.1 ms, computing 75% of the time)",
        "needed                     3 servers like this one, 6 cores in all, each at 93% of that rate; 4 servers if one may fail",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    // Servers without metrics have neither cores nor use.
    let plain = Size { busy: None, cores_per_server: None, cores: None, servers: Some(1), ..size() };
    let text = plain.lines(None).join("\n");
    for words in [
        "50 ms:\n",
        "requests/s (47.1 ms)",
        "1 server like this one, each",
        "(in a closed loop with 16 requests in flight)",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn a_latency_that_no_rate_keeps_is_said() {
    let size = Size { carried_requests_per_s: None, carried_p99_ms: None, servers: None, cores: None, ..size() };
    let text = size.lines(Some(1)).join("\n");
    assert!(
        text.contains("no rate that was tried") && text.contains("More servers of this kind do not help"),
        "{text}"
    );
}
