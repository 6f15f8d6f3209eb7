//! What is logged: directives as `tracing` knows them, checked more strictly, over defaults for libraries that talk much.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

/// The hub's storage client writes a dozen lines for each file; what fails comes back as an error.
const QUIET: &str = "xet=error,xet_client=error,xet_data=error,xet_runtime=error,";

/// Why directives are refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// The word would be taken for a module, and everything else would fall silent.
    #[error("`{0}` is no level: error, warn, info, debug, trace or off; all of a module are `{0}=trace`")]
    NotALevel(String),
    /// Something else.
    #[error(transparent)]
    Directive(#[from] ParseError),
}

/// The filter of `directives`, which are separated by commas: `level`, `target=level`. They win over the defaults.
///
/// # Errors
/// A directive is malformed, or a word by itself is no level.
pub(crate) fn parse(directives: &str) -> Result<EnvFilter, FilterError> {
    let words = directives.split(',').map(str::trim).filter(|word| !word.is_empty());
    let mut alone = words.filter(|word| !word.contains(['=', '[']));
    match alone.find(|word| word.parse::<LevelFilter>().is_err()) {
        Some(word) => Err(FilterError::NotALevel(word.to_owned())),
        None => Ok(EnvFilter::builder().parse(format!("{QUIET}{directives}"))?),
    }
}

/// Whether no level is set for what no directive names: an error could go unseen.
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
            assert!(error.starts_with(&format!("`{word}` is no level")), "{bad}: {error}");
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
    fn the_hubs_storage_client_is_quiet_unless_asked() {
        let says =
            |directives: &str, wanted: &str| parse(directives).unwrap().to_string().split(',').any(|d| d == wanted);
        assert!(says("info", "xet_client=error") && says("info", "info"));
        assert!(
            says("info,xet_client=debug", "xet_client=debug") && !says("info,xet_client=debug", "xet_client=error")
        );
    }
}
