//! The report, as data and as text.

use crate::answers::Answers;
use crate::embeddings::{Embeddings, TOP};
use crate::error::AccuracyError;
use crate::measure::Measure;
use crate::pass::{Done, Ready};
use crate::scores::{Classification, Errors, Rerank};
use crate::texts::{Place, Selection, Work};
use prefold_tools::plural::count;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result as FmtResult};

/// All results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    /// Version of `prefold accuracy`.
    version: &'static str,
    pub(crate) model: String,
    model_type: String,
    device: String,
    /// The file of texts, or `built-in`.
    source: String,
    #[serde(flatten)]
    pub(crate) selection: Selection,
    /// Tasks of the model; they are not compared, since the texts name no task.
    tasks_left_out: Vec<String>,
    /// The run in float32.
    pub(crate) reference: Cost,
    /// The run in the other dtype.
    pub(crate) other: Cost,
    #[serde(flatten)]
    pub(crate) agreement: Agreement,
}

/// Cost of a pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) dtype: String,
    /// Seconds until the model was ready.
    pub(crate) load_s: f64,
    /// Resident memory of the pass's process once the model was ready, before any request.
    pub(crate) resident_bytes: Option<u64>,
    /// Peak resident memory from the start of the process to the last answer.
    pub(crate) peak_bytes: Option<u64>,
    /// Used memory of the GPU, by all processes, once the model was ready.
    pub(crate) device_bytes: Option<u64>,
    /// Tokens of all inputs, prompts included.
    pub(crate) tokens: usize,
    /// Inputs truncated for their length.
    pub(crate) truncated: usize,
    /// Seconds of all requests.
    pub(crate) elapsed_s: f64,
    pub(crate) tokens_per_s: f64,
}

impl Cost {
    fn new(ready: Ready, done: &Done) -> Self {
        let Ready { dtype, load_s, resident_bytes, device_bytes, .. } = ready;
        let &Done { peak_bytes, tokens, truncated, elapsed_s, .. } = done;
        let tokens_per_s = tokens as f64 / elapsed_s;
        Self { dtype, load_s, resident_bytes, peak_bytes, device_bytes, tokens, truncated, elapsed_s, tokens_per_s }
    }
}

/// Agreement of the answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Agreement {
    Embeddings(Embeddings),
    Rerank(Rerank),
    Classification(Classification),
}

impl Agreement {
    /// Compares two runs over the same work. `None` if the kind of their answers does not match the work.
    fn of(work: &Work, reference: &Answers, other: &Answers) -> Option<Self> {
        let places: Vec<&Place> = match work {
            Work::Embed(items) | Work::Classify(items) => items.iter().map(|item| &item.place).collect(),
            Work::Rerank(questions) => questions.iter().map(|question| &question.place).collect(),
        };
        match (work, reference, other) {
            (Work::Embed(_), Answers::Vectors(reference), Answers::Vectors(other)) => {
                Some(Self::Embeddings(Embeddings::compare(&places, reference, other)))
            }
            (Work::Rerank(_), Answers::Scored(reference), Answers::Scored(other)) => {
                Some(Self::Rerank(Rerank::compare(&places, reference, other)))
            }
            (Work::Classify(_), Answers::Scored(reference), Answers::Scored(other)) => {
                Some(Self::Classification(Classification::compare(&places, reference, other)))
            }
            _ => None,
        }
    }
}

