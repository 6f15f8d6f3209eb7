//! Settings for texts in the config of sentence-transformers' Transformer module.

use super::transformer;
use crate::checkpoint::tokenizer::tokenizer_json::{invalid, lowercase};
use crate::error::LoadError;
use crate::formats::special_tokens::remove_special_tokens;
use crate::json::{Fields, shown};
use crate::source::ModelFiles;
use prefold_core::TokenizerSums;
use serde_json::Value;
use tokenizers::Tokenizer;

/// Tasks that may have their own length, and the field of each.
const TASKS: [(&str, &str); 2] = [("query", "query_length"), ("document", "document_length")];
/// Arguments for the tokenizer's class; the older name comes first and takes precedence.
const TOKENIZER_ARGUMENTS: [&str; 2] = ["tokenizer_args", "processor_kwargs"];
/// Tokenizer arguments that change no vector.
const HARMLESS_ARGUMENTS: [&str; 3] = ["trust_remote_code", "use_fast", "padding_side"];
/// Arguments of calls of the tokenizer; `common` takes precedence over `text`.
const CALLS: [&str; 2] = ["common", "text"];
/// Call arguments that change no vector: padding is masked, and a single text can only be truncated in one way.
const HARMLESS_CALLS: [&str; 4] = ["padding", "padding_side", "pad_to_multiple_of", "return_tensors"];
/// Calls for other modalities than text.
const OTHER_MODALITIES: [&str; 3] = ["audio", "image", "video"];

/// Maximum number of fields in a warning.
const MAX_NAMED: usize = 8;

/// Settings for texts: their length, case and special tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TextSettings {
    /// Maximum tokens of a text; overrides the tokenizer's limit.
    pub(crate) max_length: Option<usize>,
    /// Texts are converted to lower case before the tokenizer's own steps.
    lowercases: bool,
    /// Texts get no special tokens.
    without_special_tokens: bool,
    /// Maximum tokens of texts of a task.
    task_lengths: Vec<(&'static str, usize)>,
    /// Warnings about ignored fields.
    pub(crate) warnings: Vec<String>,
}

impl TextSettings {
    /// Reads the file; without one, the defaults.
    ///
    /// # Errors
    /// It is malformed, or changes the model's config.
    pub(crate) fn read(files: &ModelFiles) -> Result<Self, LoadError> {
        let Some((name, config)) = transformer::config(files)? else { return Ok(Self::default()) };
        let fields = Fields::new(name, &config)?;
        check_config_arguments(&fields)?;
        let mut read = Self { lowercases: fields.or("do_lower_case", false)?, ..Self::default() };
        let mut ignored = Vec::new();
        read.max_length = length(&fields, "max_seq_length")?;
        for argument in TOKENIZER_ARGUMENTS {
            if let Some(arguments) = fields.object(argument)? {
                read.max_length = length(&arguments, "model_max_length")?.or(read.max_length);
                let followed = |key: &str| key == "model_max_length" || HARMLESS_ARGUMENTS.contains(&key);
                ignored.extend(unknown(argument, &arguments, followed));
                break;
            }
        }
        for (task, field) in TASKS {
            read.task_lengths.extend(length(&fields, field)?.map(|length| (task, length)));
        }
        if let Some(calls) = fields.object("processing_kwargs")? {
            read.calls(&calls, &mut ignored)?;
        }
        if fields.get("query_expansion").is_some() {
            ignored.push("query_expansion".to_owned());
        }
        if !ignored.is_empty() {
            let mut listed: Vec<String> = ignored.iter().take(MAX_NAMED).map(|field| format!("`{field}`")).collect();
            if let Some(more) = ignored.len().checked_sub(MAX_NAMED).filter(|&more| more > 0) {
                listed.push(format!("{more} more"));
            }
            read.warnings.push(format!("{name}: {} is ignored", listed.join(", ")));
        }
        Ok(read)
    }

