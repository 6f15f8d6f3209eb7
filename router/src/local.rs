//! A model in this process: the answers of the routes without HTTP.

use crate::cli::settings;
use crate::loading::{self, StartError};
use crate::routes::info::Info;
use crate::routes::predict::{activation, labels, predictions};
use crate::routes::ranked::rank;
use crate::state::model_names::ModelNames;
use crate::wire::encode_fields::EncodeFields;
use crate::wire::prompt::{AskedType, Choices, PromptFields};
use prefold_core::{
    EmbedOptions, EncodeOptions, Engine, EngineConfig, Error, Input, LogitActivation, ProcessLimits, ProcessQuotas,
    ScoreRequest, TokenInfo,
};
use std::convert::identity;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error as ThisError;
use toml::Table;

/// Engine of a model, and its names. Clones share it. Answers have the same bits as the server's.
#[derive(Clone)]
pub struct LocalModel {
    engine: Engine,
    names: ModelNames,
}

/// Failure to load a model. Messages are sentences that name the setting or the file.
#[derive(Debug, Clone, ThisError)]
pub enum LocalModelError {
    /// A setting is unknown, out of its range or contradicts another.
    #[error("{0}")]
    Setting(String),
    /// The model cannot be downloaded, read or run.
    #[error("{0}")]
    Load(String),
}

/// Options of encoding texts; `None` is the model's or the engine's default.
#[derive(Debug, Clone, Default)]
pub struct TextOptions {
    /// Name of the model's prompt to put before each text.
    pub prompt_name: Option<String>,
    /// Prompt to put before each text.
    pub prompt: Option<String>,
    /// Type of the texts, such as `query`: selects the model's prompt of that name, if it has one.
    pub input_type: Option<String>,
    /// Task of the texts: selects the model's adapter or sub-model of that name; without these, its prompt for the task.
    pub task: Option<String>,
    /// Truncate texts that are too long instead of rejecting them.
    pub truncate: Option<bool>,
    /// Leave the tokenizer's special tokens out.
    pub without_special_tokens: bool,
}

/// Vectors of texts, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// Values, `[rows, dim]`.
    pub values: Vec<f32>,
    /// Number of vectors.
    pub rows: usize,
    /// Values of a vector.
    pub dim: usize,
    /// Time of the forward pass, mean over the texts.
    pub inference: Duration,
}

/// A document's index in its request, and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedDocument {
    /// Index among the documents.
    pub index: usize,
    /// Probability or cosine similarity; a logit for raw scores.
    pub score: f32,
}

impl LocalModel {
    /// Loads a model by its hub id, directory or file, or the built-in one, and starts its engine; blocks meanwhile. `settings` has the
    /// flags of model and batching. Queue limits, which protect a server from its clients, apply only if `settings` has them.
    ///
    /// # Errors
    /// See [`LocalModelError`].
    pub fn load(model: Option<&str>, settings: &Table) -> Result<Self, LocalModelError> {
        let mut config = settings::config(model, settings).map_err(LocalModelError::Setting)?;
        without_limits(&mut config.engine, &mut config.limits, settings);
        let start = || {
            let quotas = ProcessQuotas::new(config.limits)?;
            loading::start_engine(&config.load, identity, config.engine, quotas)
        };
        let engine = start().map_err(|error| match error {
            StartError::Setting(_) => LocalModelError::Setting(error.to_string()),
            StartError::Load(_) | StartError::Engine(_) => LocalModelError::Load(error.to_string()),
        })?;
        Ok(Self { engine, names: config.names })
    }

