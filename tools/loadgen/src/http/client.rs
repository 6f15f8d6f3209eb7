//! HTTP client: sends one request and classifies its result.

use crate::http::api::Api;
use crate::http::info::ServerInfo;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};

/// Request ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) body: Bytes,
    /// Number of texts, and so of results in the response.
    pub(crate) texts: usize,
}

/// Maximum bytes of a response quoted in an error.
const QUOTED: usize = 200;

const TOKENS: HeaderName = HeaderName::from_static("x-compute-tokens");
const COMPACT_TOKENS: HeaderName = HeaderName::from_static("x-compute-compact-tokens");

/// Server and request parameters.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    client: Client,
    /// Base URL without a trailing slash.
    base: String,
    url: Url,
    api: Api,
}

/// Configuration of a [`Target`].
#[derive(Debug, Clone)]
pub(crate) struct TargetConfig {
    /// Base URL, http or https.
    pub(crate) base: String,
    pub(crate) api: Api,
    /// Path that overrides the API's.
    pub(crate) path: Option<String>,
    /// Value of the header `Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
    /// Time limit from the start of a request to the end of its response.
    pub(crate) timeout: Duration,
}

/// Successful response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answer {
    /// Arrival of the last byte.
    pub(crate) arrived: Instant,
    /// Tokens of the request's texts, if reported by the server.
    pub(crate) tokens: Option<u64>,
    /// Tokens of the request, and tokens when common prefixes count once, if reported by the server.
    pub(crate) folded: Option<(u64, u64)>,
}

/// Category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A status other than 200.
    Status(u16),
    /// No complete response within the timeout.
    Timeout,
    /// Connection refused or interrupted.
    Connection,
    /// Status 200 with an invalid body.
    BadBody,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Connection => f.write_str("connection"),
            Self::BadBody => f.write_str("bad body"),
        }
    }
}

/// Failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// Message for the user.
    pub(crate) message: String,
}

impl Target {
    pub(crate) fn new(config: TargetConfig) -> Result<Self> {
        let base = config.base.trim_end_matches('/').to_owned();
        let path = config.path.as_deref().unwrap_or(config.api.path());
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = Url::parse(&format!("{base}{slash}{path}")).with_context(|| format!("{base}{slash}{path}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(config.authorization.map(|value| (AUTHORIZATION, value)));
        let client = Client::builder()
            .default_headers(headers)
            .timeout(config.timeout)
            // No proxy, since its time would be measured too.
            .no_proxy()
            .redirect(Policy::none())
            // Requests of one connection would wait for each other.
            .http1_only()
            // Idle connections are kept, because opening one per request would be measured too.
            .pool_max_idle_per_host(usize::MAX)
            .pool_idle_timeout(None)
            .build()
            .context("cannot create the HTTP client")?;
        Ok(Self { client, base, url, api: config.api })
    }

    /// URL of requests.
    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn send(&self, request: &Prepared) -> Result<Answer, Failure> {
        let sending = self.client.post(self.url.clone()).body(request.body.clone()).send();
        let response = sending.await.map_err(|error| not_sent(&error))?;
        let status = response.status();
        let headers = response.headers().clone();
        let body = response.bytes().await.map_err(|error| not_sent(&error))?;
        let arrived = Instant::now();
        if status != StatusCode::OK {
            return Err(Failure { kind: Kind::Status(status.as_u16()), message: quote(&body) });
        }
        let tokens = self.api.check(&body, request.texts).map_err(|problem| {
            let message = format!("{problem}: {}", quote(&body));
            Failure { kind: Kind::BadBody, message }
        })?;
        let sent = number(&headers, &TOKENS);
        Ok(Answer { arrived, tokens: tokens.or(sent), folded: sent.zip(number(&headers, &COMPACT_TOKENS)) })
    }

    /// First model in the server's list, if it has one.
    pub(crate) async fn first_model(&self) -> Option<String> {
        let list: Value = serde_json::from_slice(&self.get("/v1/models").await?).ok()?;
        list["data"][0]["id"].as_str().map(str::to_owned)
    }

    /// Facts from the server's `/info`.
    pub(crate) async fn info(&self) -> ServerInfo {
        self.get("/info").await.map(|body| ServerInfo::parse(&body)).unwrap_or_default()
    }

    /// Text of the server's metrics, if it exports any.
    pub(crate) async fn metrics(&self) -> Option<String> {
        String::from_utf8(self.get("/metrics").await?).ok()
    }

    async fn get(&self, path: &str) -> Option<Vec<u8>> {
        let response = self.client.get(format!("{}{path}", self.base)).send().await;
        let response = response.and_then(Response::error_for_status).ok()?;
        (response.status() == StatusCode::OK).then_some(response)?.bytes().await.ok().map(Into::into)
    }
}

/// Value of the header `Authorization` for an API key.
pub(crate) fn bearer(key: &str) -> Result<HeaderValue> {
    ensure!(!key.is_empty(), "must not be empty");
    let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {key}")) else {
        bail!("has a character that is invalid in a header")
    };
    value.set_sensitive(true);
    Ok(value)
}

fn not_sent(error: &reqwest::Error) -> Failure {
    let kind = if error.is_timeout() { Kind::Timeout } else { Kind::Connection };
    // The error's own text has only the URL; its sources have the cause.
    let mut source: Option<&dyn std::error::Error> = Some(error);
    let mut messages = Vec::new();
    while let Some(error) = source {
        messages.push(error.to_string());
        source = error.source();
    }
    Failure { kind, message: messages.join(": ") }
}

fn quote(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED)]);
    let cut = if body.len() > QUOTED { "..." } else { "" };
    format!("{}{cut}", text.replace(['\n', '\r'], " "))
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}
