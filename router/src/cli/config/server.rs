//! Settings of the HTTP server, from the flags.

use super::error::ConfigError;
use crate::cli::args::ServerArgs;
use crate::server::connections::ConnectionLimits;
use crate::server::listening::Address;
use crate::server::stopping::{ServerConfig, ServingConfig};
use crate::server::tls::Tls;
use crate::state::api_keys::Keys;
use crate::state::secret::Secret;
use crate::state::{HttpConfig, SharePrefixes};
use axum::http::HeaderValue;
use axum::http::uri::Authority;
use std::time::Duration;

/// The config of the HTTP server.
///
/// # Errors
/// A value is malformed, or values contradict each other.
pub(super) fn server_config(
    args: ServerArgs,
    spans: bool,
    prometheus_port: Option<u16>,
) -> Result<ServerConfig, ConfigError> {
    if args.max_buffered_bytes < args.payload_limit {
        return Err(ConfigError::Buffered(args.max_buffered_bytes, args.payload_limit));
    }
    if !args.api_key.iter().all(Secret::is_one_line) {
        return Err(ConfigError::KeyOfLines);
    }
    let has_keys = !args.api_key.is_empty() || args.api_key_file.is_some();
    if args.share_prefixes == SharePrefixes::Key && !has_keys {
        return Err(ConfigError::SharedByKey);
    }
    for (flag, is_set) in [("protect-docs", args.protect_docs), ("protect-metrics", args.protect_metrics)] {
        if is_set && !has_keys {
            return Err(ConfigError::Protected(flag));
        }
    }
    if prometheus_port == Some(args.port) && args.port != 0 && args.uds_path.is_none() {
        return Err(ConfigError::SamePort(args.port));
    }
    let client_timeout = Duration::from_secs(args.client_timeout);
    let key_file = args.api_key_file.as_ref().map(|path| path.display().to_string());
    let api_keys = Keys::new(args.api_key, args.api_key_file)
        .map_err(|error| ConfigError::ApiKeys(key_file.unwrap_or_default(), error))?;
    let tls = args.tls_cert.zip(args.tls_key).map(|(cert, key)| Tls::new(cert, key)).transpose();
    let tls = tls.map_err(ConfigError::Tls)?;
    Ok(ServerConfig {
        metrics: prometheus_port.map(|port| Address::Tcp {
            hostname: args.hostname.clone(),
            port,
            flag: "prometheus-port",
        }),
        address: match args.uds_path {
            Some(ref path) => Address::Unix(path.clone()),
            None => Address::Tcp { hostname: args.hostname, port: args.port, flag: "port" },
        },
        http: HttpConfig {
            unix_socket: args.uds_path,
            is_tls: tls.is_some(),
            payload_limit: args.payload_limit,
            client_timeout,
            api_keys,
            share_prefixes: args.share_prefixes,
            allowed_origins: allowed_origins(args.cors_allow_origin)?,
            spans,
            stall_timeout: Duration::from_secs(args.stall_timeout),
            protect_docs: args.protect_docs,
            protect_metrics: args.protect_metrics,
            strict_fields: args.strict_fields,
            invalid_unicode: args.invalid_unicode,
            metrics_elsewhere: prometheus_port.is_some(),
        },
        tls,
        serving: ServingConfig {
            connections: ConnectionLimits { connections: args.max_connections, client_timeout },
            exit_on_stuck: args.exit_on_stuck,
            shutdown_delay: Duration::from_secs(args.shutdown_delay),
            shutdown_timeout: Duration::from_secs(args.shutdown_timeout),
        },
    })
}

fn allowed_origins(origins: Vec<String>) -> Result<Option<Vec<HeaderValue>>, ConfigError> {
    if origins.is_empty() || origins.iter().any(|origin| origin == "*") {
        return Ok(None);
    }
    let parse = |origin: String| match HeaderValue::from_str(&origin) {
        Ok(value) if is_origin(&origin) => Ok(value),
        _ => Err(ConfigError::Origin(origin)),
    };
    origins.into_iter().map(parse).collect::<Result<_, _>>().map(Some)
}

/// True if browsers send the origin in this form, lower case and without a path, because it is compared byte by byte.
fn is_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let is_whole = !scheme.is_empty() && authority.parse::<Authority>().is_ok_and(|parsed| !parsed.host().is_empty());
    is_whole && !origin.contains(|c: char| c.is_ascii_uppercase() || c == '@')
}
