//! Settings of a model in this process: the flags of model and batches, by their names.

use super::config::Config;
use super::config_file::{self, FileError};
use super::parsing::{Cli, sentence};
use clap::{Arg, CommandFactory};
use std::ffi::OsString;
use toml::Table;

/// Headings of the flags that are settings of a model; the others are the server's.
const HEADINGS: [&str; 2] = ["Model", "Batching"];

/// The configuration of a model; without `model`, of the built-in one. Keys are flag names, with `-` or `_` between
/// words. Environment variables apply to flags that `settings` lacks, as for the command.
///
/// # Errors
/// A sentence about a key that is not a flag of a model, a value out of range or a model that does not exist.
pub(crate) fn config(model: Option<&str>, settings: &Table) -> Result<Config, String> {
    let arguments = arguments(model, settings).map_err(|error| error.to_string())?;
    let cli = Cli::try_read(arguments).map_err(|error| sentence(&error.to_string()).to_owned())?;
    Config::try_from(cli.serve).map_err(|error| error.to_string())
}

fn arguments(model: Option<&str>, settings: &Table) -> Result<Vec<OsString>, FileError> {
    let command = Cli::command();
    let mut arguments = vec![OsString::from("prefold")];
    arguments.extend(model.map(|model| format!("--model-id={model}").into()));
    for (key, value) in settings {
        let flag = config_file::find(&command, key)?;
        if !flag.get_help_heading().is_some_and(|heading| HEADINGS.contains(&heading)) {
            let hint = format!(" of a model, but of the server; `{}` takes it", shown(flag));
            return Err(FileError::Unknown { key: key.clone(), hint });
        }
        arguments.extend(config_file::given(flag, key, value)?);
    }
    Ok(arguments)
}

fn shown(flag: &Arg) -> String {
    format!("prefold --{}", flag.get_long().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefold_backends::DeviceChoice;

    fn read(settings: &str) -> Result<Config, String> {
        config(None, &settings.parse().unwrap())
    }

    #[test]
    fn settings_are_flags() {
        let config = read(
            "max_batch_tokens = 100\nradix-mlp-threshold = 0.5\nauto_truncate = false\n\
                           int8_skip = ['a', 'b']\nallow_empty_inputs = true\ndevice = 'cpu'\noffline = false",
        )
        .unwrap();
        assert_eq!((config.engine.max_batch_tokens, config.engine.radix_mlp_threshold), (100, 0.5));
        assert!(!config.engine.auto_truncate && config.engine.allow_empty_inputs);
        assert_eq!(
            (config.load.int8_skip, config.load.device),
            (vec!["a".to_owned(), "b".to_owned()], Some(DeviceChoice::Cpu))
        );
    }

    #[test]
    fn what_is_no_setting_of_a_model_is_refused() {
        for (settings, words) in [
            ("max_batch_token = 1", "`max_batch_token` is not a flag; is `max-batch-tokens` meant?"),
            ("port = 1", "`port` is not a flag of a model, but of the server; `prefold --port` takes it"),
            ("max_batch_tokens = 0", "at least 1"),
            ("dtype = 'float31'", "unknown dtype `float31`"),
            ("offline = 'yes'", "`offline` is a text; it must be true or false"),
            ("radix_mlp_pad = 7", "`--radix-mlp-pad` is 7, it must divide"),
        ] {
            let error = read(settings).err().unwrap();
            assert!(error.contains(words) && !error.contains('\n'), "{settings}: {error}");
        }
        let missing = config(Some("/no/such/model"), &Table::new()).err().unwrap();
        assert!(missing.contains("/no/such/model"), "{missing}");
    }
}
