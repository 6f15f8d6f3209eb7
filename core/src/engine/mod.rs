//! Engine: a served model with its threads, and the calls of the endpoints.

mod classify;
mod classify_tokens;
mod convert;
mod embed;
mod intake;
pub(crate) mod loaded_model;
pub(crate) mod pauses;
mod probe;
mod quotas;
mod run;
mod score;
mod tokenize;
mod validate;

use self::intake::{Accepted, Intake};
use self::loaded_model::LoadedModel;
use self::pauses::drop_aside;
use self::probe::Probe;
use self::validate::{check_count, check_input_length, check_memory, check_model};
use crate::admission::process_quotas::ProcessQuotas;
use crate::admission::queue_quota::QueueLimits;
use crate::admission::quota::Share;
use crate::admission::response_cost::ResponseLimits;
use crate::backend::{BatchLimits, Folding, ModelInfo, Replica, TokenLimits};
use crate::capabilities::{Capabilities, Task};
use crate::config::{EngineConfig, StartError};
use crate::encode::encoder::Encoder;
use crate::encode::encoders::Encoders;
use crate::encode::pool::{TokenizerPool, Turns};
use crate::encode::word_cache;
use crate::error::{BackendError, Error};
use crate::execute;
use crate::execute::pipeline::{Pipeline, PipelineConfig};
use crate::execute::warm_up::WarmUp;
use crate::flow::{Account, Priority};
use crate::non_empty::NonEmpty;
use crate::outputs::Outputs;
use crate::plan::tokens::Scope;
use crate::request::{EncodeLimits, Place};
use crate::schedule::batcher::Compaction;
use crate::schedule::budget::{AttentionRows, Budget};
use crate::schedule::interrupting::InterruptPolicy;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokenizers::Tokenizer;

/// A model with everything around it: tokenization workers, queue, planner and the backends' threads.
///
/// Clones share all of it. When the last clone is dropped, or after [`shutdown`](Self::shutdown), the
/// threads end.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    /// Share in which its calls count; each call has its own when absent.
    share: Option<Arc<Share>>,
    /// Scope in which the inputs of its calls are folded.
    scope: Scope,
    account: Account,
    /// Priority of its calls, which overrides their options.
    priority: Option<Priority>,
}

struct Inner {
    info: ModelInfo,
    config: EngineConfig,
    tokenizers: TokenizerPool,
    /// Quotas that the engine's requests share with other engines' requests.
    quotas: ProcessQuotas,
    response_limits: ResponseLimits,
    pipeline: Arc<Pipeline>,
    probe: Probe,
    replicas: usize,
    compaction: Compaction,
    intake: Intake,
    threads: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pipeline.close();
    }
}

