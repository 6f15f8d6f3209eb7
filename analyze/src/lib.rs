//! `prefold analyze`: is computing shared prefixes once worth it for these texts and this model?
//!
//! Texts become tokens as the server would make them, batches of 1 to 1024 consecutive texts become prefix trees, and
//! an Amdahl model of the decoder's operations ([`flops`]) predicts from rows and trees how much faster a
//! batch is computed. No weights are read and nothing is run.
#![forbid(unsafe_code)]

mod batches;
mod error;
mod flops;
mod input;
mod lengths;
mod progress;
mod recommend;
mod report;
mod template;

pub use error::AnalyzeError;

use batches::BatchSize;
use input::{Format, Record, Records};
use lengths::Lengths;
use prefold_backends::{ModelOutline, ModelSource, Task, outline};
use prefold_core::{EncodeLimits, EncodeOptions, Error, Input, Place, TextEncoder};
use progress::{CountedReader, Progress};
use rayon::prelude::*;
use report::{InputReport, ModelReport, Report};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use template::Template;

/// Texts in a batch. Larger batches than the last find little more.
const BATCH_SIZES: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// So many lines are read before they are encoded, in parallel.
const LINES_AT_ONCE: usize = 512;

/// What to analyse and how to tell.
#[derive(Debug, Clone, clap::Args)]
pub struct Analyze {
    /// Texts or rerank requests, one a line. Standard input when absent or `-`
    file: Option<PathBuf>,

    /// What a line is: a text (lines); a JSON string, list of strings or object (jsonl): {"text"}, {"input"}, {"inputs"},
    /// or {"query"} with {"texts"}, {"documents"} or {"passages"}; or whichever the first line looks like (auto)
    #[arg(long, default_value = "auto")]
    format: Format,

    /// What is sent of each text, with {text} or {passage} in its place, and {query} for texts that come with one; \n is a line feed
    #[arg(long)]
    template: Option<Template>,

    /// The name of the model's prompt that stands before each text. Its default prompt when absent
    #[arg(long)]
    prompt_name: Option<String>,

    /// What the model answers: embed, rerank or classify. Recognised from the model's files when absent
    #[arg(long)]
    task: Option<Task>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Analyze {
    /// Analyses for the model that is there, and prints.
    pub fn run(self, source: ModelSource) -> ExitCode {
        let printed = self.report(source).and_then(|report| {
            let text = if self.json { report.to_json()? } else { report.to_string() };
            std::io::stdout().write_all(text.as_bytes()).map_err(AnalyzeError::Write)
        });
        match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn report(&self, source: ModelSource) -> Result<Report, AnalyzeError> {
        let model = outline(&source, self.task)?;
        match self.file.as_deref().filter(|file| *file != Path::new("-")) {
            None => self.read(model, std::io::stdin().lock(), None),
            Some(path) => {
                let failed = |source| AnalyzeError::Open { path: path.display().to_string(), source };
                let file = File::open(path).map_err(failed)?;
                let size = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
                self.read(model, BufReader::new(file), size)
            }
        }
    }

    fn read(&self, model: ModelOutline, from: impl BufRead, size: Option<u64>) -> Result<Report, AnalyzeError> {
        let costs = flops::Costs::of(&model.shape);
        let mut sizes = BATCH_SIZES.map(|texts| BatchSize::new(texts, &costs));
        let mut input = InputReport::default();
        let mut lengths = Lengths::default();
        let maker = TokenMaker::new(&model, self)?;
        let progress = Progress::new(size);
        let mut records = Records::new(CountedReader::new(from, &progress), self.format);
        loop {
            let chunk = records.by_ref().take(LINES_AT_ONCE).collect::<Result<Vec<_>, _>>()?;
            if chunk.is_empty() {
                break;
            }
            input.requests += chunk.len();
            let encoded: Vec<_> = chunk.into_par_iter().map(|(line, record)| maker.tokens(line, record)).collect();
            for request in encoded {
                for ids in request? {
                    lengths.count(ids.len());
                    sizes.iter_mut().for_each(|size| size.push(&ids));
                }
            }
            progress.texts(lengths.total());
        }
        progress.finish();
        if lengths.total() == 0 {
            return Err(AnalyzeError::Empty);
        }
        input.texts = lengths.total();
        input.tokens = lengths.sum();
        input.tokens_per_text = lengths.quantiles();
        Ok(Report::new(ModelReport::new(&model, &costs), input, sizes.into(), &costs))
    }
}

/// Makes of a line the tokens that the server would make.
struct TokenMaker<'a> {
    encoder: TextEncoder,
    options: EncodeOptions,
    task: Task,
    template: Option<&'a Template>,
}

impl<'a> TokenMaker<'a> {
    fn new(model: &ModelOutline, analyze: &'a Analyze) -> Result<Self, AnalyzeError> {
        let limits = EncodeLimits {
            vocab_size: model.vocab_size,
            max_input_length: model.max_input_length,
            auto_truncate: true,
        };
        let (tokenizer, prompts) = (model.tokenizer.clone(), model.prompts.clone());
        let encoder = TextEncoder::new(tokenizer, prompts, model.template.clone(), limits)?;
        let options = EncodeOptions { prompt_name: analyze.prompt_name.clone(), ..EncodeOptions::new("text") };
        // A prompt that the model does not have is told before anything is read.
        encoder.encode(vec![], &options)?;
        Ok(Self { encoder, options, task: model.task, template: analyze.template.as_ref() })
    }

    fn tokens(&self, line: usize, record: Record) -> Result<Vec<Vec<u32>>, AnalyzeError> {
        let at_line = |source: Error| AnalyzeError::Encode { line, source };
        let inputs = self.inputs(record).map_err(|problem| AnalyzeError::Line { line, problem })?;
        self.encoder.encode(inputs, &self.options).map_err(at_line)
    }

    /// What the endpoints make of a request.
    fn inputs(&self, record: Record) -> Result<Vec<Input>, String> {
        match (record, self.template) {
            (Record::Texts(texts), None) => Ok(texts.into_iter().map(Input::Text).collect()),
            (Record::Texts(texts), Some(template)) => {
                texts.iter().map(|text| template.fill(None, text).map(Input::Text)).collect()
            }
            (Record::Rerank { query, texts, .. }, Some(template)) => {
                texts.iter().map(|text| template.fill(Some(&query), text).map(Input::Text)).collect()
            }
            (Record::Rerank { query, texts, instruction }, None) => Ok(match self.task {
                Task::Rerank => {
                    let (query, instruction): (Arc<str>, Option<Arc<str>>) = (query.into(), instruction.map(Arc::from));
                    let one = |document| {
                        let (query, instruction) = (Arc::clone(&query), instruction.clone());
                        let query_place = Place { field: "query", index: None };
                        Input::Rerank { instruction, query, query_place, document }
                    };
                    texts.into_iter().map(one).collect()
                }
                Task::Classify => texts.into_iter().map(|text| Input::Pair(query.clone(), text)).collect(),
                // The similarity of the query with each text: all of them are embedded alone.
                Task::Embed => texts.into_iter().chain([query]).map(Input::Text).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
