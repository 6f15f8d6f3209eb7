//! The engine's front: what the endpoints call.

use crate::answer_size::AnswerSizes;
use crate::batcher::Compaction;
use crate::encode::Encoder;
use crate::limits::{check_config, check_count, check_dimensions, check_memory, check_model, check_pairing};
use crate::metrics::{self, Method, observe};
use crate::parts::parts;
use crate::pipeline::{Pending, Pipeline, PipelineConfig};
use crate::postprocess::{cosine, embedding, logits, normalize, rerank_score, token_rows};
use crate::queue::{Answer, Budget};
use crate::room::QueueLimits;
use crate::tokenize::TokenizerPool;
use crate::unqueued::Unqueued;
use crate::{
    BackendError, EmbedOptions, EncodeLimits, EncodeOptions, EngineConfig, Error, Input, LoadedModel, ModelInfo,
    ModelKind, Output, Place, Prompts, RerankScore, Response, ScoreRequest, Timings, TokenInfo, Usage, Wanted, trace,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};
use tracing::Instrument;

/// A model with everything around it: tokenization workers, queue, planner and the backend's thread.
///
/// Clones share all of it. When the last clone is dropped, or after [`shutdown`](Self::shutdown), the
/// threads end.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    info: ModelInfo,
    config: EngineConfig,
    tokenizers: TokenizerPool,
    unqueued: Unqueued,
    answer_sizes: AnswerSizes,
    pipeline: Arc<Pipeline>,
    /// One for each request in the engine.
    permits: Semaphore,
    accepting: AtomicBool,
    threads: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pipeline.close();
    }
}

