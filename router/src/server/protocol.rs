//! Rules of HTTP/1.1 that are left to the server.

use crate::error::ApiError;
use crate::routes::table;
use crate::telemetry::metrics::{REQUESTS, UNMATCHED};
use axum::http::{HeaderMap, Request, Version, header};
use axum::response::Response;
use metrics::counter;
use prefold_core::shown;

/// The answer to a request without a host or with two (RFC 9112, section 3.2), or with a transfer coding other than `chunked`.
pub(super) fn refuse<B>(request: &Request<B>) -> Option<Response> {
    let error = violation(request.version(), request.headers())?;
    let response = error.render(table::dialect_of(request.uri().path()));
    // No layer sees it.
    counter!(REQUESTS, "route" => UNMATCHED, "status" => response.status().as_str().to_owned()).increment(1);
    Some(response)
}

fn violation(version: Version, headers: &HeaderMap) -> Option<ApiError> {
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && version == Version::HTTP_11) {
        return Some(ApiError::Host(hosts));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let other = codings.find(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))?;
    let coding = shown(&String::from_utf8_lossy(other.as_bytes()));
    Some(ApiError::Encoded { header: "Transfer-Encoding", coding, supported: "chunked" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    #[test]
    fn one_host_and_no_coding_but_chunked() {
        let of = |fields: &[(HeaderName, &'static str)], version| {
            let fields = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(name, value);
            }
            violation(version, &headers).map(|error| error.to_string())
        };
        let host = (header::HOST, "a");
        assert_eq!(of(std::slice::from_ref(&host), Version::HTTP_11), None);
        assert_eq!(of(&[], Version::HTTP_10), None);
        assert!(of(&[], Version::HTTP_11).unwrap().contains("0 `Host`"));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(of(&[host.clone(), host.clone()], version).unwrap().contains("2 `Host`"));
        }
        for (coding, good) in [("chunked", true), ("Chunked ", true), ("gzip, chunked", false), ("gzip", false)] {
            let refused = of(&[host.clone(), (header::TRANSFER_ENCODING, coding)], Version::HTTP_11);
            assert_eq!(refused.is_none(), good, "{coding}: {refused:?}");
            assert!(refused.is_none_or(|error| error.contains("`Transfer-Encoding: gzip")));
        }
    }
}
