//! `prefold check-model`: says before the download whether a model runs, by the check that a start makes too.

use super::args::{FilesArgs, NamedSourceArgs};
use super::config::ConfigError;
use super::config::model::{adapter_base, files_options, model_source};
use prefold_backends::{CheckedModel, LoadOptions, ModelCheck, Verdict, check_model};
use prefold_core::{Capabilities, Rerank, listed};
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
    let mut json = json!({"model": name, "verdict": verdict, "notes": notes, "licence": check.licence});
    let (Some(object), Some(model)) = (json.as_object_mut(), &check.model) else { return json };
    let memory = model.memory.iter().map(|it| {
        let bytes = json!({"weights_bytes": it.weights_bytes, "longest_input_bytes": it.longest_input_bytes});
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
        writeln!(f, "  licence     {}", check.licence.as_deref().unwrap_or("not named"))
    }
}

fn describe(f: &mut Formatter<'_>, model: &CheckedModel) -> fmt::Result {
    let CheckedModel { family, attention, parameters, stored_dtype, memory, capabilities } = model;
    writeln!(f, "  family      {family}, {attention} attention")?;
    if let (Some(parameters), Some(stored)) = (parameters, stored_dtype) {
        writeln!(f, "  parameters  {:.1} million, stored as {stored}", *parameters as f64 / 1e6)?;
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let each: Vec<String> =
        memory.iter().map(|it| format!("{} {}", it.dtype.as_str(), mib(it.weights_bytes))).collect();
    if !each.is_empty() {
        writeln!(f, "  weights     {} MiB", each.join(", "))?;
    }
    write!(f, "  input       up to {} tokens", capabilities.max_input_length)?;
    match memory.iter().map(|it| it.longest_input_bytes).max() {
        Some(longest) => writeln!(f, ", with {} MiB", mib(longest))?,
        None => writeln!(f)?,
    }
    let Capabilities { embed, rerank, classify, classify_tokens, .. } = capabilities;
    if let Some(embed) = embed {
        let pooling: Vec<String> = embed.pooling.iter().map(ToString::to_string).collect();
        let more = embed.truncate_dim.map_or_else(String::new, |_| format!(" ({} on request)", embed.dim));
        writeln!(f, "  embeddings  of {} values{more}, pooling {}", embed.default_dim(), pooling.join(", "))?;
    }
    match rerank {
        Some(Rerank::Cosine) => writeln!(f, "  reranks     by cosine")?,
        Some(Rerank::Prompt(_)) => writeln!(f, "  reranks     with a prompt")?,
        Some(Rerank::Pair) => writeln!(f, "  reranks     pairs")?,
        None => {}
    }
    if let Some(classify) = classify {
        writeln!(f, "  classifies  with {} labels", classify.labels.len())?;
    }
    if let Some(classify) = classify_tokens {
        writeln!(f, "  classifies  tokens, with {} labels", classify.labels.len())?;
    }
    match prompts(capabilities).as_slice() {
        [] => Ok(()),
        names => writeln!(f, "  prompts     {}", listed(names.iter().copied())),
    }
}
