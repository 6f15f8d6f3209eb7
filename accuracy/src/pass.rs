//! A pass over the texts in one type of values: answers, memory and time.

use crate::error::{AccuracyError, StartError};
use crate::memory;
use crate::texts::{Item, Question, Work};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prefold_backends::{DeviceChoice, Dtype, used_device_bytes};
use prefold_core::{
    EmbedOptions, EncodeOptions, Engine, Error, Input, LogitActivation, RerankScore, Response, ScoreRequest, Usage,
};
use serde::Serialize;
use std::time::Instant;

/// Inputs of a request to the engine. Several batches, so that the device does not wait; few, so that progress is seen.
const AT_ONCE: usize = 64;

/// A running model.
pub(crate) struct Model {
    pub(crate) engine: Engine,
    dtype: String,
    load_s: f64,
    resident_bytes: Option<u64>,
    device_bytes: Option<u64>,
    counts_peak: bool,
}

/// Answers of a pass, in the order of the work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answers {
    /// A unit vector for each text.
    Vectors(Vec<Vec<f32>>),
    /// A score for each document of each query.
    Scores(Vec<Vec<RerankScore>>),
    /// Logits and scores of the labels for each input.
    Labels(Vec<Labels>),
}

/// Logits of the labels, and what the model makes of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labels {
    pub(crate) logits: Vec<f32>,
    pub(crate) scores: Vec<f32>,
}

/// Cost of a pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) dtype: String,
    /// Seconds until the model was ready.
    pub(crate) load_s: f64,
    /// Resident memory of the process when the model was ready and nothing ran.
    pub(crate) resident_bytes: Option<u64>,
    /// The most resident memory, from the start of loading to the last answer.
    pub(crate) peak_bytes: Option<u64>,
    /// Memory of a GPU that is taken, by whomever, when the model was ready.
    pub(crate) device_bytes: Option<u64>,
    /// Tokens of all inputs, prompts included.
    pub(crate) tokens: usize,
    /// Inputs that were too long and were truncated.
    pub(crate) truncated: usize,
    /// Seconds of all requests.
    pub(crate) elapsed_s: f64,
    pub(crate) tokens_per_s: f64,
}

impl Model {
    /// Loads the model and starts its engine.
    pub(crate) fn start(
        dtype: Dtype,
        start: impl FnOnce(Dtype) -> Result<Engine, StartError>,
    ) -> Result<Self, AccuracyError> {
        let counts_peak = memory::forget_peak();
        let begun = Instant::now();
        let engine = start(dtype).map_err(|source| AccuracyError::Start { dtype: dtype.to_string(), source })?;
        let load_s = begun.elapsed().as_secs_f64();
        let device: Option<DeviceChoice> = engine.info().device.parse().ok();
        Ok(Self {
            dtype: engine.info().dtype.to_owned(),
            load_s,
            resident_bytes: memory::resident(),
            device_bytes: device.and_then(used_device_bytes).map(|bytes| bytes as u64),
            counts_peak,
            engine,
        })
    }

    /// Answers the work, stops the engine and drops the model.
    pub(crate) async fn run(self, work: &Work) -> Result<(Answers, Cost), AccuracyError> {
        let mut pass = Pass::new(&self.engine, &self.dtype, work.inputs());
        let begun = Instant::now();
        let answers = match work {
            Work::Embed(items) => pass.embed(items).await.map(Answers::Vectors),
            Work::Rerank(questions) => pass.score(questions).await.map(Answers::Scores),
            Work::Classify(items) => pass.classify(items).await.map(Answers::Labels),
        };
        let elapsed_s = begun.elapsed().as_secs_f64();
        let peak_bytes = self.counts_peak.then(memory::peak).flatten();
        pass.bar.finish_and_clear();
        let Usage { tokens, truncated_inputs, .. } = pass.usage;
        self.engine.shutdown().await;
        let Self { dtype, load_s, resident_bytes, device_bytes, .. } = self;
        let answers = answers.map_err(|source| AccuracyError::Engine { dtype: dtype.clone(), source })?;
        let cost = Cost {
            dtype,
            load_s,
            resident_bytes,
            peak_bytes,
            device_bytes,
            tokens,
            truncated: truncated_inputs,
            elapsed_s,
            tokens_per_s: tokens as f64 / elapsed_s,
        };
        Ok((answers, cost))
    }
}

