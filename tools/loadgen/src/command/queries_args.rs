//! Flags for the queries of a mixed load.

use crate::http::api::Api;
use crate::http::client::{TargetConfig, bearer};
use crate::workload::{Plan, RANDOM_WORDS, Source};
use prefold_tools::template::{Template, unescape};
use reqwest::header::HeaderValue;
use std::path::PathBuf;

/// Distinct random requests, which repeat if a measurement sends more.
const RANDOM_REQUESTS: usize = 2000;
/// Default number of words of a random query that is embedded.
const QUERY_WORDS: usize = 8;

/// Flags for the queries of a mixed load. Defaults are the bulk's settings, except for texts and priority.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Queries of a mixed load (--rate with --concurrency)")]
#[group(requires_all = ["rate", "concurrency"])]
pub(crate) struct QueriesArgs {
    /// API of the queries. Default: --api
    #[arg(long, value_enum)]
    queries_api: Option<Api>,

    /// Path of the queries. Default: the bulk's path, or the API's path if --queries-api is given
    #[arg(long, value_name = "PATH")]
    queries_path: Option<String>,

    /// API key of the queries. Default: --api-key
    #[arg(long, value_name = "API_KEY", value_parser = bearer)]
    queries_api_key: Option<HeaderValue>,

    /// File of the queries, like --file. Default: random texts
    #[arg(long, value_name = "FILE")]
    queries_file: Option<PathBuf>,

    /// Words per random text of the queries. Default: 8, for rankings 32
    #[arg(long, value_name = "WORDS", conflicts_with = "queries_file",
          value_parser = clap::value_parser!(u32).range(1..))]
    queries_words: Option<u32>,

    /// Template of the queries' texts, like --template. Default: `{text}`
    #[arg(long, value_name = "TEMPLATE")]
    queries_template: Option<String>,

    /// Maximum texts per query. Default: 1; for rankings all texts of a line, or 10 random ones
    #[arg(long, value_name = "TEXTS",
          value_parser = clap::value_parser!(u32).range(1..))]
    queries_texts: Option<u32>,

    /// Priority of the queries, sent as the number `priority` in the body. Default: none, even with --priority
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    queries_priority: Option<i64>,
}

impl QueriesArgs {
    /// Target of the queries, given the bulk's.
    pub(crate) fn target(&self, bulk: TargetConfig) -> TargetConfig {
        let bulk_path = bulk.path.filter(|_| self.queries_api.is_none());
        TargetConfig {
            api: self.queries_api.unwrap_or(bulk.api),
            path: self.queries_path.clone().or(bulk_path),
            authorization: self.queries_api_key.clone().or(bulk.authorization),
            ..bulk
        }
    }

    /// Plan of the queries, given the bulk's.
    pub(crate) fn plan(&self, bulk: &Plan) -> Plan {
        Plan {
            api: self.queries_api.unwrap_or(bulk.api),
            templates: vec![
                self.queries_template.as_deref().map_or(Template::new("{text}"), |text| Template::new(&unescape(text))),
            ],
            clients: 1,
            texts_per_request: self.queries_texts.map(|texts| texts as usize),
            model: bulk.model.clone(),
            base64: bulk.base64,
            priority: self.queries_priority,
        }
    }

    /// Source of the queries; their random texts differ from the bulk's for the same seed.
    pub(crate) fn source(&self, plan: &Plan, seed: u64) -> Source {
        if let Some(path) = &self.queries_file {
            return Source::File(path.clone());
        }
        let (texts, words) =
            if plan.api.ranks() { (1, RANDOM_WORDS) } else { (plan.texts_per_request.unwrap_or(1), QUERY_WORDS) };
        let words = self.queries_words.map_or(words, |words| words as usize);
        Source::Random { lines: RANDOM_REQUESTS * texts, words, seed: !seed }
    }
}
