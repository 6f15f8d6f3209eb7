//! The log filter: directives in the syntax of `tracing`, checked more strictly, over quiet defaults for verbose
//! libraries.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

/// The hub's storage client logs a dozen lines per file. The hub's client and the trace exporter also return their failures as errors.
/// h2 warns of frames, of which a client may send any number.
const QUIET: &str = "h2=error,opentelemetry-otlp=error,xet=error,xet_client=error,xet_data=error,xet_runtime=error,";

/// Errors in directives.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// `tracing` would take the word for a module and silence everything else.
    #[error("unknown log level `{0}`; use error, warn, info, debug, trace or off (for a module, `{0}=trace`)")]
    NotALevel(String),
    /// Any other syntax error.
    #[error(transparent)]
    Directive(#[from] ParseError),
}

/// Parses comma-separated directives (`level`, `target=level`), which override the defaults.
///
/// # Errors
/// A directive is malformed, or a lone word is not a level.
pub(crate) fn parse(directives: &str) -> Result<EnvFilter, FilterError> {
    let words = directives.split(',').map(str::trim).filter(|word| !word.is_empty());
    let mut alone = words.filter(|word| !word.contains(['=', '[']));
    match alone.find(|word| word.parse::<LevelFilter>().is_err()) {
        Some(word) => Err(FilterError::NotALevel(word.to_owned())),
        None => Ok(EnvFilter::builder().parse(format!("{QUIET}{directives}"))?),
    }
}

/// True if targets that no directive names have no level, so that an error could go unseen.
pub(crate) fn is_silent(directives: &str) -> bool {
    let mut levels = directives.rsplit(',').filter_map(|word| word.trim().parse::<LevelFilter>().ok());
    levels.next().is_none_or(|level| level == LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_alone_is_a_level() {
        for good in ["info", "INFO", "off", "warn,request=off", "hyper=debug,info", "prefold[request]=debug"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for (bad, word) in [("WARNING", "WARNING"), ("info,hyper", "hyper"), ("verbose , info", "verbose")] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown log level `{word}`")), "{bad}: {error}");
        }
        assert!(matches!(parse("request=loud"), Err(FilterError::Directive(_))));
    }

    #[test]
    fn silence_is_known() {
        for (directives, silent) in
            [("info", false), ("off", true), ("request=off", true), ("request=off,error", false)]
        {
            assert_eq!(is_silent(directives), silent, "{directives}");
        }
    }

    #[test]
    fn verbose_libraries_are_quiet_unless_asked() {
        let says =
            |directives: &str, wanted: &str| parse(directives).unwrap().to_string().split(',').any(|d| d == wanted);
        assert!(says("info", "xet_client=error") && says("info", "h2=error") && says("info", "info"));
        assert!(
            says("info,xet_client=debug", "xet_client=debug") && !says("info,xet_client=debug", "xet_client=error")
        );
    }
}