impl Work {
    fn inputs(&self) -> usize {
        match self {
            Self::Embed(items) | Self::Classify(items) => items.len(),
            Self::Rerank(questions) => questions.iter().map(|question| question.documents.len()).sum(),
        }
    }
}

/// Requests to an engine.
struct Pass<'a> {
    engine: &'a Engine,
    usage: Usage,
    bar: ProgressBar,
}

impl<'a> Pass<'a> {
    fn new(engine: &'a Engine, dtype: &str, inputs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(inputs as u64), ProgressDrawTarget::stderr());
        let bar = bar.with_prefix(dtype.to_owned());
        let bar = match ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} texts {eta}") {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        };
        Self { engine, usage: Usage::default(), bar }
    }

    async fn embed(&mut self, items: &[Item]) -> Result<Vec<Vec<f32>>, Error> {
        let mut vectors = Vec::with_capacity(items.len());
        for items in items.chunks(AT_ONCE) {
            let options = EmbedOptions { encode: EncodeOptions::new("text"), normalize: true, dimensions: None };
            let response = self.engine.embed(inputs(items), options).await?;
            vectors.extend(self.count(response));
        }
        Ok(vectors)
    }

    async fn classify(&mut self, items: &[Item]) -> Result<Vec<Labels>, Error> {
        let activation = self.engine.info().capabilities.classify.as_ref().map(|classify| classify.activation);
        let activation = activation.unwrap_or(LogitActivation::Identity);
        let mut answers = Vec::with_capacity(items.len());
        for items in items.chunks(AT_ONCE) {
            let response = self.engine.classify(inputs(items), EncodeOptions::new("text")).await?;
            let labels = self.count(response).into_iter();
            answers.extend(labels.map(|logits| Labels { scores: activation.apply(&logits), logits }));
        }
        Ok(answers)
    }

    /// Queries with the same instruction share requests.
    async fn score<'q>(&mut self, questions: &'q [Question]) -> Result<Vec<Vec<RerankScore>>, Error> {
        let mut answers = Vec::with_capacity(questions.len());
        for questions in questions.chunk_by(|a, b| a.instruction == b.instruction) {
            let pairs = |question: &'q Question| question.documents.iter().map(|document| (&question.query, document));
            let pairs: Vec<(&String, &String)> = questions.iter().flat_map(pairs).collect();
            let mut scores = Vec::with_capacity(pairs.len());
            for pairs in pairs.chunks(AT_ONCE) {
                let request = ScoreRequest {
                    queries: pairs.iter().map(|pair| pair.0.clone()).collect(),
                    query_field: "query",
                    documents: pairs.iter().map(|pair| pair.1.clone()).collect(),
                    instruction: questions.first().and_then(|question| question.instruction.clone()),
                    encode: EncodeOptions::new("text"),
                };
                let response = self.engine.score(request).await?;
                scores.extend(self.count(response));
            }
            let mut scores = scores.into_iter();
            answers.extend(questions.iter().map(|question| scores.by_ref().take(question.documents.len()).collect()));
        }
        Ok(answers)
    }

    /// The results, whose cost is added.
    fn count<T>(&mut self, response: Response<T>) -> Vec<T> {
        self.usage.tokens += response.usage.tokens;
        self.usage.truncated_inputs += response.usage.truncated_inputs;
        self.bar.inc(response.results.len() as u64);
        response.results
    }
}

fn inputs(items: &[Item]) -> Vec<Input> {
    items.iter().map(|item| item.input.clone()).collect()
}
