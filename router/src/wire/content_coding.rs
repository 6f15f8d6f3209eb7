//! Content codings of request bodies (RFC 9110, section 8.4): gzip, and zstd (RFC 8878).

use crate::error::ApiError;
use async_compression::futures::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use axum::http::{HeaderMap, header};
use futures::{AsyncBufRead, AsyncRead};
use prefold_core::shown;
use std::io;

/// Maximum window of zstd, as a power of two: 8 MiB, which every client of HTTP keeps to (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;

/// Coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Gzip,
    Zstd,
}

impl ContentCoding {
    /// The coding that the headers name; `None` for a body that is not encoded.
    ///
    /// # Errors
    /// [`ApiError::Encoded`]: another coding, or several.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let values = headers.get_all(header::CONTENT_ENCODING).iter();
        let names: Vec<&[u8]> = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b',')).collect();
        let mut names = names.into_iter().map(<[u8]>::trim_ascii);
        let mut names = names.by_ref().filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
        let Some(name) = names.next() else { return Ok(None) };
        let known = [(&b"gzip"[..], Self::Gzip), (b"x-gzip", Self::Gzip), (b"zstd", Self::Zstd)];
        let coding = known.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|&(_, coding)| coding);
        match (coding, names.next()) {
            (Some(coding), None) => Ok(Some(coding)),
            (_, second) => {
                let coding = [Some(name), second].into_iter().flatten().map(String::from_utf8_lossy);
                let coding = shown(&coding.collect::<Vec<_>>().join(", "));
                Err(ApiError::Encoded { header: "Content-Encoding", coding, supported: "gzip and zstd" })
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Bytes of a decoder's state, without the window.
    pub(super) const fn state_bytes(self) -> usize {
        match self {
            Self::Gzip => 1 << 16,
            Self::Zstd => 1 << 18,
        }
    }

    /// Maximum bytes of what a decoder keeps of its output.
    pub(super) const fn window_bytes(self) -> usize {
        match self {
            Self::Gzip => 1 << 15,
            Self::Zstd => 1 << ZSTD_WINDOW_LOG,
        }
    }

    /// The problem with encoded bytes, from the decoder's error.
    pub(super) fn problem(self, error: &io::Error) -> String {
        let problem = error.to_string();
        let name = self.name();
        if self == Self::Zstd && problem.contains("requires too much memory") {
            let mebibytes = self.window_bytes() >> 20;
            return format!("{name}: the frame needs a window of more than {mebibytes} MiB, which is the limit");
        }
        format!("{name}: {problem}")
    }

    /// The decoded bytes of `encoded`, which may have several members or frames.
    pub(super) fn decoder<'a>(
        self,
        encoded: impl AsyncBufRead + Send + Unpin + 'a,
    ) -> Box<dyn AsyncRead + Send + Unpin + 'a> {
        match self {
            Self::Gzip => {
                let mut decoder = GzipDecoder::new(encoded);
                decoder.multiple_members(true);
                Box::new(decoder)
            }
            Self::Zstd => {
                let limits = [DParameter::window_log_max(ZSTD_WINDOW_LOG)];
                let mut decoder = ZstdDecoder::with_params(encoded, &limits);
                decoder.multiple_members(true);
                Box::new(decoder)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn one_known_coding_or_none() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            ContentCoding::of(&headers).map_err(|error| error.to_string())
        };
        for values in [&[][..], &["identity"], &["Identity, identity", ""]] {
            assert_eq!(of(values), Ok(None), "{values:?}");
        }
        for values in [&["gzip"][..], &["x-gzip"], &["GZIP"], &["identity", " gzip ,"]] {
            assert_eq!(of(values), Ok(Some(ContentCoding::Gzip)), "{values:?}");
        }
        assert_eq!(of(&["zstd"]), Ok(Some(ContentCoding::Zstd)));
        for (values, named) in [
            (&["br"][..], "`Content-Encoding: br`"),
            (&["gzip, zstd"], "gzip, zstd"),
            (&["gzip", "gzip"], "gzip, gzip"),
        ] {
            let refused = of(values).unwrap_err();
            assert!(refused.contains(named) && refused.ends_with("supported: gzip and zstd"), "{refused}");
        }
    }
}