    /// The answer of `/info`, in JSON.
    ///
    /// # Errors
    /// It cannot be written in JSON.
    pub fn info(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Info::new(&self.engine, &self.names, None))
    }

    /// Maximum inputs per call; [`Error::BatchTooLarge`] beyond.
    pub fn max_inputs(&self) -> usize {
        self.engine.config().max_request_inputs()
    }

    /// Vectors as `/embed` returns them, for all texts in one buffer. Without `normalize`, the model's own modules decide the scale.
    ///
    /// # Errors
    /// The errors of [`Engine::embed`], about the field `texts`.
    pub async fn embed(
        &self,
        texts: Vec<String>,
        options: TextOptions,
        normalize: Option<bool>,
        dimensions: Option<usize>,
    ) -> Result<Vectors, Error> {
        let options = EmbedOptions { encode: self.options(options)?, normalize, dimensions };
        let answered = self.engine.embed(texts.into_iter().map(Input::Text).collect(), options).await?;
        let (vectors, inference) = (answered.results, answered.timings.inference);
        let (rows, dim) = (vectors.len(), vectors.first().map_or(0, Vec::len));
        let mut values = Vec::with_capacity(rows * dim);
        vectors.iter().for_each(|vector| values.extend_from_slice(vector));
        Ok(Vectors { values, rows, dim, inference })
    }

    /// At most `top_n` documents as `/rerank` orders them, the best first. `raw`: logits instead of probabilities.
    ///
    /// # Errors
    /// The errors of [`Engine::score`], about the fields `query` and `texts`.
    pub async fn rerank(
        &self,
        query: String,
        texts: Vec<String>,
        instruction: Option<String>,
        options: TextOptions,
        (raw, top_n): (bool, Option<usize>),
    ) -> Result<Vec<RankedDocument>, Error> {
        if top_n == Some(0) {
            return Err(Error::invalid("top_n", "is 0; it must be at least 1"));
        }
        let encode = self.options(options)?;
        let request =
            ScoreRequest { queries: vec![query], query_field: "query", documents: texts, instruction, encode };
        let scores = self.engine.score(request).await?.results;
        let ranked = rank(&scores, raw, top_n).await.into_iter();
        Ok(ranked.map(|ranked| RankedDocument { index: ranked.index, score: ranked.score }).collect())
    }

    /// Labels with their scores as `/predict` answers them: for each text or pair, the best first. `raw`: logits instead of probabilities.
    ///
    /// # Errors
    /// The errors of [`Engine::classify`], about the field `texts`.
    pub async fn classify(
        &self,
        inputs: Vec<Input>,
        options: TextOptions,
        raw: bool,
    ) -> Result<Vec<Vec<(String, f32)>>, Error> {
        let logits = self.engine.classify(inputs, self.options(options)?).await?.results;
        let capabilities = Arc::clone(&self.engine.info().capabilities);
        let activation = if raw { LogitActivation::Identity } else { activation(&capabilities) };
        let labelled = |logits: Vec<f32>| {
            let predictions = predictions(&logits, labels(&capabilities), activation);
            predictions.map(|prediction| (prediction.label.into_owned(), prediction.score)).collect()
        };
        Ok(logits.into_iter().map(labelled).collect())
    }

    /// Tokens of each text as `/tokenize` answers them.
    ///
    /// # Errors
    /// The errors of [`Engine::tokenize`], about the field `texts`.
    pub async fn tokenize(&self, texts: Vec<String>, options: TextOptions) -> Result<Vec<Vec<TokenInfo>>, Error> {
        self.engine.tokenize(texts, self.options(options)?).await
    }

    fn options(&self, options: TextOptions) -> Result<EncodeOptions, Error> {
        let TextOptions { prompt_name, prompt, input_type, task, truncate, without_special_tokens } = options;
        let input_type = input_type.map(AskedType::from);
        let prompt = PromptFields { prompt_name, prompt, input_type, task };
        let add_special_tokens = Some(!without_special_tokens);
        let fields = EncodeFields { truncate, prompt, add_special_tokens, ..Default::default() };
        fields.options("texts", Choices::of(&self.engine.info().capabilities), |_, _| Ok(()))
    }
}

/// Raises the limits that `settings` does not set, so that calls wait instead of being refused.
fn without_limits(engine: &mut EngineConfig, process: &mut ProcessLimits, settings: &Table) {
    let given = |name: &str| settings.keys().any(|key| key.replace('-', "_") == name);
    process.max_buffered_bytes = usize::MAX;
    for (name, limit) in [
        ("max_concurrent_requests", &mut process.max_concurrent_requests),
        ("max_queued_tokens", &mut engine.max_queued_tokens),
        ("max_queued_inputs", &mut engine.max_queued_inputs),
    ] {
        if !given(name) {
            *limit = usize::MAX;
        }
    }
}
