//! `prefold check-model`: reports before the download whether a model runs, by the same check as a start.

use super::args::{FilesArgs, NamedSourceArgs};
use super::config::ConfigError;
use super::config::model::{adapter_base, files_options, model_source};
use prefold_backends::{CheckedModel, Licence, LoadOptions, ModelCheck, Verdict, check_model};
use prefold_core::{Capabilities, EngineConfig, Rerank, listed};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::process::ExitCode;

/// Exit status for a model whose files could not be checked.
const UNKNOWN: u8 = 3;

/// The model to check.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CheckModelArgs {
    #[command(flatten)]
    source: NamedSourceArgs,

    #[command(flatten)]
    files: FilesArgs,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl CheckModelArgs {
    /// Prints the result. The exit status is 0 for a model that runs, 1 for one that does not, 2 for invalid arguments,
    /// 3 for a model whose files could not be checked.
    pub(crate) fn run(self) -> ExitCode {
        let is_json = self.json;
        let (name, options) = match self.options() {
            Ok(options) => options,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        };
        let check = check_model(&options);
        let text = if is_json {
            format!("{:#}\n", as_json(&name, &check))
        } else {
            Report { name: &name, check: &check }.to_string()
        };
        let printed = std::io::stdout().write_all(text.as_bytes());
        match (&check.verdict, printed) {
            (Verdict::Runs | Verdict::RunsBut(_), Ok(())) => ExitCode::SUCCESS,
            (Verdict::Unknown(_), Ok(())) => ExitCode::from(UNKNOWN),
            _ => ExitCode::FAILURE,
        }
    }

    /// The model's name, and how a start with the same flags reads its files.
    fn options(self) -> Result<(String, LoadOptions), ConfigError> {
        let args = self.source.source();
        let (name, source) = model_source(&args, false)?;
        let base = adapter_base(&args, &source);
        Ok((name, LoadOptions { base, ..files_options(source, self.files)? }))
    }
}

fn as_json(name: &str, check: &ModelCheck) -> Value {
    let (verdict, notes) = match &check.verdict {
        Verdict::Runs => ("runs", vec![]),
        Verdict::RunsBut(notes) => ("runs_but", notes.clone()),
        Verdict::DoesNotRun(problem) => ("does_not_run", vec![problem.clone()]),
        Verdict::Unknown(problem) => ("unknown", vec![problem.clone()]),
    };
    let mut json = json!({"model": name, "verdict": verdict, "notes": notes, "licence": check.licence.name()});
    let (Some(object), Some(model)) = (json.as_object_mut(), &check.model) else { return json };
    let memory = model.memory.iter().map(|it| {
        let bytes = json!({
            "weights_bytes": it.weights_bytes,
            "longest_input_bytes": it.longest_input_bytes,
            "default_batch_bytes": it.default_batch_bytes,
        });
        (it.dtype.as_str().to_owned(), bytes)
    });
    object.extend([
        ("family".to_owned(), json!(model.family)),
        ("attention".to_owned(), json!(model.attention)),
        ("parameters".to_owned(), json!(model.parameters)),
        ("stored_dtype".to_owned(), json!(model.stored_dtype)),
        ("memory".to_owned(), memory.collect()),
        ("max_input_length".to_owned(), json!(model.capabilities.max_input_length)),
        ("answers".to_owned(), answers(&model.capabilities)),
        ("prompts".to_owned(), json!(prompts(&model.capabilities))),
    ]);
    json
}

/// Kinds of output that the model can compute, by name.
fn answers(capabilities: &Capabilities) -> Value {
    let Capabilities { embed, rerank, classify, classify_tokens, .. } = capabilities;
    let mut answers = serde_json::Map::new();
    if let Some(embed) = embed {
        let pooling: Vec<String> = embed.pooling.iter().map(ToString::to_string).collect();
        answers.insert("embed".to_owned(), json!({"dimensions": embed.default_dim(), "pooling": pooling}));
    }
    if let Some(rerank) = rerank {
        answers.insert("rerank".to_owned(), json!({"scores": rerank.score_meaning()}));
    }
    if let Some(classify) = classify {
        answers.insert("classify".to_owned(), json!({"labels": classify.labels}));
    }
    if let Some(classify) = classify_tokens {
        answers.insert("classify_tokens".to_owned(), json!({"labels": classify.labels}));
    }
    answers.into()
}

