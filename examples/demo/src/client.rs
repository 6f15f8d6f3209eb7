//! HTTP client of the demo.

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::HeaderMap;

pub(crate) struct Client {
    agent: Agent,
    base: String,
}

/// Response with its cost.
pub(crate) struct Answer<T> {
    pub(crate) body: T,
    /// Latency seen by the client, including transfer.
    pub(crate) wall: Duration,
    /// Tokens of all inputs (`x-compute-tokens`).
    pub(crate) tokens: u64,
    /// Tokens when common prefixes count once (`x-compute-compact-tokens`).
    pub(crate) unique_tokens: u64,
    /// `unique_tokens` over `tokens` (`x-compaction-ratio`).
    pub(crate) compaction_ratio: f64,
}

/// Item of `/rerank`'s response.
#[derive(Deserialize)]
pub(crate) struct Ranked {
    pub(crate) index: usize,
    pub(crate) score: f32,
}

/// Fields of `/info` shown by the demo.
#[derive(Deserialize)]
pub(crate) struct Info {
    pub(crate) model_id: String,
    pub(crate) version: String,
}

#[derive(Serialize)]
struct EmbedRequest<'a> {
    inputs: &'a [String],
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    query: &'a str,
    texts: &'a [&'a str],
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        // No proxy from the environment between the demo and its server.
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).build();
        Self { agent: config.new_agent(), base: format!("http://{address}") }
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.agent.get(self.url("/ready")).call().is_ok_and(|response| response.status() == 200)
    }

    pub(crate) fn info(&self) -> Result<Info> {
        Ok(self.agent.get(self.url("/info")).call()?.body_mut().read_json()?)
    }

    pub(crate) fn embed(&self, inputs: &[String]) -> Result<Answer<Vec<Vec<f32>>>> {
        self.post("/embed", &EmbedRequest { inputs })
    }

    pub(crate) fn rerank(&self, query: &str, texts: &[&str]) -> Result<Answer<Vec<Ranked>>> {
        self.post("/rerank", &RerankRequest { query, texts })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn post<T: DeserializeOwned>(&self, path: &str, request: &impl Serialize) -> Result<Answer<T>> {
        let begun = Instant::now();
        let mut response = self.agent.post(self.url(path)).send_json(request)?;
        let body = response.body_mut().read_to_string()?;
        let wall = begun.elapsed();
        if response.status() != 200 {
            bail!("POST {path} failed with status {}: {body}", response.status());
        }
        Ok(Answer {
            body: serde_json::from_str(&body).with_context(|| format!("the response of POST {path}"))?,
            wall,
            tokens: header(response.headers(), "x-compute-tokens")?,
            unique_tokens: header(response.headers(), "x-compute-compact-tokens")?,
            compaction_ratio: header(response.headers(), "x-compaction-ratio")?,
        })
    }
}

fn header<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Result<T> {
    let value = headers.get(name).with_context(|| format!("the response has no header {name}"))?;
    let value = value.to_str()?;
    value.parse().ok().with_context(|| format!("header {name} has the unexpected value {value}"))
}