impl Engine {
    /// Checks the configuration against the model and starts all threads.
    ///
    /// # Errors
    /// [`Error::Validation`] names the setting that is out of range or does not fit the model, or says that the tokenization
    /// workers cannot be started; [`Error::Tokenization`] if the template cannot be encoded; [`Error::Backend`] if another
    /// thread cannot be started.
    pub fn new(model: LoadedModel, config: EngineConfig) -> Result<Self, Error> {
        let mut info = model.backend.info().clone();
        check_config(&config)?;
        check_model(&info, &model)?;
        check_memory(model.backend.as_ref(), &config)?;
        if info.max_input_length > config.max_batch_tokens {
            tracing::warn!(
                max_input_length = info.max_input_length,
                max_batch_tokens = config.max_batch_tokens,
                "inputs are limited to what fits a batch"
            );
            info.max_input_length = config.max_batch_tokens;
        }
        let limits = EncodeLimits {
            vocab_size: info.vocab_size,
            max_input_length: info.max_input_length,
            auto_truncate: config.auto_truncate,
        };
        let encoder = Encoder::new(model.tokenizer, model.prompts, model.template, limits)?;
        let tokenizers = TokenizerPool::new(encoder, config.tokenization_workers)?;
        let pipeline_config = PipelineConfig {
            budget: Budget {
                max_tokens: config.max_batch_tokens,
                max_ragged_tokens: config.ragged_tokens_limit(),
                max_sequences: config.max_batch_requests.unwrap_or(usize::MAX),
            },
            limits: QueueLimits { tokens: config.max_queued_tokens, inputs: config.max_queued_inputs },
            scheduling: config.scheduling,
            compaction: Compaction {
                threshold: config.radix_mlp_threshold,
                pad_to_multiple: config.pad_to_multiple,
                max_tokens: config.max_batch_tokens,
            },
        };
        let (pipeline, threads) = Pipeline::spawn(model.backend, pipeline_config)
            .map_err(|error| BackendError::Compute(format!("could not start a thread: {error}")))?;
        let inner = Inner {
            permits: Semaphore::new(config.max_concurrent_requests),
            unqueued: Unqueued::default(),
            answer_sizes: AnswerSizes::new(&info),
            info,
            config,
            tokenizers,
            pipeline,
            accepting: AtomicBool::new(true),
            threads: tokio::sync::Mutex::new(threads.into()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What is served. `max_input_length` is the limit that holds here: never more than a batch takes.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// What the engine was configured with.
    pub fn config(&self) -> &EngineConfig {
        &self.inner.config
    }

    /// The model's prompts.
    pub fn prompts(&self) -> &Prompts {
        self.inner.tokenizers.encoder().prompts()
    }

    /// One vector for each input.
    ///
    /// # Errors
    /// [`Error::WrongModelKind`] unless the model makes embeddings, [`Error::Validation`] for `dimensions` out of
    /// range, and whatever admission, encoding or the forward pass report.
    pub async fn embed(&self, inputs: Vec<Input>, options: EmbedOptions) -> Result<Response<Vec<f32>>, Error> {
        observe(Method::Embed, inputs.len(), async {
            let dim = self.embedding_dim("embedding")?;
            let kept = check_dimensions(options.dimensions, dim)?;
            self.check_count(inputs.len(), options.encode.field)?;
            let response = self.run(one_field(inputs, options.encode.field), &options.encode, Wanted::Pooled).await?;
            try_map(response, |output| {
                let mut vector = embedding(output, dim)?;
                vector.truncate(kept);
                if options.normalize {
                    normalize(&mut vector);
                }
                Ok(vector)
            })
        })
        .await
    }

    /// One vector for each token of each input.
    ///
    /// # Errors
    /// As [`embed`](Self::embed).
    pub async fn embed_tokens(
        &self,
        inputs: Vec<Input>,
        options: EncodeOptions,
    ) -> Result<Response<Vec<Vec<f32>>>, Error> {
        observe(Method::EmbedAll, inputs.len(), async {
            self.embedding_dim("embedding")?;
            self.check_count(inputs.len(), options.field)?;
            let response = self.run(one_field(inputs, options.field), &options, Wanted::Tokens).await?;
            try_map(response, token_rows)
        })
        .await
    }

    /// A score for each document, in the order of the documents: against the one query, or against the query at the
    /// same place.
    ///
    /// A reranker answers with its yes against its no, a classifier with its single logit, an embedding
    /// model with the cosine of query and document.
    ///
    /// # Errors
    /// [`Error::WrongModelKind`] for a classifier with more than one label, [`Error::Validation`] for several queries
    /// that are not as many as the documents, and whatever admission, encoding or the forward pass report.
    pub async fn score(&self, request: ScoreRequest) -> Result<Response<RerankScore>, Error> {
        observe(Method::Rerank, request.documents.len(), async {
            check_pairing(&request)?;
            // The queries are inputs too where they are embedded, but not what the limit is about.
            self.check_count(request.documents.len(), request.encode.field)?;
            match &self.info().kind {
                ModelKind::Embedding { dim, .. } => self.score_by_cosine(request, *dim).await,
                ModelKind::Reranker => {
                    let instruction: Option<Arc<str>> = request.instruction.as_deref().map(Arc::from);
                    let input = |(query_place, query), document| Input::Rerank {
                        instruction: instruction.clone(),
                        query,
                        query_place,
                        document,
                    };
                    self.score_pairs(request, input).await
                }
                ModelKind::Classifier { labels } if labels.len() == 1 => {
                    self.score_pairs(request, |(_, query), document| Input::Pair(query.as_ref().to_owned(), document))
                        .await
                }
                ModelKind::Classifier { .. } => Err(self.wrong_kind("reranking")),
            }
        })
        .await
    }

    async fn score_pairs(
        &self,
        request: ScoreRequest,
        input: impl Fn((Place, Arc<str>), String) -> Input,
    ) -> Result<Response<RerankScore>, Error> {
        let ScoreRequest { queries, query_field, documents, encode, .. } = request;
        let queries = one_field(queries.into_iter().map(Arc::<str>::from).collect(), query_field);
        // One query is repeated for all documents; otherwise there are as many.
        let pairs = queries.iter().cycle().cloned().zip(documents);
        let inputs = pairs.map(|(query, document)| input(query, document)).collect();
        let response = self.run(one_field(inputs, encode.field), &encode, Wanted::Pooled).await?;
        try_map(response, rerank_score)
    }

    async fn score_by_cosine(&self, request: ScoreRequest, dim: usize) -> Result<Response<RerankScore>, Error> {
        let ScoreRequest { queries, query_field, documents, encode, .. } = request;
        let texts = |texts: Vec<String>, field| one_field(texts.into_iter().map(Input::Text).collect(), field);
        let num_documents = documents.len();
        let mut inputs = texts(documents, encode.field);
        inputs.extend(texts(queries, query_field));
        let response = self.run(inputs, &encode, Wanted::Pooled).await?;
        let mut vectors = try_map(response, |output| embedding(output, dim))?;
        let queries = vectors.results.split_off(num_documents);
        Ok(vectors.map(|documents| {
            let cosines = queries.iter().cycle().zip(&documents).map(|(query, document)| cosine(query, document));
            cosines.map(|cosine| RerankScore { raw: cosine, score: cosine }).collect()
        }))
    }

    /// The logits of each input, one for each label.
    ///
    /// # Errors
    /// [`Error::WrongModelKind`] unless the model is a classifier, and whatever admission, encoding or the forward
    /// pass report.
    pub async fn classify(&self, inputs: Vec<Input>, options: EncodeOptions) -> Result<Response<Vec<f32>>, Error> {
        observe(Method::Predict, inputs.len(), async {
            let ModelKind::Classifier { labels } = &self.info().kind else {
                return Err(self.wrong_kind("classification"));
            };
            self.check_count(inputs.len(), options.field)?;
            let response = self.run(one_field(inputs, options.field), &options, Wanted::Pooled).await?;
            try_map(response, |output| {
                let logits = logits(output)?;
                if logits.len() == labels.len() {
                    return Ok(logits);
                }
                Err(BackendError::Contract(format!("{} logits for {} labels", logits.len(), labels.len())))
            })
        })
        .await
    }

    /// The tokens of each text, with its prompt and special tokens; never truncated.
    ///
    /// # Errors
    /// [`Error::Validation`] for an unknown prompt or for more than a request may bring, [`Error::Tokenization`],
    /// and what admission reports.
    pub async fn tokenize(&self, texts: Vec<String>, options: EncodeOptions) -> Result<Vec<Vec<TokenInfo>>, Error> {
        observe(Method::Tokenize, texts.len(), async {
            let Inner { tokenizers, unqueued, .. } = &*self.inner;
            self.check_count(texts.len(), options.field)?;
            let rules = tokenizers.encoder().rules(&options)?;
            let bytes = texts.iter().map(|text| text.len() + rules.prompt_len() + 1).sum();
            let _permit = self.admit()?;
            let _part = unqueued.enter(options.field, bytes, "bytes of text with its prompts and one for each text")?;
            tokenizers.tokens(one_field(texts, options.field), rules).await
        })
        .await
    }

    /// The text of each list of ids.
    ///
    /// # Errors
    /// [`Error::Validation`] for an id beyond the vocabulary or for more than a request may bring,
    /// [`Error::Tokenization`], and what admission reports.
    pub async fn decode(&self, ids: Vec<Vec<u32>>, skip_special_tokens: bool) -> Result<Vec<String>, Error> {
        observe(Method::Decode, ids.len(), async {
            let Inner { tokenizers, unqueued, .. } = &*self.inner;
            self.check_count(ids.len(), "ids")?;
            let _permit = self.admit()?;
            let _part = unqueued.enter("ids", ids.iter().map(Vec::len).sum(), "ids in all")?;
            tokenizers.decode(one_field(ids, "ids"), skip_special_tokens).await
        })
        .await
    }

    /// Whether requests are being answered. While the last batch failed as a whole, one token goes the way of all
    /// requests, and its fate is the answer; so the engine is well again as soon as the backend is.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`], or [`Error::Backend`] with what the probe met.
    pub async fn health(&self) -> Result<(), Error> {
        let Inner { pipeline, accepting, .. } = &*self.inner;
        if !accepting.load(Ordering::SeqCst) {
            return Err(Error::ShuttingDown);
        }
        if pipeline.failed_batches() == 0 {
            return Ok(());
        }
        pipeline.submit_probe()?.collect().await.map(|_| ())
    }

    /// How long the forward pass that runs now has been running; `None` while the backend waits for work.
    pub fn busy_for(&self) -> Option<Duration> {
        self.inner.pipeline.busy_for()
    }

    /// Stops accepting, waits until everything accepted is answered, and ends the threads. May be called again.
    pub async fn shutdown(&self) {
        let Inner { pipeline, permits, accepting, threads, config, .. } = &*self.inner;
        accepting.store(false, Ordering::SeqCst);
        // All permits back means that no request is left; a closed semaphore, that another call has waited.
        let all = u32::try_from(config.max_concurrent_requests).unwrap_or(u32::MAX);
        if permits.acquire_many(all).await.is_ok() {
            permits.close();
        }
        pipeline.close();
        let mut threads = threads.lock().await;
        let handles = std::mem::take(&mut *threads);
        let joined =
            tokio::task::spawn_blocking(move || handles.into_iter().filter_map(|thread| thread.join().err()).count());
        match joined.await {
            Ok(0) => {}
            Ok(panicked) => tracing::error!(panicked, "threads of the engine ended with a panic"),
            Err(error) => tracing::error!(%error, "the engine's threads could not be joined"),
        }
    }

    /// Of as many inputs as the caller has checked: admission, encoding, queue, forward pass; a large request part by
    /// part, so that its parts are encoded while others are computed and never fill the queue. Dropped on the way, it
    /// leaves nothing behind.
    async fn run(
        &self,
        inputs: Vec<(Place, Input)>,
        options: &EncodeOptions,
        wanted: Wanted,
    ) -> Result<Response<Output>, Error> {
        let Inner { tokenizers, pipeline, config, answer_sizes, .. } = &*self.inner;
        let arrival = Instant::now();
        let rules = Arc::new(tokenizers.encoder().rules(options)?);
        let _permit = self.admit()?;
        let mut size = answer_sizes.begin(wanted);
        if wanted == Wanted::Pooled {
            size.grow(inputs.len(), options.field)?;
        }
        let mut usage = Usage::default();
        let mut tokenization = Duration::ZERO;
        let mut answers = Vec::with_capacity(inputs.len());
        let mut before: Option<Pending> = None;
        let mut inputs = inputs.into_iter();
        loop {
            let part: Vec<_> = inputs.by_ref().take(config.max_client_batch_size).collect();
            if part.is_empty() {
                break;
            }
            let begun = Instant::now();
            let span = tracing::debug_span!(target: trace::TARGET, "tokenize", inputs = part.len() as i64);
            let encoded = tokenizers.encode(part, Arc::clone(&rules)).instrument(span).await?;
            tokenization += begun.elapsed();
            let before_part = usage.tokens;
            for input in &encoded {
                usage.characters += input.characters;
                usage.tokens += input.input_ids.len();
                metrics::input_length(input.input_ids.len());
            }
            if wanted == Wanted::Tokens {
                size.grow(usage.tokens - before_part, options.field)?;
            }
            let sequences = encoded.into_iter().map(|input| input.input_ids).collect();
            for sequences in parts(sequences, pipeline.limits()) {
                let pending = match before {
                    None => pipeline.submit(sequences, wanted)?,
                    Some(_) => pipeline.submit_when_room(sequences, wanted).await?,
                };
                if let Some(before) = before.replace(pending) {
                    answers.extend(before.collect().await?);
                }
            }
        }
        if let Some(last) = before {
            answers.extend(last.collect().await?);
        }
        let timings = mean_timings(&answers);
        usage.computed_tokens = answers.iter().map(|answer| answer.computed_tokens).sum();
        (usage.batch_tokens, usage.batch_unique_tokens) = batch_tokens(&answers);
        Ok(Response {
            results: answers.into_iter().map(|answer| answer.output).collect(),
            usage,
            timings: Timings { total: arrival.elapsed(), tokenization, ..timings },
            size: Some(Arc::new(size)),
        })
    }

    fn check_count(&self, items: usize, field: &'static str) -> Result<(), Error> {
        check_count(items, field, self.config().max_request_inputs())
    }

    fn admit(&self) -> Result<SemaphorePermit<'_>, Error> {
        let Inner { permits, accepting, config, .. } = &*self.inner;
        let permit = permits.try_acquire();
        // Asked after the permit was taken: a shutdown that did not see the permit is seen here.
        if !accepting.load(Ordering::SeqCst) {
            return Err(Error::ShuttingDown);
        }
        permit.map_err(|error| match error {
            TryAcquireError::Closed => Error::ShuttingDown,
            TryAcquireError::NoPermits => {
                let limit = config.max_concurrent_requests;
                Error::Overloaded(format!("{limit} requests at once is the limit (--max-concurrent-requests)"))
            }
        })
    }

    fn embedding_dim(&self, task: &str) -> Result<usize, Error> {
        match self.info().kind {
            ModelKind::Embedding { dim, .. } => Ok(dim),
            _ => Err(self.wrong_kind(task)),
        }
    }

    fn wrong_kind(&self, task: &str) -> Error {
        let served = match &self.info().kind {
            ModelKind::Embedding { .. } => {
                "makes embeddings; use /v1/embeddings, /embed or /embed_all, or /rerank and /v1/score for cosines"
                    .to_owned()
            }
            ModelKind::Reranker => "is a reranker; use /rerank, /v1/rerank or /v1/score".to_owned(),
            ModelKind::Classifier { labels } if labels.len() == 1 => {
                "is a classifier with one label; use /predict, /v1/classify, /rerank or /v1/score".to_owned()
            }
            ModelKind::Classifier { labels } => {
                format!("is a classifier with {} labels; use /predict or /v1/classify", labels.len())
            }
        };
        Error::WrongModelKind(format!("{task} is not possible: the served model ({}) {served}", self.info().model_type))
    }
}

fn try_map<T, U>(response: Response<T>, f: impl FnMut(T) -> Result<U, BackendError>) -> Result<Response<U>, Error> {
    let Response { results, usage, timings, size } = response;
    let results = results.into_iter().map(f).collect::<Result<_, _>>()?;
    Ok(Response { results, usage, timings, size })
}

/// Items of one field, each with its place.
fn one_field<T>(items: Vec<T>, field: &'static str) -> Vec<(Place, T)> {
    let several = items.len() > 1;
    let place = |index| Place { field, index: several.then_some(index) };
    items.into_iter().enumerate().map(|(index, item)| (place(index), item)).collect()
}

fn mean_timings(answers: &[Answer]) -> Timings {
    let count = u32::try_from(answers.len()).unwrap_or(u32::MAX).max(1);
    let mean = |part: fn(&Answer) -> Duration| answers.iter().map(part).sum::<Duration>() / count;
    Timings {
        queue: mean(|answer| answer.queue),
        planning: mean(|answer| answer.batch.planning),
        inference: mean(|answer| answer.batch.inference),
        ..Timings::default()
    }
}

/// N and N', summed over the distinct batches.
fn batch_tokens(answers: &[Answer]) -> (usize, usize) {
    let batches: BTreeMap<u64, _> = answers.iter().map(|answer| (answer.batch.id, &answer.batch)).collect();
    batches.values().fold((0, 0), |(n, unique), batch| (n + batch.total_tokens, unique + batch.unique_tokens))
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
