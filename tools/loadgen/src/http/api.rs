//! Request formats of the supported APIs, and validation of their responses.

use crate::http::answer::{Embeddings, Scores, Vectors};
use clap::ValueEnum;
use prefold_tools::plural::count;
use serde::Deserialize;
use serde_json::json;

/// API that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// OpenAI's embeddings, `/v1/embeddings`: vLLM, text-embeddings-inference, Infinity, llama.cpp, prefold
    Openai,
    /// text-embeddings-inference's embeddings, `/embed`
    Embed,
    /// text-embeddings-inference's ranking, `/rerank` with `query` and `texts`
    Rerank,
    /// Cohere's and Jina's ranking, `/v1/rerank` with `query` and `documents`: vLLM, Infinity (`--path /rerank`)
    CohereRerank,
    /// vLLM's scoring of pairs, `/score`
    Score,
}

/// Content of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    /// Query of a ranking.
    pub(crate) query: &'a str,
    pub(crate) texts: &'a [String],
    pub(crate) model: Option<&'a str>,
    pub(crate) base64: bool,
    /// Priority, a field of the same name in every API.
    pub(crate) priority: Option<i64>,
}

/// Token counts in responses of OpenAI's, Cohere's and vLLM's APIs.
#[derive(Debug, Default, Deserialize)]
struct Usage {
    total_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Listed<T> {
    data: T,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Ranked {
    results: Scores,
    usage: Option<Usage>,
}

impl Api {
    /// Default path of requests.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Openai => "/v1/embeddings",
            Self::Embed => "/embed",
            Self::Rerank => "/rerank",
            Self::CohereRerank => "/v1/rerank",
            Self::Score => "/score",
        }
    }

    /// True if texts are ranked by a query, false if they are embedded.
    pub(crate) fn ranks(self) -> bool {
        match self {
            Self::Openai | Self::Embed => false,
            Self::Rerank | Self::CohereRerank | Self::Score => true,
        }
    }

    /// True if requests name the model.
    pub(crate) fn names_model(self) -> bool {
        match self {
            Self::Openai | Self::CohereRerank | Self::Score => true,
            Self::Embed | Self::Rerank => false,
        }
    }

    /// Body of a request.
    pub(crate) fn body(self, payload: &Payload<'_>) -> Vec<u8> {
        let &Payload { query, texts, model, base64, priority } = payload;
        let mut body = match self {
            Self::Openai => json!({ "input": texts, "encoding_format": if base64 { "base64" } else { "float" } }),
            Self::Embed => json!({ "inputs": texts }),
            Self::Rerank => json!({ "query": query, "texts": texts }),
            Self::CohereRerank => json!({ "query": query, "documents": texts }),
            Self::Score => json!({ "text_1": query, "text_2": texts }),
        };
        if let (true, Some(model)) = (self.names_model(), model) {
            body["model"] = model.into();
        }
        if let Some(priority) = priority {
            body["priority"] = priority.into();
        }
        body.to_string().into_bytes()
    }

    /// Checks that a response has one valid result for each of `texts` texts. Returns its token count, if it has one, or
    /// a description of the problem.
    pub(crate) fn check(self, body: &[u8], texts: usize) -> Result<Option<u64>, String> {
        let (results, usage) = match self {
            Self::Openai => parse::<Listed<Embeddings>>(body).map(|answer| (answer.data.0, answer.usage)),
            Self::Embed => parse::<Vectors>(body).map(|answer| (answer.0, None)),
            Self::Rerank => parse::<Scores>(body).map(|answer| (answer.0, None)),
            Self::CohereRerank => parse::<Ranked>(body).map(|answer| (answer.results.0, answer.usage)),
            Self::Score => parse::<Listed<Scores>>(body).map(|answer| (answer.data.0, answer.usage)),
        }?;
        if results != texts {
            return Err(format!("{} for {}", count(results as u64, "result"), count(texts as u64, "text")));
        }
        let usage = usage.unwrap_or_default();
        Ok(usage.total_tokens.or(usage.prompt_tokens))
    }
}

fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
