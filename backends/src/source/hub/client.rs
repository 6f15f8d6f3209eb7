//! Requests to the hub: redirects, retries and limits of responses. Hugging Face's client library does not limit the bytes that it reads,
//! and sends the token to hosts that a redirect leads to.

use super::body::start;
use super::failure::Failure;
use super::listing::Heads;
use super::place::{MAX_REDIRECTS, Place};
use super::retry;
use super::watch::Meter;
use crate::options::HubModel;
use prefold_core::shown;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Method, Response, Url};
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Maximum attempts of one request.
pub(super) const MAX_ATTEMPTS: u32 = 6;
/// Time before the second attempt; it doubles with each.
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Maximum bytes that are read of an error response; a message needs some hundred.
const MAX_REFUSAL_BYTES: u64 = 64 << 10;
/// Maximum bytes of a response's headers in HTTP/2; HTTP/1 has its own limits of 100 headers and 400 KiB.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// Access to the hub.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Url,
    authorization: Option<HeaderValue>,
    /// Maximum total wait that a server may ask for between the attempts of one request.
    patience: Duration,
}

/// Part of a body that is requested.
#[derive(Debug, Default)]
pub(super) struct ByteRange {
    /// The first byte.
    pub(super) start: u64,
    /// The byte after the last; absent for the end of the body.
    pub(super) end: Option<u64>,
    /// ETag of the expected content; the server sends the whole body if it has another.
    pub(super) content: Option<HeaderValue>,
}

impl ByteRange {
    /// The value of `Range`; `None` for a whole body.
    fn range(&self) -> Option<String> {
        match (self.start, self.end) {
            (0, None) => None,
            (start, None) => Some(format!("bytes={start}-")),
            (start, Some(end)) => Some(format!("bytes={start}-{}", end.saturating_sub(1))),
        }
    }
}

impl Client {
    /// # Errors
    /// The endpoint is not a URL, or the token or user agent cannot be sent.
    pub(super) fn new(model: &HubModel, endpoint: &str, token: Option<&str>) -> Result<Self, String> {
        let url = Url::parse(endpoint).map_err(|error| format!("{endpoint} is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{endpoint} is not a URL with http:// or https://"));
        }
        let authorization = |token: &str| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| "the token contains characters that cannot be sent in an HTTP header".to_owned())?;
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
        let authorization = token.map(authorization).transpose()?;
        Ok(Self { http, endpoint: url, authorization, patience: model.timeout })
    }

    pub(super) fn has_token(&self) -> bool {
        self.authorization.is_some()
    }

    /// A URL of the hub from path segments, which are percent-encoded.
    pub(super) fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        // HTTP URLs always have a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// The response to GET, after all redirects; its body is not read yet.
    ///
    /// # Errors
    /// There is no response, or its status is not success.
    pub(super) async fn get(&self, url: Url, part: &ByteRange, meter: &Meter) -> Result<Response, Failure> {
        let mut place = Place::of_hub(url);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(Method::GET, &place, part, meter).await?;
            match place.next(&response)? {
                Some(next) => place = next,
                None => return succeeded(response, place.is_hub).await,
            }
        }
        Err(too_many())
    }

    /// The headers of the hub's own responses to HEAD, the last first. A redirect to another host leads to the storage, which knows
    /// nothing of commits, and is not followed.
    ///
    /// # Errors
    /// There is no response, or its status is not success.
    pub(super) async fn head(&self, url: Url, meter: &Meter) -> Result<Heads, Failure> {
        let mut place = Place::of_hub(url);
        let mut redirects = Vec::new();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(Method::HEAD, &place, &ByteRange::default(), meter).await?;
            match place.next(&response)? {
                Some(next) => {
                    redirects.insert(0, response.headers().clone());
                    if !next.is_hub {
                        let elsewhere = next.url.origin().ascii_serialization();
                        return Ok(Heads { file: Err(elsewhere), redirects });
                    }
                    place = next;
                }
                None => {
                    let file = succeeded(response, true).await?.headers().clone();
                    return Ok(Heads { file: Ok(file), redirects });
                }
            }
        }
        Err(too_many())
    }

    /// Sends one request without redirects, and retries it while the failure may be temporary, after the wait that the server asks for. A
    /// longer wait than `patience` makes the refusal final.
    async fn ask(&self, method: Method, place: &Place, part: &ByteRange, meter: &Meter) -> Result<Response, Failure> {
        let (mut attempt, mut delay, mut waited) = (1, FIRST_DELAY, Duration::ZERO);
        loop {
            let mut request = self.http.request(method.clone(), place.url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(authorization) = self.authorization.as_ref().filter(|_| place.is_hub) {
                request = request.header(AUTHORIZATION, authorization);
            }
            if let Some(range) = part.range() {
                request = request.header(RANGE, range);
            }
            if let Some(content) = &part.content {
                request = request.header(IF_RANGE, content);
            }
            let result = request.send().await;
            let may_pass = match &result {
                Ok(response) => matches!(response.status().as_u16(), 408 | 429 | 500 | 502 | 503 | 504),
                Err(error) => error.is_connect() || error.is_timeout() || error.is_request(),
            };
            let wait = result.as_ref().ok().and_then(asked_wait).unwrap_or_default();
            waited = waited.saturating_add(wait);
            if !may_pass || attempt == MAX_ATTEMPTS || waited > self.patience {
                return result.map_err(|error| Failure::request(&error));
            }
            meter.wait(wait).await;
            tokio::time::sleep(delay.saturating_sub(wait)).await;
            attempt += 1;
            delay *= 2;
        }
    }
}

fn too_many() -> Failure {
    Failure::Answer(format!("more than {MAX_REDIRECTS} redirects"))
}

/// The wait before another attempt that a response asks for.
fn asked_wait(response: &Response) -> Option<Duration> {
    retry::asked(response.status().as_u16(), response.headers(), SystemTime::now())
}

/// The response itself if its status is success.
async fn succeeded(response: Response, is_hub: bool) -> Result<Response, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|text| Some(text.to_str().ok()?.to_owned()));
    let (code, message) = (header("x-error-code"), header("x-error-message"));
    let is_verdict = is_hub && is_verdict(code.as_deref(), message.as_deref());
    let wait = asked_wait(&response).map(|wait| {
        format!("; it asks to wait {} s before the next attempt (limit: --download-timeout)", wait.as_secs())
    });
    let message = match message {
        Some(message) => message,
        None => refusal(response).await,
    };
    let message = if message.is_empty() { message } else { format!(": {}", shown(&message)) };
    Err(Failure::Status { status, message: message + &wait.unwrap_or_default(), is_hub, is_verdict })
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

/// `true` if the hub itself says that the repository or revision does not exist, or that access to it is denied.
fn is_verdict(code: Option<&str>, message: Option<&str>) -> bool {
    matches!(code, Some("RepoNotFound" | "RevisionNotFound" | "GatedRepo" | "DisabledRepo"))
        || message == Some("Access to this resource is disabled.")
}