impl Engine {
    /// Checks the configuration against the model and starts all threads. All engines of a process get the same `quotas`.
    ///
    /// # Errors
    /// [`StartError::Setting`] if a setting is out of range or too large for the device, or the tokenization workers cannot be
    /// started; [`Error::Validation`] if the model contradicts itself, [`Error::Tokenization`] if the template cannot be
    /// encoded, [`Error::Backend`] if another thread cannot be started, or the warm-up fails or has no finite answer.
    pub fn new(model: LoadedModel, config: EngineConfig, quotas: ProcessQuotas) -> Result<Self, StartError> {
        let mut info = model.backend.info().clone();
        config.check()?;
        check_model(&info, model.tokenizers.len())?;
        let interrupting = model.interrupting.is_some().then(|| interrupt_policy(&model, &config));
        check_memory(&model, &config)?;
        let longest = check_input_length(&config, info.longest_input())?;
        if longest > config.max_batch_tokens {
            let warning = format!(
                "inputs are limited to {} tokens by --max-batch-tokens, although the model takes {longest}",
                config.max_batch_tokens
            );
            Arc::make_mut(&mut info.capabilities).warnings.push(warning);
        }
        info.limit_inputs(longest.min(config.max_batch_tokens));
        let encoders = encoders(model.tokenizers, &info, &config)?;
        let tokenizers = TokenizerPool::new(encoders, config.tokenization_workers)?;
        let pipeline_config = PipelineConfig {
            budget: Budget {
                max_tokens: config.max_batch_tokens,
                max_ragged_tokens: config.ragged_tokens_limit(),
                max_sequences: config.max_batch_requests.unwrap_or(usize::MAX),
            },
            limits: QueueLimits { tokens: config.max_queued_tokens, inputs: config.max_queued_inputs },
            scheduling: config.scheduling,
            compaction: Compaction {
                folding: model.backend.folding(),
                threshold: config.radix_mlp_threshold,
                pad_to_multiple: config.radix_mlp_pad,
                max_tokens: config.max_batch_tokens,
            },
            attention: match (model.backend.folding(), info.attention) {
                (Folding::Prefix, "ragged") => AttentionRows::Ragged,
                _ => AttentionRows::Compact,
            },
            max_batch_time: config.max_batch_time(&info.device, model.backend.folding() == Folding::Prefix),
            interrupting,
        };
        let warm_up = WarmUp {
            tokens: config.warmup_tokens,
            limits: BatchLimits::of(&config),
            interrupting: pipeline_config.interrupting,
            compaction: pipeline_config.compaction,
        };
        let first = Replica { backend: model.backend, interrupting: model.interrupting };
        let all: Vec<_> = std::iter::once(first).chain(model.replicas).collect();
        let replicas = all.len();
        let (pipeline, threads, answers) = execute::spawn(all, pipeline_config, warm_up).map_err(Error::Backend)?;
        if let Some(warning) = answers.warning(info.dtype) {
            Arc::make_mut(&mut info.capabilities).warnings.push(warning);
        }
        if config.warmup_tokens > 0 {
            tokenizers.warm_up();
        }
        let inner = Inner {
            quotas,
            response_limits: ResponseLimits::new(&info.capabilities, info.longest_input()),
            info,
            config,
            tokenizers,
            pipeline,
            probe: Probe::default(),
            replicas,
            compaction: pipeline_config.compaction,
            intake: Intake::default(),
            threads: tokio::sync::Mutex::new(threads),
        };
        Ok(Self {
            inner: Arc::new(inner),
            share: None,
            scope: Scope::default(),
            account: Account::default(),
            priority: None,
        })
    }

    /// The served model. Its `max_input_length` is the effective limit, at most a batch.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// Number of backends, each of which runs its own batches.
    pub fn replicas(&self) -> usize {
        self.inner.replicas
    }

    /// The same engine for one request, whose responses count in the same `share` of [`ProcessQuotas::buffered`] as its body.
    #[must_use]
    pub fn counting_in(self, share: Arc<Share>) -> Self {
        Self { share: Some(share), ..self }
    }

    /// The same engine for requests of one scope: inputs of different scopes are never folded together.
    #[must_use]
    pub fn in_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same engine for requests of this account. A priority overrides the requests' own.
    #[must_use]
    pub fn on_account(self, account: Account, priority: Option<Priority>) -> Self {
        Self { account, priority, ..self }
    }

