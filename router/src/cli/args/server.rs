//! Flags of the HTTP server.

use super::values::{port, positive, seconds, whole};
use crate::server::connections::MAX_CONNECTIONS;
use crate::state::secret::{self, Secret};
use crate::state::{CLIENT_TIMEOUT, PAYLOAD_LIMIT, SharePrefixes};
use clap::builder::BoolishValueParser;
use prefold_core::EngineConfig;
use std::path::PathBuf;

/// Flags of the HTTP server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address to listen on. The environment variable counts only if it is an IP address, because containers set
    /// HOSTNAME to their own name
    #[arg(long, env, alias = "host", default_value = "0.0.0.0")]
    pub(crate) hostname: String,

    /// Port to listen on; 0 picks a free port, which the log names
    #[arg(short, long, env, default_value_t = 3000, value_parser = port)]
    pub(crate) port: u16,

    /// Unix socket to listen on instead of --hostname and --port. Who may connect is decided by the permissions of its
    /// folder and by the umask
    #[arg(long, env, alias = "uds")]
    pub(crate) uds_path: Option<PathBuf>,

    /// Open connections. Further connections wait until one closes
    #[arg(long, env, default_value_t = 16_384, value_parser = whole::<usize, 1, { MAX_CONNECTIONS as u64 }>)]
    pub(crate) max_connections: usize,

    /// Seconds a client has to send a request's head, then its body (else status 408), and to read a response, for which
    /// it has a second more for each 256 KiB. Idle connections close after the same time
    #[arg(long, env, default_value_t = CLIENT_TIMEOUT, value_parser = seconds)]
    pub(crate) client_timeout: u64,

    /// Bytes per request body. Larger bodies get status 413
    #[arg(long, env, default_value_t = PAYLOAD_LIMIT, value_parser = positive)]
    pub(crate) payload_limit: usize,

    /// Bytes that requests hold: their bodies and what is parsed from them, and the values of their responses until these
    /// are read. While others hold this much, requests get status 429, except those of API keys below their fair part:
    /// the limit over the number of keys that hold some
    #[arg(long, env, default_value_t = EngineConfig::default().max_buffered_bytes, value_parser = positive)]
    pub(crate) max_buffered_bytes: usize,

    /// API key that clients must send as `Authorization: Bearer <API_KEY>`, except to `GET /`, /health, /ready, /ping,
    /// /metrics, /docs and /api-doc/openapi.json. Repeat the flag to accept several keys
    #[arg(long, env, hide_env_values = true, value_parser = secret::api_key)]
    pub(crate) api_key: Vec<Secret>,

    /// File of API keys, one per line, as `KEY` or `KEY # NAME`; the log shows the name. Lines starting with # are ignored. It is reloaded when its content changes and on
    /// SIGHUP; if it then cannot be read, has no keys, or is written over and does not end with a line feed, the previous keys
    /// stay valid
    #[arg(long, env)]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Requests whose common prefixes are computed once: `all`, or those with one API `key`, so that nobody can measure by the
    /// time of an answer what users of other keys send. With `key` the tokenizer does not remember words either, and takes up to half as
    /// much time again for a text. What remains: an answer takes longer while the server has other work
    #[arg(long, env, value_enum, default_value_t = SharePrefixes::All)]
    pub(crate) share_prefixes: SharePrefixes,

    /// Require the API key for /docs and /api-doc/openapi.json too
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) protect_docs: bool,

    /// Require the API key for /metrics too
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) protect_metrics: bool,

    /// Refuse requests with fields that no route reads or that mean nothing to the model. By default such fields are ignored and
    /// named in the header x-ignored-fields of the response
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) strict_fields: bool,

    /// Origins that browsers may call from, separated by commas. Default: any
    #[arg(long, env, value_delimiter = ',')]
    pub(crate) cors_allow_origin: Vec<String>,

    /// Seconds a forward pass may take from one yield point to the next before /ready fails; after five times as long, /health fails too
    #[arg(long, env, default_value_t = 120, value_parser = seconds)]
    pub(crate) stall_timeout: u64,

    /// Exit with status 1 when a forward pass makes /health fail, so that a supervisor restarts the server
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) exit_on_stuck: bool,

    /// Seconds after SIGTERM in which the server accepts requests as before while /ready is 503, so that balancers can turn
    /// away from it first
    #[arg(long, env, default_value_t = 0, value_parser = whole::<u64, 0, 3600>)]
    pub(crate) shutdown_delay: u64,

    /// Seconds to wait at shutdown (after --shutdown-delay) for the requests already accepted
    #[arg(long, env, default_value_t = 25, value_parser = whole::<u64, 0, 86_400>)]
    pub(crate) shutdown_timeout: u64,
}