    /// Reads the arguments of the tokenizer's calls and adds the names of ignored ones to `ignored`.
    fn calls(&mut self, calls: &Fields<'_>, ignored: &mut Vec<String>) -> Result<(), LoadError> {
        let (mut of_call, mut special) = (None, None);
        for name in CALLS {
            let Some(arguments) = calls.object(name)? else { continue };
            of_call = of_call.or(length(&arguments, "max_length")?);
            special = special.or(arguments.optional::<bool>("add_special_tokens")?);
            let followed =
                |key: &str| ["max_length", "add_special_tokens"].contains(&key) || is_harmless(&arguments, key);
            ignored.extend(unknown(&format!("processing_kwargs.{name}"), &arguments, followed));
        }
        let is_known = |key: &str| CALLS.contains(&key) || OTHER_MODALITIES.contains(&key);
        ignored.extend(unknown("processing_kwargs", calls, is_known));
        self.without_special_tokens = special == Some(false);
        if of_call.is_some() {
            self.max_length = of_call;
            self.task_lengths.clear();
        }
        Ok(())
    }

    /// Maximum tokens of texts of a task, if it has its own length.
    pub(crate) fn length_of(&self, task: &str) -> Option<usize> {
        self.task_lengths.iter().find(|(name, _)| *name == task).map(|(_, length)| *length)
    }

    /// Warns of lengths above the longest input, which sentence-transformers accepts, with rotary positions also for texts without a task.
    pub(crate) fn check_lengths(&mut self, longest: usize, is_rotary: bool) {
        if let Some(length) = self.max_length.filter(|&length| is_rotary && length > longest) {
            let warning = format!("`max_seq_length` is {length}; the longest input, {longest} tokens, is used");
            self.warnings.push(warning);
        }
        for (task, length) in self.task_lengths.iter().filter(|(_, length)| *length > longest) {
            let warning = format!("`{task}_length` is {length}; the longest input, {longest} tokens, is used");
            self.warnings.push(warning);
        }
    }

    /// `true` if a task has its own length.
    pub(crate) fn has_lengths(&self) -> bool {
        !self.task_lengths.is_empty()
    }

    /// Applies the settings to a tokenizer.
    ///
    /// # Errors
    /// The library refuses it.
    pub(crate) fn apply(&self, tokenizer: &mut Tokenizer, sums: &mut TokenizerSums) -> Result<(), LoadError> {
        if self.lowercases {
            lowercase(tokenizer, sums)?;
        }
        if self.without_special_tokens {
            remove_special_tokens(tokenizer).map_err(invalid)?;
        }
        Ok(())
    }
}

/// Refuses arguments that override `config.json`. The library ignores `trust_remote_code` here.
fn check_config_arguments(fields: &Fields<'_>) -> Result<(), LoadError> {
    for name in ["config_args", "config_kwargs"] {
        let changes = fields.object(name)?;
        if let Some((key, _)) = changes.iter().flat_map(Fields::entries).find(|(key, _)| *key != "trust_remote_code") {
            return Err(fields.unsupported(name, &format!("with `{key}`"), "changes of config.json in config.json"));
        }
    }
    Ok(())
}

/// A number of tokens.
fn length(fields: &Fields<'_>, name: &str) -> Result<Option<usize>, LoadError> {
    match fields.optional(name)? {
        Some(0) => Err(fields.problem(name, "must be above 0")),
        length => Ok(length),
    }
}

/// `true` for a call argument that changes no vector.
fn is_harmless(arguments: &Fields<'_>, key: &str) -> bool {
    let is_usual = |value: &Value| {
        matches!(value, Value::Bool(true)) || ["longest_first", "only_first"].iter().any(|it| value == it)
    };
    HARMLESS_CALLS.contains(&key) || key == "truncation" && arguments.get(key).is_none_or(is_usual)
}

/// Ignored fields of an object, with their values.
fn unknown<'a>(
    object: &'a str,
    fields: &'a Fields<'_>,
    followed: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let entries = fields.entries().filter(move |(key, value)| !value.is_null() && !followed(key));
    entries.map(move |(key, value)| format!("{object}.{}: {}", prefold_core::shown(key), shown(value)))
}
