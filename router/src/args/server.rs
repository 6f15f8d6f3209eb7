//! The flags of how clients reach the server.

use super::{ANY_ADDRESS, positive};
use crate::config::{CLIENT_TIMEOUT, MAX_BUFFERED_BYTES, PAYLOAD_LIMIT};
use crate::secret::{self, Secret};
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// How clients reach the server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The address to listen on. From the environment only an IP address counts, because containers set HOSTNAME to
    /// their own name
    #[arg(long, env, default_value = ANY_ADDRESS)]
    pub(crate) hostname: String,

    /// The port to listen on; 0 takes a free one, which the log names
    #[arg(short, long, env, default_value_t = 3000)]
    pub(crate) port: u16,

    /// Connections that are open at once; others wait until one ends
    #[arg(long, env, default_value_t = 16_384, value_parser = positive)]
    pub(crate) max_connections: usize,

    /// Seconds that a client has to send a request's head, then its body (which is answered with status 408 otherwise),
    /// and to take a part of an answer. Idle connections end after as long
    #[arg(long, env, default_value_t = CLIENT_TIMEOUT, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) client_timeout: u64,

    /// Bytes in a request's body at most; more are answered with status 413
    #[arg(long, env, default_value_t = PAYLOAD_LIMIT, value_parser = positive)]
    pub(crate) payload_limit: usize,

    /// Bytes of request bodies, and of answers that their clients have not taken yet, that the server holds at once; more
    /// bodies are answered with status 429
    #[arg(long, env, default_value_t = MAX_BUFFERED_BYTES, value_parser = positive)]
    pub(crate) max_buffered_bytes: usize,

    /// Clients must send `Authorization: Bearer <API_KEY>`, except to `GET /`, /health, /ready, /ping, /metrics, /docs and
    /// /api-doc/openapi.json. May be given several times: each is good
    #[arg(long, env, hide_env_values = true, value_parser = secret::api_key)]
    pub(crate) api_key: Vec<Secret>,

    /// A file with such keys, one in a line; lines that begin with # do not count. It is read again when it changes and on
    /// SIGHUP; when it cannot be read or has no keys then, those it had before stay good
    #[arg(long, env)]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Ask for the API key at /docs and /api-doc/openapi.json too
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) protect_docs: bool,

    /// Ask for the API key at /metrics too
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) protect_metrics: bool,

    /// Origins that browsers may call from, separated by commas. Any when absent
    #[arg(long, env, value_delimiter = ',')]
    pub(crate) cors_allow_origin: Vec<String>,

    /// Seconds after which a forward pass that has not ended makes /ready fail; after five times as many, /health too
    #[arg(long, env, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) stall_timeout: u64,

    /// End the process, with status 1, when a forward pass makes /health fail, so that a supervisor starts another
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) exit_on_stuck: bool,

    /// Seconds that a stopping server waits for the requests it accepted
    #[arg(long, env, default_value_t = 25)]
    pub(crate) shutdown_timeout: u64,
}
