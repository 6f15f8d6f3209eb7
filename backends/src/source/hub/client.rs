//! Requests to the hub: redirects, repetitions and the limits of answers. Hugging Face's client library has no limit on what it reads,
//! and does not keep the token from hosts that a redirect leads to.

use super::failure::Failure;
use super::place::{MAX_REDIRECTS, Place};
use crate::options::HubModel;
use prefold_core::shown;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, Response, Url};
use serde_json::Value;
use std::time::Duration;

/// Attempts of one request.
const MAX_ATTEMPTS: u32 = 6;
/// Time before the second attempt; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Bytes that are read of an answer that refuses something; a message needs some hundred.
const MAX_REFUSAL_BYTES: u64 = 64 << 10;
/// Bytes of an answer's headers in HTTP/2; HTTP/1 has limits of its own, of 100 headers and 400 KiB.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// Access to the hub.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Url,
    authorization: Option<HeaderValue>,
}

/// A body that comes in pieces.
pub(super) trait Body {
    /// The next piece; `None` at the end.
    async fn piece(&mut self) -> Result<Option<impl AsRef<[u8]>>, Failure>;
}

impl Body for Response {
    async fn piece(&mut self) -> Result<Option<impl AsRef<[u8]>>, Failure> {
        self.chunk().await.map_err(|error| Failure::request(&error))
    }
}

impl Client {
    /// # Errors
    /// The endpoint is no address, or the token or user agent cannot be sent.
    pub(super) fn new(model: &HubModel, endpoint: &str, token: Option<&str>) -> Result<Self, String> {
        let url = Url::parse(endpoint).map_err(|error| format!("{endpoint} is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{endpoint} is no address of HTTP"));
        }
        let authorization = |token: &str| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| "the token has characters that cannot be sent".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        let http = reqwest::Client::builder()
            .user_agent(&model.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { http, endpoint: url, authorization: token.map(authorization).transpose()? })
    }

    pub(super) fn has_token(&self) -> bool {
        self.authorization.is_some()
    }

    /// An address of the hub from its parts, each encoded whole.
    pub(super) fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        // Always an address with a path, by its scheme.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// The answer to GET, after all redirects; its body is not read yet.
    ///
    /// # Errors
    /// There is none, or one without success.
    pub(super) async fn get(&self, url: Url, first_bytes: Option<u64>) -> Result<Response, Failure> {
        let mut place = Place::of_hub(url);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(Method::GET, &place, first_bytes).await?;
            match place.next(&response)? {
                Some(next) => place = next,
                None => return succeeded(response, place.is_hub).await,
            }
        }
        Err(too_many())
    }

    /// The headers of the hub's own answers to HEAD, the last first. A redirect to another host is not followed: that is the storage,
    /// which knows nothing of commits.
    ///
    /// # Errors
    /// There is no answer, or one without success.
    pub(super) async fn head(&self, url: Url) -> Result<Heads, Failure> {
        let mut place = Place::of_hub(url);
        let mut redirects = Vec::new();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(Method::HEAD, &place, None).await?;
            match place.next(&response)? {
                Some(next) => {
                    redirects.insert(0, response.headers().clone());
                    if !next.is_hub {
                        return Ok(Heads { file: None, redirects });
                    }
                    place = next;
                }
                None => {
                    let file = succeeded(response, true).await?.headers().clone();
                    return Ok(Heads { file: Some(file), redirects });
                }
            }
        }
        Err(too_many())
    }

    /// One request without redirects, repeated while its failure may pass.
    async fn ask(&self, method: Method, place: &Place, first_bytes: Option<u64>) -> Result<Response, Failure> {
        let (mut attempt, mut delay) = (1, FIRST_DELAY);
        loop {
            let mut request = self.http.request(method.clone(), place.url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(authorization) = self.authorization.as_ref().filter(|_| place.is_hub) {
                request = request.header(AUTHORIZATION, authorization);
            }
            if let Some(last) = first_bytes.map(|bytes| bytes.saturating_sub(1)) {
                request = request.header(RANGE, format!("bytes=0-{last}"));
            }
            let result = request.send().await;
            let may_pass = match &result {
                Ok(response) => matches!(response.status().as_u16(), 408 | 429 | 500 | 502 | 503 | 504),
                Err(error) => error.is_connect() || error.is_timeout() || error.is_request(),
            };
            if !may_pass || attempt == MAX_ATTEMPTS {
                return result.map_err(|error| Failure::request(&error));
            }
            tokio::time::sleep(delay).await;
            attempt += 1;
            delay *= 2;
        }
    }
}

/// Headers of the hub's answers to HEAD.
pub(super) struct Heads {
    /// Headers of the file; absent if another host has it.
    pub(super) file: Option<HeaderMap>,
    /// Headers of the redirects, the last first.
    pub(super) redirects: Vec<HeaderMap>,
}

fn too_many() -> Failure {
    Failure::Answer(format!("it is redirected more than {MAX_REDIRECTS} times"))
}

/// The response itself if it is one of success.
async fn succeeded(response: Response, is_hub: bool) -> Result<Response, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let message = response.headers().get("x-error-message").and_then(|text| Some(text.to_str().ok()?.to_owned()));
    let message = match message {
        Some(message) => message,
        None => refusal(response).await,
    };
    let message = if message.is_empty() { message } else { format!(": {}", shown(&message)) };
    Err(Failure::Status { status, message, is_hub })
}

/// Message in the body of a refusal; empty if it cannot be read.
async fn refusal(mut response: Response) -> String {
    let body = start(&mut response, MAX_REFUSAL_BYTES, |_| ()).await.unwrap_or_default();
    let json: Option<Value> = serde_json::from_slice(&body).ok();
    match json.as_ref().and_then(|json| json.get("error")?.as_str()) {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(&body).trim().to_owned(),
    }
}

/// The first bytes of a body, or all if there are fewer; `seen` is called with the number so far.
///
/// # Errors
/// The body breaks off before, or there is no memory for it.
pub(super) async fn start(body: &mut impl Body, bytes: u64, seen: impl Fn(u64)) -> Result<Vec<u8>, Failure> {
    let mut start = Vec::new();
    while (start.len() as u64) < bytes
        && let Some(piece) = body.piece().await?
    {
        let piece = piece.as_ref();
        let left = usize::try_from(bytes).unwrap_or(usize::MAX) - start.len();
        let piece = &piece[..piece.len().min(left)];
        start.try_reserve(piece.len()).map_err(|_| Failure::TooLong(start.len() as u64))?;
        start.extend_from_slice(piece);
        seen(start.len() as u64);
    }
    Ok(start)
}

/// A whole body of at most `limit` bytes; `seen` is called with the number so far.
///
/// # Errors
/// It has more, or breaks off.
pub(super) async fn whole(mut response: Response, limit: u64, seen: impl Fn(u64)) -> Result<Vec<u8>, Failure> {
    if response.content_length().is_some_and(|bytes| bytes > limit) {
        return Err(Failure::TooLong(limit));
    }
    let body = start(&mut response, limit + 1, seen).await?;
    if body.len() as u64 > limit { Err(Failure::TooLong(limit)) } else { Ok(body) }
}
