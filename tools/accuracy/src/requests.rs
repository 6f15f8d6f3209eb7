//! Requests to an engine, a few batches at a time, with a progress bar.

use crate::answers::Scored;
use crate::texts::{Item, Question, Work};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prefold_core::{EmbedOptions, EncodeOptions, Engine, Error, Input, LogitActivation, Response, ScoreRequest, Usage};

/// Inputs per request to the engine: several batches, so that the device does not wait, but few, so that progress is visible.
const AT_ONCE: usize = 64;

/// Requests to an engine, and their cost so far.
pub(crate) struct Requests<'a> {
    engine: &'a Engine,
    usage: Usage,
    bar: ProgressBar,
}

impl<'a> Requests<'a> {
    /// The progress bar is on standard error, if that is a terminal.
    pub(crate) fn new(engine: &'a Engine, inputs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(inputs as u64), ProgressDrawTarget::stderr());
        let bar = bar.with_prefix(engine.info().dtype);
        let bar = match ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} texts {eta}") {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        };
        Self { engine, usage: Usage::default(), bar }
    }

    /// Cost of all requests.
    pub(crate) fn finish(self) -> Usage {
        self.bar.finish_and_clear();
        self.usage
    }

    /// A unit vector for each text.
    pub(crate) async fn embed(&mut self, items: &[Item]) -> Result<Vec<Vec<f32>>, Error> {
        let mut vectors = Vec::with_capacity(items.len());
        for items in items.chunks(AT_ONCE) {
            let options = EmbedOptions { encode: EncodeOptions::new("text"), normalize: Some(true), dimensions: None };
            let response = self.engine.embed(inputs(items), options).await?;
            vectors.extend(self.count(response));
        }
        Ok(vectors)
    }

    /// Logits and scores of the labels for each input.
    pub(crate) async fn classify(&mut self, items: &[Item]) -> Result<Vec<Scored>, Error> {
        let activation = self.engine.info().capabilities.classify.as_ref().map(|classify| classify.activation);
        let activation = activation.unwrap_or(LogitActivation::Identity);
        let mut answers = Vec::with_capacity(items.len());
        for items in items.chunks(AT_ONCE) {
            let response = self.engine.classify(inputs(items), EncodeOptions::new("text")).await?;
            let labels = self.count(response).into_iter();
            answers.extend(labels.map(|logits| Scored { scores: activation.apply(&logits), logits }));
        }
        Ok(answers)
    }

    /// Logits and scores of the documents of each query. Queries with the same instruction share requests.
    pub(crate) async fn score<'q>(&mut self, questions: &'q [Question]) -> Result<Vec<Scored>, Error> {
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
            answers.extend(questions.iter().map(|question| {
                let (logits, scores) =
                    scores.by_ref().take(question.documents.len()).map(|score| (score.raw, score.score)).unzip();
                Scored { logits, scores }
            }));
        }
        Ok(answers)
    }

    /// Waits for the results and adds their cost.
    fn count<T>(&mut self, response: Response<T>) -> Vec<T> {
        self.usage.tokens += response.usage.tokens;
        self.usage.truncated_inputs += response.usage.truncated_inputs;
        self.bar.inc(response.results.len() as u64);
        response.results
    }
}

impl Work {
    /// Number of answers.
    pub(crate) fn inputs(&self) -> usize {
        match self {
            Self::Embed(items) | Self::Classify(items) => items.len(),
            Self::Rerank(questions) => questions.iter().map(|question| question.documents.len()).sum(),
        }
    }
}

fn inputs(items: &[Item]) -> Vec<Input> {
    items.iter().map(Item::input).collect()
}
