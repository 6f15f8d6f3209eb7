//! Heads: from pooled states to answers.

use super::head_layers::{HeadLayer, apply, classifier_layers};
use super::layout::AnswerRows;
use crate::checkpoint::{HeadSource, RerankToken, VectorModule};
use crate::config::{HeadActivation, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::formats::gguf::{CLASS_ROWS, ClassRows};
use crate::ops::{self, Linear, Pool, Yields, block_rows};
use candle_core::{Device, Result, Tensor};
use prefold_core::{Batch, Output, OutputKind, Outputs, Pooling, TaskId, Values};
use prefold_kernels::PackedMatrix;

/// Layers from the pooled state of a sequence to its answer, computed in `f32` on the host.
#[derive(Debug)]
pub(super) struct Head {
    pooling: Vec<Pooling>,
    /// Applied in order; empty for a plain embedding.
    layers: Vec<HeadLayer>,
    /// Layers after them, chosen by the task of a text; empty in most models.
    routes: Vec<Vec<HeadLayer>>,
    /// `route_of[task]` is an index into `routes`; task 0 means no task.
    route_of: Vec<usize>,
    /// The layers are applied to the states of all tokens.
    of_tokens: bool,
    /// The layers are applied to the states of all tokens, and their outputs are pooled.
    late: bool,
    /// [`ClassifierHead::padding`](crate::config::ClassifierHead) of a sequence classifier.
    padding: Option<u32>,
}

impl Head {
    /// The head that `source` describes.
    pub(super) fn load(
        config: &TransformerConfig,
        weights: &Weights,
        source: &HeadSource,
    ) -> std::result::Result<Self, LoadError> {
        match source {
            HeadSource::Dense { pooling, modules, routes } => {
                let layers = |modules: &Vec<VectorModule>| -> std::result::Result<Vec<_>, _> {
                    modules.iter().map(HeadLayer::module).collect()
                };
                let by_task = routes.modules.iter().map(layers).collect::<std::result::Result<_, LoadError>>()?;
                let plain = Self::plain(pooling.clone(), layers(modules)?);
                Ok(Self { routes: by_task, route_of: routes.of.clone(), ..plain })
            }
            HeadSource::TokenRows(tokens) => {
                let linear = output_rows(config, weights, tokens)?;
                let activation = HeadActivation::Identity;
                let mut layers = vec![HeadLayer::Linear { linear, activation, norm: None, residual: None }];
                layers.extend(config.logit_softcap.map(HeadLayer::Softcap));
                Ok(Self::plain(vec![Pooling::LastToken], layers))
            }
            HeadSource::Classifier { num_labels } => {
                let layers = classifier_layers(config, weights, config.classifier.layers, *num_labels)?;
                let (late, padding) = (config.classifier.late, config.classifier.padding);
                Ok(Self { late, padding, ..Self::plain(vec![config.classifier.pooling], layers) })
            }
            HeadSource::TokenClassifier { num_labels } => {
                let layers = classifier_layers(config, weights, config.classifier.of_tokens, *num_labels)?;
                // The pooling is not used: a token classifier answers from the states of all tokens.
                Ok(Self { of_tokens: true, ..Self::plain(vec![Pooling::Cls], layers) })
            }
        }
    }

    /// A head without routes that is applied to pooled states.
    fn plain(pooling: Vec<Pooling>, layers: Vec<HeadLayer>) -> Self {
        Self { pooling, layers, routes: vec![], route_of: vec![], of_tokens: false, late: false, padding: None }
    }

    pub(super) fn pooling(&self) -> &[Pooling] {
        &self.pooling
    }

    pub(super) fn padding(&self) -> Option<u32> {
        self.padding
    }

    /// `true` if answers to this batch need the final states of tokens in addition to the pooled states.
    #[cfg(feature = "cuda")]
    pub(super) fn needs_tokens(&self, batch: &Batch) -> bool {
        self.of_tokens || self.late || batch.needs_all_tokens()
    }

    /// Answers every sequence from its pooled state, or from the final states of its tokens, which may be left out where no answer
    /// needs them.
    pub(super) fn answer(
        &self,
        States { hidden, pooled }: States<'_>,
        asked: &Asked,
        yields: &mut Yields<'_>,
    ) -> Result<Vec<Output>> {
        let Asked { rows, wanted, tasks } = asked;
        // A token classifier has no answer for a whole sequence.
        let (hidden, answers) = if self.of_tokens {
            (apply(&self.layers, hidden, yields)?, pooled.clone())
        } else {
            let answers = if self.late {
                pool(&rows.pool, &apply(&self.layers, hidden, yields)?, yields)?
            } else {
                apply(&self.layers, pooled, yields)?
            };
            (hidden.clone(), self.route(answers, tasks, yields)?)
        };
        let dim = hidden.dim(1)?;
        let width = answers.dim(1)?;
        let mut outputs = |answers: &[f32], hidden: &[f32]| {
            let mut values = |b: usize, kind| -> Result<_> {
                let values = match kind {
                    OutputKind::Tokens => {
                        let rows = rows.sequence_rows(b).map(|row| &hidden[row * dim..][..dim]);
                        Values { data: copy(rows, dim, yields)?, dim }
                    }
                    OutputKind::Embedding | OutputKind::Logits => {
                        Values { data: answers[b * width..][..width].to_vec(), dim: width }
                    }
                };
                Ok((kind, values))
            };
            let output = |(b, wanted): (usize, &Outputs)| wanted.kinds().map(|kind| values(b, kind)).collect();
            wanted.iter().enumerate().map(output).collect()
        };
        ops::on_host(&answers, |answers| {
            if asked.needs_all_tokens() {
                ops::on_host(&hidden, |hidden| outputs(answers, hidden))?
            } else {
                outputs(answers, &[])
            }
        })?
    }

    /// Runs the answers through the layers of their tasks' routes, one route after the other.
    fn route(&self, answers: Tensor, tasks: &[TaskId], yields: &mut Yields<'_>) -> Result<Tensor> {
        if self.routes.is_empty() {
            return Ok(answers);
        }
        let width = answers.dim(1)?;
        let values = ops::on_host(&answers, <[f32]>::to_vec)?;
        let (mut out, mut out_width) = (Vec::new(), 0);
        for (index, layers) in self.routes.iter().enumerate() {
            let is_of = |task: &TaskId| self.route_of.get(usize::from(task.0)).copied().unwrap_or(0) == index;
            let rows: Vec<usize> = (0..tasks.len()).filter(|&row| is_of(&tasks[row])).collect();
            if rows.is_empty() {
                continue;
            }
            let x: Vec<f32> = rows.iter().flat_map(|row| &values[row * width..][..width]).copied().collect();
            let routed = apply(layers, &Tensor::from_vec(x, (rows.len(), width), &Device::Cpu)?, yields)?;
            // The same for all routes.
            out_width = routed.dim(1)?;
            out.resize(tasks.len() * out_width, 0.0);
            ops::on_host(&routed, |routed| {
                for (row, values) in rows.iter().zip(routed.chunks_exact(out_width)) {
                    out[row * out_width..][..out_width].copy_from_slice(values);
                }
            })?;
        }
        Tensor::from_vec(out, (tasks.len(), out_width), &Device::Cpu)
    }
}

/// The final states of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct States<'a> {
    /// The states of the output rows or of all rows, `[rows, width]`.
    pub(super) hidden: &'a Tensor,
    /// The pooled state of each sequence, `[sequences, width]`.
    pub(super) pooled: &'a Tensor,
}

