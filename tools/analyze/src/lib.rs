//! `prefold analyze`: predicts whether compaction pays off for given texts and a model.
//!
//! Texts are tokenized as by the server, and batches of 1 to 1024 consecutive texts become prefix trees. An Amdahl model
//! of the decoder's operations ([`flops`]) predicts the speed-up from both. No weights are read and no model is run.
#![forbid(unsafe_code)]

mod batches;
mod error;
mod flops;
mod lengths;
mod progress;
mod recommend;
mod report;
mod template;
mod words;

pub use error::AnalyzeError;

use batches::BatchSize;
use lengths::Lengths;
use prefold_backends::{ModelSource, ModelSummary, model_summary};
use prefold_core::{
    EncodeLimits, EncodeOptions, Error, Folding, ForeignIds, Input, Prompt, Rerank, ScoreRequest, Task, TextEncoder,
};
use prefold_tools::records::{self, Format, InputError, Record, Records};
use progress::{CountedReader, Progress};
use rayon::prelude::*;
use report::{InputReport, ModelReport, Report};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use template::TextTemplate;

/// Texts per batch. Batches larger than the last size share little more.
const BATCH_SIZES: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Lines encoded in parallel at a time.
const LINES_AT_ONCE: usize = 512;

/// Flags of `prefold analyze`.
#[derive(Debug, Clone, clap::Args)]
pub struct Analyze {
    /// File with one text or rerank request per line. Default, or `-`: standard input
    file: Option<PathBuf>,

    /// Format of a line: a text (lines); a JSON string, list of strings or object (jsonl) with {"text"}, {"input"},
    /// {"inputs"}, or {"query"} with {"texts"}, {"documents"} or {"passages"}; or detected from the first line (auto)
    #[arg(long, default_value = "auto")]
    format: Format,

    /// Template of each text: {text} or {passage} is the text, {query} its query, \n a line feed
    #[arg(long)]
    template: Option<TextTemplate>,

    /// Name of the model's prompt for each text. Default: the model's default prompt
    #[arg(long)]
    prompt_name: Option<String>,

    /// Task of the model: embed, rerank, classify or classify-tokens. Default: recognised from the model's files
    #[arg(long)]
    task: Option<Task>,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Analyze {
    /// Analyses the input for the model and prints the report.
    ///
    /// `model_flags` are the words of the command line that make the server use the same model.
    pub fn run(self, source: ModelSource, model_flags: Vec<String>) -> ExitCode {
        let printed = self.report(source, model_flags).and_then(|report| {
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

    fn report(&self, source: ModelSource, model_flags: Vec<String>) -> Result<Report, AnalyzeError> {
        let file = records::open(self.file.as_deref().unwrap_or(Path::new("-")))?;
        let model = model_summary(&source, self.task)?;
        if model.folding == Folding::Whole {
            return Err(AnalyzeError::NoPrefixes { model_type: model.model_type });
        }
        let flags = [model_flags, self.server_flags()].concat();
        let Some(file) = file else { return self.read(model, flags, std::io::stdin().lock(), None) };
        let size = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
        self.read(model, flags, BufReader::new(file), size)
    }

    /// Flags of the server that correspond to the flags of the analysis.
    fn server_flags(&self) -> Vec<String> {
        let flags = [
            ("--task", self.task.map(|task| task.as_str().to_owned())),
            ("--default-prompt-name", self.prompt_name.clone()),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }

    fn read(
        &self,
        model: ModelSummary,
        flags: Vec<String>,
        from: impl BufRead,
        size: Option<u64>,
    ) -> Result<Report, AnalyzeError> {
        let costs = flops::Costs::of(&model.shape);
        let mut sizes = BATCH_SIZES.map(|texts| BatchSize::new(texts, &costs));
        let mut input = InputReport::default();
        let mut lengths = Lengths::default();
        let tokenizer = LineTokenizer::new(&model, self)?;
        let progress = Progress::new(size);
        let mut records = Records::new(CountedReader::new(from, &progress), self.format);
        loop {
            let chunk = records.by_ref().take(LINES_AT_ONCE).collect::<Result<Vec<_>, _>>()?;
            if chunk.is_empty() {
                break;
            }
            input.requests += chunk.len();
            let encoded: Vec<_> = chunk.into_par_iter().map(|(line, record)| tokenizer.tokens(line, record)).collect();
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
        Ok(Report::new(ModelReport::new(&model, &costs), input, sizes.into(), flags))
    }
}

/// Tokenizes lines as the server does.
struct LineTokenizer<'a> {
    encoder: TextEncoder,
    options: EncodeOptions,
    /// Encoding of a query and a text as the model scores them. A model that does not score pairs encodes them as a pair of texts.
    rerank: Rerank,
    template: Option<&'a TextTemplate>,
}

impl<'a> LineTokenizer<'a> {
    fn new(model: &ModelSummary, analyze: &'a Analyze) -> Result<Self, AnalyzeError> {
        let limits = EncodeLimits {
            token_types: 0,
            vocab_size: model.vocab_size,
            max_input_length: model.capabilities.max_input_length,
            auto_truncate: true,
            token_ids: ForeignIds::Accept,
        };
        let encoder = TextEncoder::new(model.tokenizer.clone(), model.capabilities.clone(), limits)?;
        let options =
            EncodeOptions { prompt: analyze.prompt_name.clone().map(Prompt::Named), ..EncodeOptions::new("text") };
        // An unknown prompt is refused before the input is read.
        encoder.encode(vec![], &options)?;
        let rerank = model.capabilities.rerank.clone().unwrap_or(Rerank::Pair);
        Ok(Self { encoder, options, rerank, template: analyze.template.as_ref() })
    }

    fn tokens(&self, line: usize, record: Record) -> Result<Vec<Vec<u32>>, AnalyzeError> {
        let at_line = |source: Error| AnalyzeError::Encode { line, source };
        let inputs = self.inputs(record).map_err(|problem| InputError::Line { line, problem })?;
        self.encoder.encode(inputs, &self.options).map_err(at_line)
    }

    /// The inputs that the server's routes derive from a request.
    fn inputs(&self, record: Record) -> Result<Vec<Input>, String> {
        match (record, self.template) {
            (Record::Texts(texts), None) => Ok(texts.into_iter().map(Input::Text).collect()),
            (Record::Texts(texts), Some(template)) => {
                texts.iter().map(|text| template.fill(None, text).map(Input::Text)).collect()
            }
            (Record::Rerank { query, texts, .. }, Some(template)) => {
                texts.iter().map(|text| template.fill(Some(&query), text).map(Input::Text)).collect()
            }
            (Record::Rerank { query, texts, instruction }, None) => {
                let (queries, query_field, encode) = (vec![query], "query", self.options.clone());
                let request = ScoreRequest { queries, query_field, documents: texts, instruction, encode };
                Ok(request.into_inputs(&self.rerank).0.into_iter().map(|(_, input)| input).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests;
