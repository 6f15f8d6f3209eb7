//! The metrics recorder, and the metrics of HTTP.

use super::log_writer::DROPPED;
use super::version::{COMMIT, VERSION};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use prefold_core::{ModelInfo, Resource};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(crate) const REQUESTS: &str = "prefold_http_requests_total";
/// Label `route` of requests that match none.
pub(crate) const UNMATCHED: &str = "unmatched";
pub(crate) const DURATION: &str = "prefold_http_request_duration";
pub(crate) const IN_FLIGHT: &str = "prefold_http_requests_in_flight";
/// Answers with status 429; label `quota`.
pub(crate) const REFUSED: &str = "prefold_refused_requests_total";
/// Gauge: 1 if the files with this label `files` were valid when they were last read, 0 if the previous content is in use.
pub(crate) const RELOADED: &str = "prefold_last_reload_successful";
/// Gauge: Unix time at which the certificate in use expires.
pub(crate) const CERTIFICATE_EXPIRY: &str = "prefold_tls_certificate_expiry_timestamp_seconds";
pub(crate) const SLOW_READERS: &str = "prefold_slow_readers_total";

/// Period in which histogram samples are merged into buckets while nobody reads /metrics.
const UPKEEP_PERIOD: Duration = Duration::from_secs(5);

const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Tokens, sequences: powers of two.
const COUNTS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0,
    65536.0, 131_072.0,
];

const RATIOS: &[f64] =
    &[0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];

/// Installs the recorder on the first call. The handle renders the metrics of the whole process.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let full = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets(COUNTS)?
        .set_buckets_for_metric(Matcher::Suffix("duration".to_owned()), SECONDS)?
        .set_buckets_for_metric(full("prefold_request_start_delay"), SECONDS)?
        .set_buckets_for_metric(full("te_radix_mlp_compression_ratio"), RATIOS)?
        .set_buckets_for_metric(full("prefold_request_tokenization_share"), RATIOS)?
        .install_recorder()?;
    prefold_core::metrics::describe();
    describe();
    gauge!("te_queue_size").set(0.0);
    gauge!("prefold_queue_tokens").set(0.0);
    Ok(installed.insert(handle).clone())
}

/// Records version, model, device and dtype as a metric.
pub(crate) fn record_build(model: &ModelInfo, served_name: &str) {
    describe_gauge!("prefold_build_info", "Always 1; labels are version, commit, model, device and dtype");
    let labels = [
        ("version", VERSION.to_owned()),
        ("commit", COMMIT.unwrap_or_default().to_owned()),
        ("model", served_name.to_owned()),
        ("device", model.device.clone()),
        ("dtype", model.dtype.to_owned()),
    ];
    gauge!("prefold_build_info", &labels).set(1.0);
}

/// Bounds the memory of histograms; never returns.
pub(crate) async fn run_upkeep(handle: PrometheusHandle) {
    let mut interval = tokio::time::interval(UPKEEP_PERIOD);
    loop {
        interval.tick().await;
        handle.run_upkeep();
    }
}

/// Registers the HTTP metrics with the installed recorder.
fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "HTTP requests by route and status (`dropped`: the client left)");
    describe_histogram!(DURATION, Unit::Seconds, "Time from the request's head to the response, by route");
    describe_counter!(DROPPED, Unit::Count, "Log lines dropped because the log was not read");
    counter!(DROPPED).absolute(0);
    describe_counter!(
        SLOW_READERS,
        Unit::Count,
        "Connections closed because the client did not read its response in time"
    );
    counter!(SLOW_READERS).absolute(0);
    describe_counter!(REFUSED, Unit::Count, "Requests refused with status 429, by the quota that was exceeded");
    for quota in Resource::ALL {
        counter!(REFUSED, "quota" => quota.label()).absolute(0);
    }
    describe_gauge!(RELOADED, "1 if --api-key-file or the files of TLS were valid when last read, 0 if not");
    describe_gauge!(
        CERTIFICATE_EXPIRY,
        Unit::Seconds,
        "Unix time at which the first certificate of --tls-cert expires"
    );
    describe_gauge!(IN_FLIGHT, Unit::Count, "HTTP requests whose responses are not completely written");
}
