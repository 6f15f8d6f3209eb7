//! Flags of the HTTP server.

use super::values::{boolean, port, positive, seconds, whole};
use crate::server::connections::MAX_CONNECTIONS;
use crate::state::secret::{self, Secret};
use crate::state::{CLIENT_TIMEOUT, InvalidUnicode, PAYLOAD_LIMIT, SharePrefixes};
use prefold_core::ProcessLimits;
use std::path::PathBuf;

/// Flags of the HTTP server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address to listen on. The environment variable is ignored unless it is an IP address, because containers set
    /// HOSTNAME to their own name
    #[arg(long, env, alias = "host", default_value = "0.0.0.0")]
    pub(crate) hostname: String,

    /// Port to listen on; 0 picks a free port, which the log names
    #[arg(short, long, env, default_value_t = 3000, value_parser = port)]
    pub(crate) port: u16,

    /// Unix socket to listen on instead of --hostname and --port. The permissions of its directory and the umask decide
    /// who may connect
    #[arg(long, env, alias = "uds")]
    pub(crate) uds_path: Option<PathBuf>,

    /// File of the server's certificate in PEM, followed by those of its issuers: clients then connect by HTTPS. Certificate and
    /// key are reloaded when their content changes and on SIGHUP; the previous pair is used until the new files fit each other. Not
    /// for --prometheus-port
    #[arg(long, env, alias = "ssl-certfile", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// File of the certificate's private key in PEM, not encrypted
    #[arg(long, env, alias = "ssl-keyfile", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Maximum open connections, with the requests of HTTP/2 beyond the first of each. Further connections wait until one closes,
    /// further requests are refused
    #[arg(long, env, default_value_t = 16_384, value_parser = whole::<usize, 1, { MAX_CONNECTIONS as u64 }>)]
    pub(crate) max_connections: usize,

    /// Seconds for a client to send a request's head, then its body (else status 408), and to read a response, plus one
    /// second per 256 KiB of it. Idle connections close after the same time
    #[arg(long, env, default_value_t = CLIENT_TIMEOUT, value_parser = seconds)]
    pub(crate) client_timeout: u64,

    /// Maximum bytes per request body. Larger bodies get status 413
    #[arg(long, env, default_value_t = PAYLOAD_LIMIT, value_parser = positive)]
    pub(crate) payload_limit: usize,

    /// Maximum bytes of all requests in progress: their bodies, the values parsed from them, and their responses until
    /// these are read. While others hold this much, requests get status 429, unless their API key holds less than its
    /// fair part: the limit divided by the number of keys that hold some
    #[arg(long, env, default_value_t = ProcessLimits::default().max_buffered_bytes, value_parser = positive)]
    pub(crate) max_buffered_bytes: usize,

    /// API key that clients must send as `Authorization: Bearer <API_KEY>`, or in the header `api-key` or `x-api-key`, except to
    /// `GET /`, /health, /ready, /ping, /metrics, /docs and /api-doc/openapi.json. Repeat the flag to accept several keys
    #[arg(long, env, hide_env_values = true, value_parser = secret::api_key)]
    pub(crate) api_key: Vec<Secret>,

    /// File of API keys, one per line, as `KEY` or `KEY # NAME`; the log shows the name. Lines starting with # are
    /// ignored. It is reloaded when its content changes and on SIGHUP. The previous keys stay valid if it cannot be
    /// read, has no keys, or was overwritten in place and does not end with a line feed
    #[arg(long, env)]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Requests that may share prefixes: `all`, or only requests with the same API `key`, so that response times do not
    /// show what users of other keys send. `key` also turns off the tokenizer's word cache, which makes tokenization
    /// take up to 1.5 times as long. Response times still depend on how busy the server is
    #[arg(long, env, value_enum, default_value_t = SharePrefixes::All)]
    pub(crate) share_prefixes: SharePrefixes,

    /// Require the API key for /docs and /api-doc/openapi.json too
    #[arg(long, env, value_parser = boolean)]
    pub(crate) protect_docs: bool,

    /// Require the API key for /metrics too
    #[arg(long, env, value_parser = boolean)]
    pub(crate) protect_metrics: bool,

    /// Refuse requests with fields that the route does not read or that mean nothing to the model, except `user`. By default such fields are
    /// ignored and named in the header x-ignored-fields of the response
    #[arg(long, env, value_parser = boolean)]
    pub(crate) strict_fields: bool,

    /// Texts that are not Unicode, such as half of an emoji: `replace` puts U+FFFD in the place of what is not, and the response
    /// header x-replaced-unicode and the log name the text; `refuse` refuses the request. Ignored fields never matter
    #[arg(long, env, value_enum, default_value_t = InvalidUnicode::Replace)]
    pub(crate) invalid_unicode: InvalidUnicode,

    /// Origins that browsers may call from, separated by commas. Default: any
    #[arg(long, env, value_delimiter = ',')]
    pub(crate) cors_allow_origin: Vec<String>,

    /// Seconds a forward pass may take from one yield point to the next before /ready fails; after five times as long, /health fails too
    #[arg(long, env, default_value_t = 120, value_parser = seconds)]
    pub(crate) stall_timeout: u64,

    /// Exit with status 1 when a forward pass makes /health fail, so that a supervisor restarts the server
    #[arg(long, env, value_parser = boolean)]
    pub(crate) exit_on_stuck: bool,

    /// Seconds after SIGTERM in which the server accepts requests as before while /ready is 503, so that balancers can turn
    /// away from it first
    #[arg(long, env, default_value_t = 0, value_parser = whole::<u64, 0, 3600>)]
    pub(crate) shutdown_delay: u64,

    /// Seconds to wait at shutdown (after --shutdown-delay) for the requests already accepted
    #[arg(long, env, default_value_t = 25, value_parser = whole::<u64, 0, 86_400>)]
    pub(crate) shutdown_timeout: u64,
}
