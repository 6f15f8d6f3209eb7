//! Waits that a server asks for before the next attempt.

use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// The wait that a refusal asks for: `Retry-After`, in seconds or as a date, with the statuses 429 and 503; else, with 429, the
/// `RateLimit` header as the hub sends it: `"api";r=0;t=55`.
pub(super) fn asked(status: u16, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER.as_str()).and_then(|value| retry_after(value, now));
    match status {
        429 => after.or_else(|| rate_limit(text("ratelimit")?)),
        503 => after,
        _ => None,
    }
}

fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Time until an exhausted limit is reset.
fn rate_limit(value: &str) -> Option<Duration> {
    let field = |name: &str| {
        value
            .split(';')
            .find_map(|field| field.trim().strip_prefix(name)?.trim().strip_prefix('=')?.trim().parse().ok())
    };
    (field("r")? == 0_u64).then(|| field("t").map(Duration::from_secs)).flatten()
}

#[cfg(test)]
mod tests {
    use super::asked;
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
    use std::time::{Duration, SystemTime};

    #[test]
    fn waits_are_read_from_seconds_dates_and_rate_limits() {
        // 2026-11-27 04:00:00 GMT.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_752_000);
        let wait = |status, name: &'static str, value: &'static str| {
            let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
            asked(status, &HeaderMap::from_iter([header]), now).map(|wait| wait.as_secs())
        };
        for (value, seconds) in [
            ("7", Some(7)),
            ("0", Some(0)),
            (" 7 ", Some(7)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Fri, 27 Nov 2026 04:01:30 GMT", Some(90)),
            ("Friday, 27-Nov-26 04:01:30 GMT", Some(90)),
            ("Fri, 27 Nov 2026 03:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("soon", None),
        ] {
            for status in [429, 503] {
                assert_eq!(wait(status, "retry-after", value), seconds, "{status} {value}");
            }
            for status in [500, 502, 404, 200] {
                assert_eq!(wait(status, "retry-after", value), None, "{status} {value}");
            }
        }
        for (value, seconds) in
            [("\"api\";r=0;t=55", Some(55)), ("\"api\"; r = 0; t = 5", Some(5)), ("\"api\";r=3;t=55", None)]
        {
            assert_eq!(wait(429, "ratelimit", value), seconds, "{value}");
            assert_eq!(wait(503, "ratelimit", value), None, "{value}");
        }
    }
}
