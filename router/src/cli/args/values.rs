//! Parsers of flag values.

use prefold_backends::{AttentionMode, Dtype};
use prefold_core::{ForeignIds, Task};
use std::num::IntErrorKind;
use std::str::FromStr;

/// A whole number from `MIN` to `MAX`.
pub(super) fn whole<T: FromStr, const MIN: u64, const MAX: u64>(s: &str) -> Result<T, String> {
    let number = s.parse::<u64>().ok().filter(|number| (MIN..=MAX).contains(number)).and_then(|_| s.parse().ok());
    let is_too_large = s.parse::<u64>().is_err_and(|error| *error.kind() == IntErrorKind::PosOverflow);
    number.ok_or_else(|| match MAX {
        u64::MAX if !is_too_large => format!("must be a whole number, at least {MIN}"),
        _ => format!("must be a whole number from {MIN} to {MAX}"),
    })
}

/// A whole number, at least 1.
pub(super) fn positive(s: &str) -> Result<usize, String> {
    whole::<_, 1, { u64::MAX }>(s)
}

/// Maximum tokens of an input; `None` is the model's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputLength(pub(crate) Option<usize>);

/// Also accepts the forms of vLLM: `auto` and -1 for the model's limit, `1k` for 1,000 and `1K` for 1,024.
pub(super) fn input_length(s: &str) -> Result<InputLength, String> {
    if s == "auto" || s == "-1" {
        return Ok(InputLength(None));
    }
    let with_unit = |letter, unit| s.strip_suffix(letter).map(|digits| (digits, unit));
    let (digits, unit) = with_unit('k', 1000).or_else(|| with_unit('K', 1024)).unwrap_or((s, 1));
    let tokens = positive(digits).ok().and_then(|number| number.checked_mul(unit));
    let problem = "must be a whole number, at least 1, also with k (1000) or K (1024), or `auto`";
    tokens.map(|tokens| InputLength(Some(tokens))).ok_or_else(|| problem.to_owned())
}

/// A whole number.
pub(super) fn count<T: FromStr>(s: &str) -> Result<T, String> {
    whole::<_, 0, { u64::MAX }>(s)
}

/// True or false, in the words that clap's `BoolishValueParser` takes.
pub(super) fn boolean(s: &str) -> Result<bool, String> {
    match s.to_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Seconds, at least 1 and at most a day.
pub(super) fn seconds(s: &str) -> Result<u64, String> {
    whole::<_, 1, 86_400>(s)
}

/// A port; 0 is a free one.
pub(super) fn port(s: &str) -> Result<u16, String> {
    whole::<_, 0, { u16::MAX as u64 }>(s)
}

/// Parses a number from 0 to 1.
///
/// # Errors
/// It is not one.
pub(super) fn threshold(s: &str) -> Result<f32, String> {
    let value: f32 = s.parse().map_err(|_| "must be a number between 0 and 1".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("must be between 0 and 1".to_owned()) }
}

/// Treatment of token ids that look like another tokenizer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TokenIds {
    Refuse,
    Warn,
    Accept,
}

impl From<TokenIds> for ForeignIds {
    fn from(token_ids: TokenIds) -> Self {
        match token_ids {
            TokenIds::Refuse => Self::Refuse,
            TokenIds::Warn => Self::Count,
            TokenIds::Accept => Self::Accept,
        }
    }
}

/// A type of weights; `None` is the device's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DtypeChoice(pub(crate) Option<Dtype>);

/// Also accepts the short names of other servers.
pub(super) fn dtype(s: &str) -> Result<DtypeChoice, String> {
    match s {
        "auto" => Ok(DtypeChoice(None)),
        name => named_dtype(name, "auto, ").map(|dtype| DtypeChoice(Some(dtype))),
    }
}

/// A type by its name; `auto` is refused.
pub(crate) fn chosen_dtype(s: &str) -> Result<Dtype, String> {
    match s {
        "auto" => Err("`auto` depends on the checkpoint; use float32, bfloat16, float16 or int8".to_owned()),
        name => named_dtype(name, ""),
    }
}

/// A type by its name; `more` lists further valid names for the error.
fn named_dtype(s: &str, more: &str) -> Result<Dtype, String> {
    let name = match s {
        "float" | "fp32" | "f32" => "float32",
        "half" | "fp16" | "f16" => "float16",
        "bf16" => "bfloat16",
        name => name,
    };
    name.parse().map_err(|_| format!("unknown dtype `{s}`; use {more}float32, bfloat16, float16 or int8"))
}

/// Also accepts the names of vLLM, and the pipeline names that hosted containers use.
pub(super) fn task(s: &str) -> Result<Task, String> {
    match s {
        "embedding" | "feature-extraction" | "sentence-embeddings" | "sentence-similarity" => Ok(Task::Embed),
        "score" | "text-ranking" | "sentence-ranking" => Ok(Task::Rerank),
        "text-classification" => Ok(Task::Classify),
        "token-classification" | "ner" => Ok(Task::ClassifyTokens),
        "reward" => Err("`reward` of vLLM is not a task here; docs/migrating.md says: `classify`, if the model has one score a text".to_owned()),
        _ => s.parse::<Task>().map_err(|error| error.to_string()),
    }
}

/// Parses an attention mode.
///
/// # Errors
/// There is no such mode; the message lists them.
pub(super) fn attention(s: &str) -> Result<AttentionMode, String> {
    s.parse::<AttentionMode>().map_err(|error| error.to_string())
}