    /// The engine's configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.inner.config
    }

    /// Health of the engine. If the last batch failed as a whole, the answer is the result of a probe of one token, which takes the path of
    /// a request and is shared by concurrent callers. So the engine is healthy again as soon as the backend is.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`], or [`Error::Backend`] with the probe's failure or the device's.
    pub async fn health(&self) -> Result<(), Error> {
        let Inner { pipeline, intake, probe, .. } = &*self.inner;
        if let Some(error) = pipeline.lost_device() {
            return Err(Error::Backend(error));
        }
        if intake.is_closed() {
            return Err(Error::ShuttingDown);
        }
        if pipeline.failed_batches() == 0 {
            return Ok(());
        }
        let run = async {
            let wanted = Outputs::of_head(&self.info().capabilities);
            pipeline.submit_probe(wanted)?.collect().await.map(|_| ())
        };
        probe.shared(run).await
    }

    /// Time since the running forward pass began or reached its last yield point, the longest of several passes; `None` while all
    /// backends wait for work.
    pub fn silent_for(&self) -> Option<Duration> {
        self.inner.pipeline.silent_for()
    }

    /// Stops accepting requests and ends the running passes at their next yield point. Unanswered requests get
    /// [`Error::ShuttingDown`].
    pub fn stop(&self) {
        self.inner.intake.close();
        self.inner.pipeline.stop();
    }

    /// Waits until the device has failed permanently ([`BackendError::DeviceLost`](crate::BackendError::DeviceLost)). From then on
    /// every request gets that error, and so does [`health`](Self::health).
    pub async fn until_device_lost(&self) -> BackendError {
        self.inner.pipeline.until_device_lost().await
    }

    /// Stops accepting requests, waits until all accepted ones are answered, and ends the threads. May be called again.
    pub async fn shutdown(&self) {
        let Inner { pipeline, intake, threads, .. } = &*self.inner;
        intake.close();
        intake.all_over().await;
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

    /// The share in which a call counts.
    fn share(&self) -> Arc<Share> {
        self.share.clone().unwrap_or_else(|| Arc::new(self.inner.quotas.buffered().share_of(self.account)))
    }

    /// Turns of a request's items of this cost at the tokenization workers.
    fn turns<C>(&self, cost: C) -> Turns<C> {
        Turns { account: self.account, first_alone: false, cost }
    }

    fn check_count(&self, items: usize, field: &'static str) -> Result<(), Error> {
        check_count(items, field, self.config().max_request_inputs())
    }

    /// The items, if there is at least one and no more than allowed. A body may contain ten times as many.
    fn counted<T: Send + 'static>(&self, items: Vec<T>, field: &'static str) -> Result<Vec<T>, Error> {
        match self.check_count(items.len(), field) {
            Ok(()) => Ok(items),
            Err(error) => {
                drop_aside(items);
                Err(error)
            }
        }
    }

    /// Accepts one request, with its share of the quota of concurrent requests.
    fn admit(&self) -> Result<(Share, Accepted<'_>), Error> {
        let Inner { quotas, intake, .. } = &*self.inner;
        let accepted = intake.accept()?;
        let share = quotas.requests().share_of(self.account);
        share.grow(1)?;
        Ok((share, accepted))
    }

    /// Capability that a task needs.
    ///
    /// # Errors
    /// [`Error::NotCapable`] if the model lacks it.
    fn capability<T>(&self, asked: Task, part: impl Fn(&Capabilities) -> Option<&T>) -> Result<&T, Error> {
        let ModelInfo { model_type, capabilities, .. } = self.info();
        part(capabilities).ok_or_else(|| {
            let (model_type, capabilities) = (model_type.clone(), Arc::clone(capabilities));
            Error::NotCapable { asked, model_type, capabilities }
        })
    }
}

/// Limits of interrupting batches.
fn interrupt_policy(model: &LoadedModel, config: &EngineConfig) -> InterruptPolicy {
    let [due, urgent] = BatchLimits::interrupting(config);
    InterruptPolicy { replicas: 1 + model.replicas.len(), due, urgent }
}

/// Encoders of the sub-models.
///
/// # Errors
/// As [`Encoder::new`].
fn encoders(tokenizers: NonEmpty<Tokenizer>, info: &ModelInfo, config: &EngineConfig) -> Result<Encoders, Error> {
    let EngineConfig { auto_truncate, token_ids, .. } = *config;
    let template = info.capabilities.rerank_template();
    let mut sub_models = info.sub_models.iter();
    let encoder = |mut tokenizer: Tokenizer| {
        let place = Place { field: "tokenizer", index: None };
        word_cache::limit(&mut tokenizer, config.caches_words).map_err(|error| place.untokenizable(error))?;
        let TokenLimits { vocab_size, token_types, max_input_length } = *sub_models.next().unwrap_or(info.limits());
        let limits = EncodeLimits { vocab_size, token_types, max_input_length, auto_truncate, token_ids };
        Encoder::new(tokenizer, template.cloned(), limits)
    };
    Ok(Encoders::new(tokenizers.try_map(encoder)?))
}

#[cfg(test)]
mod tests;