/// Names of the prompts.
fn prompts(capabilities: &Capabilities) -> Vec<&str> {
    capabilities.text_prompts().iter().flat_map(|prompts| prompts.by_name.keys().map(String::as_str)).collect()
}

/// The result as text.
struct Report<'a> {
    name: &'a str,
    check: &'a ModelCheck,
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, check } = self;
        match &check.verdict {
            Verdict::Runs => writeln!(f, "{name} runs")?,
            Verdict::RunsBut(notes) => {
                writeln!(f, "{name} runs, but")?;
                notes.iter().try_for_each(|note| writeln!(f, "  - {note}"))?;
            }
            Verdict::DoesNotRun(problem) => writeln!(f, "{name} does not run: {problem}")?,
            Verdict::Unknown(problem) => return writeln!(f, "{name} could not be checked: {problem}"),
        }
        if let Some(model) = &check.model {
            describe(f, model)?;
        }
        match &check.licence {
            Licence::Named(name) => writeln!(f, "  licence     {name}"),
            Licence::NotNamed => writeln!(f, "  licence     not named"),
            Licence::Unread => Ok(()),
        }
    }
}

fn describe(f: &mut Formatter<'_>, model: &CheckedModel) -> fmt::Result {
    let CheckedModel { family, attention, parameters, stored_dtype, memory, capabilities } = model;
    writeln!(f, "  family      {family}, {attention} attention")?;
    if let (Some(parameters), Some(stored)) = (parameters, stored_dtype) {
        writeln!(f, "  parameters  {}, stored as {stored}", rounded(*parameters))?;
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let each: Vec<String> =
        memory.iter().map(|it| format!("{} {}", it.dtype.as_str(), mib(it.weights_bytes))).collect();
    if !each.is_empty() {
        writeln!(f, "  weights     {} MiB", each.join(", "))?;
    }
    write!(f, "  input       up to {}", counted(capabilities.max_input_length as u64, "token"))?;
    match memory.iter().map(|it| it.longest_input_bytes).max() {
        Some(longest) => writeln!(f, ", with {} MiB", mib(longest))?,
        None => writeln!(f)?,
    }
    if let Some(batches) = memory.iter().map(|it| it.default_batch_bytes).max() {
        let tokens = EngineConfig::default().max_batch_tokens;
        writeln!(f, "  batches     {} MiB at a start, with --max-batch-tokens {tokens} (the default)", mib(batches))?;
    }
    let Capabilities { embed, rerank, classify, classify_tokens, .. } = capabilities;
    if let Some(embed) = embed {
        let pooling: Vec<String> = embed.pooling.iter().map(ToString::to_string).collect();
        let more = embed.truncate_dim.map_or_else(String::new, |_| format!(" ({} on request)", embed.dim));
        let dim = embed.default_dim();
        write!(f, "  embeddings  of {}{more}, pooling {}", counted(dim as u64, "value"), pooling.join(", "))?;
        let remark =
            if matches!(rerank, Some(Rerank::Cosine)) { "; rerank routes answer with their cosine" } else { "" };
        writeln!(f, "{remark}")?;
    }
    match rerank {
        Some(Rerank::Prompt(_)) => writeln!(f, "  reranks     with a prompt")?,
        Some(Rerank::Pair) => writeln!(f, "  reranks     pairs")?,
        Some(Rerank::Cosine) | None => {}
    }
    if let Some(classify) = classify {
        writeln!(f, "  classifies  with {}", counted(classify.labels.len() as u64, "label"))?;
    }
    if let Some(classify) = classify_tokens {
        writeln!(f, "  classifies  tokens, with {}", counted(classify.labels.len() as u64, "label"))?;
    }
    match prompts(capabilities).as_slice() {
        [] => Ok(()),
        names => writeln!(f, "  prompts     {}", listed(names.iter().copied())),
    }
}

/// A number with its noun, in the plural unless it is 1.
fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A number in millions, thousands or as it is, so that a small one is not 0.
fn rounded(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..999_500 => format!("{:.0} thousand", number as f64 / 1e3),
        _ => format!("{:.1} million", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_rounded_to_nothing() {
        let text = [1, 999, 1_000, 53_400, 999_500, 22_713_216].map(rounded);
        assert_eq!(text, ["1", "999", "1 thousand", "53 thousand", "1.0 million", "22.7 million"]);
        assert_eq!([0, 1, 2].map(|number| counted(number, "label")), ["0 labels", "1 label", "2 labels"]);
    }
}