impl Report {
    /// Compares the two passes over the work, float32 first.
    ///
    /// # Errors
    /// The answers are of different kinds.
    pub(crate) fn new(
        model: String,
        (source, selection): (String, Selection),
        work: &Work,
        [(ready, reference), (other_ready, other)]: [(Ready, Done); 2],
    ) -> Result<Self, AccuracyError> {
        let agreement = Agreement::of(work, &reference.answers, &other.answers);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            model,
            model_type: ready.model_type.clone(),
            device: ready.device.clone(),
            source,
            selection,
            tasks_left_out: ready.tasks.clone(),
            reference: Cost::new(ready, &reference),
            other: Cost::new(other_ready, &other),
            agreement: agreement.ok_or(AccuracyError::DifferentAnswers)?,
        })
    }

    /// Indented JSON object with a final line feed.
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Number of compared items: `110 texts`, `100 pairs of 10 queries`.
    pub(crate) fn compared(&self) -> String {
        let texts = self.selection.texts;
        match &self.agreement {
            Agreement::Rerank(rerank) => {
                let queries = rerank.queries.len();
                let of_queries = if queries == 1 { "1 query".to_owned() } else { format!("{queries} queries") };
                format!("{} of {of_queries}", count(texts, "pair"))
            }
            Agreement::Embeddings(_) | Agreement::Classification(_) => count(texts, "text"),
        }
    }

    fn write_head(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Self { model, model_type, device, source, selection, tasks_left_out, reference, .. } = self;
        writeln!(f, "model    {model} ({model_type}) on {device}")?;
        writeln!(f, "texts    {}, {source}, {}", self.compared(), count(reference.tokens, "token"))?;
        let Selection { texts, left_out, repeated } = *selection;
        if left_out > 0 {
            let all = texts + left_out;
            writeln!(f, "         {left_out} of {all} are left out (--max-texts), evenly over the input")?;
        }
        if repeated > 0 {
            writeln!(f, "         {repeated} equal to an earlier one are not counted")?;
        }
        if !tasks_left_out.is_empty() {
            let tasks = tasks_left_out.join(", ");
            writeln!(f, "         all without a task; the model's tasks are not compared: {tasks}")?;
        }
        if reference.truncated > 0 {
            writeln!(f, "         {} truncated to the model's longest input", reference.truncated)?;
        }
        Ok(())
    }

    fn write_costs(&self, f: &mut Formatter<'_>) -> FmtResult {
        let costs = [&self.reference, &self.other];
        let on_gpu = costs.iter().any(|cost| cost.device_bytes.is_some());
        let gpu = |text: String| if on_gpu { format!("{text:>12}") } else { String::new() };
        let title = gpu("GPU memory".to_owned());
        writeln!(f, "\n{:10}{:>12}{:>12}{title}{:>12}{:>12}", "", "resident", "peak", "ready after", "tokens/s")?;
        for cost in costs {
            let [resident, peak, device] = [cost.resident_bytes, cost.peak_bytes, cost.device_bytes].map(megabytes);
            let (ready, device, rate) = (format!("{:.2} s", cost.load_s), gpu(device), cost.tokens_per_s);
            writeln!(f, "{:10}{resident:>12}{peak:>12}{device}{ready:>12}{rate:>12.0}", cost.dtype)?;
        }
        Ok(())
    }

    fn write_agreement(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Self { reference, other, .. } = self;
        let title = format!("{} compared with {}", other.dtype, reference.dtype);
        writeln!(f, "\n{title:40}{:>12}{:>12}  worst at", "mean", "worst")?;
        match &self.agreement {
            Agreement::Embeddings(found) => {
                row(f, "cosine of a text's two vectors", found.cosine.as_ref())?;
                let error = &found.similarity_error;
                write!(f, "{:40}{:>12.6}{:>12.6}", "change of the cosine of two texts", error.mean, error.worst)?;
                match &error.worst_texts {
                    Some([first, second]) => writeln!(f, "  {first}\n{:>66}{second}", "and ")?,
                    None => writeln!(f)?,
                }
                row(f, "order of the others, Kendall's tau-b", found.kendall_tau_b.as_ref())?;
                row(f, &format!("fraction of the {TOP} nearest kept"), found.top_10_overlap.as_ref())
            }
            Agreement::Rerank(found) => {
                errors(f, &found.errors)?;
                row(f, "order per query, Kendall's tau-b", found.kendall_tau_b.as_ref())?;
                row(f, "fraction of queries with the same best", found.top_1_agreement.as_ref())
            }
            Agreement::Classification(found) => {
                errors(f, &found.errors)?;
                row(f, "fraction of inputs with the same label", found.label_agreement.as_ref())
            }
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        self.write_head(f)?;
        self.write_costs(f)?;
        self.write_agreement(f)
    }
}

fn errors(f: &mut Formatter<'_>, errors: &Errors) -> FmtResult {
    row(f, "error of the score", errors.score.as_ref())?;
    row(f, "error of the logit", errors.logit.as_ref())
}

/// A measure is absent with too few texts, or without a text that it applies to.
fn row(f: &mut Formatter<'_>, name: &str, measure: Option<&Measure>) -> FmtResult {
    match measure {
        Some(Measure { mean, worst, worst_text }) => writeln!(f, "{name:40}{mean:>12.6}{worst:>12.6}  {worst_text}"),
        None => writeln!(f, "{name:40}{:>12}{:>12}  no text to measure", "-", "-"),
    }
}

/// Bytes in MB, or a dash if unknown.
pub(crate) fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6))
}