/// The sequences of a batch, as far as their answers need them.
#[derive(Debug)]
pub(super) struct Asked {
    rows: AnswerRows,
    wanted: Vec<Outputs>,
    tasks: Vec<TaskId>,
}

impl Asked {
    pub(super) fn new(rows: AnswerRows, batch: &Batch) -> Self {
        Self { rows, wanted: batch.wanted.clone(), tasks: batch.ragged.tasks().to_vec() }
    }

    fn needs_all_tokens(&self) -> bool {
        self.wanted.iter().copied().any(Outputs::needs_all_tokens)
    }
}

/// Pools the logits of each sequence's tokens.
fn pool(pool: &Pool, logits: &Tensor, yields: &mut Yields<'_>) -> Result<Tensor> {
    let pooled = Tensor::zeros((pool.len(), logits.dim(1)?), candle_core::DType::F32, &Device::Cpu)?;
    pool.forward(logits, &pooled, yields)?;
    Ok(pooled)
}

/// Concatenates rows.
fn copy<'a>(rows: impl Iterator<Item = &'a [f32]>, dim: usize, yields: &mut Yields<'_>) -> Result<Vec<f32>> {
    let mut data = Vec::with_capacity(rows.size_hint().0 * dim);
    for (index, row) in rows.enumerate() {
        if index.is_multiple_of(block_rows(dim)) {
            yields.reach()?;
        }
        data.extend_from_slice(row);
    }
    Ok(data)
}

/// Rows of the language model's head for a reranker's tokens, in their order.
///
/// # Errors
/// Tensors are missing or malformed, or the file contains the head's rows of other tokens only.
fn output_rows(
    config: &TransformerConfig,
    weights: &Weights,
    tokens: &[RerankToken],
) -> std::result::Result<Linear, LoadError> {
    let width = config.hidden_size;
    let class = weights.class_rows(width)?;
    let rows = match class.as_ref().and_then(|class| labelled_rows(class, width, tokens)) {
        Some(rows) => rows,
        None => {
            let name = if config.tie_word_embeddings { "model.embed_tokens.weight" } else { "lm_head.weight" };
            let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
            let rows = weights.f32_rows(name, [config.vocab_size, width], &ids)?;
            // A file may contain rows of the head instead of the head, which then seems to be tied to the embeddings.
            if let Some(class) = class.filter(|_| config.tie_word_embeddings) {
                let is_embedding = |row| rows.chunks(width).any(|known| known == row);
                if !class.values.chunks(width).all(is_embedding) {
                    return Err(other_class_rows(&class, tokens));
                }
            }
            rows
        }
    };
    Ok(Linear::packed(PackedMatrix::pack(&rows, tokens.len(), width)?, None))
}

/// Rows labelled with the tokens' texts; `None` unless each token has one.
fn labelled_rows(class: &ClassRows, width: usize, tokens: &[RerankToken]) -> Option<Vec<f32>> {
    let row = |token: &RerankToken| {
        let index = class.labels.iter().position(|label| *label == token.text)?;
        class.values.chunks(width).nth(index)
    };
    tokens.iter().map(row).collect::<Option<Vec<_>>>().map(|rows| rows.concat())
}

fn other_class_rows(class: &ClassRows, tokens: &[RerankToken]) -> LoadError {
    let labels = match class.labels.as_slice() {
        [] => "without labels".to_owned(),
        labels => format!("for {}", labels.join(", ")),
    };
    let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let supported = format!("the rerank recipe needs {}", texts.join(", "));
    LoadError::unsupported(CLASS_ROWS, format!("a head of rows {labels} and no `output.weight`"), supported)
}
