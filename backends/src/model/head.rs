//! From final states to answers.

use super::decoder::load_linear;
use super::geometry::Geometry;
use super::weights::Weights;
use crate::checkpoint::{DenseActivation, DenseModule, Purpose, RerankToken};
use crate::error::LoadError;
use crate::gguf::{CLASS_ROWS, ClassRows};
use crate::model::config::DecoderConfig;
use crate::ops::{self, Linear, Store, Target};
use crate::options::Dtype;
use candle_core::{Device, Result, Tensor};
use prefold_core::{Batch, ModelKind, Output, Pooling, Wanted};
use prefold_kernels::PackedMatrix;

/// What happens to the pooled state of a sequence. Heads are computed in `f32`.
#[derive(Debug)]
pub(crate) struct Head {
    pooling: Pooling,
    /// Applied one after the other; none for a plain embedding.
    layers: Vec<HeadLayer>,
    answers: Answers,
}

#[derive(Debug)]
struct HeadLayer {
    linear: Linear,
    activation: DenseActivation,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answers {
    Embedding,
    Logits,
}

impl Head {
    /// The head that `purpose` asks for, and what it makes of the model.
    pub(crate) fn load(
        config: &DecoderConfig,
        weights: &Weights,
        purpose: &Purpose,
    ) -> std::result::Result<(Self, ModelKind), LoadError> {
        match purpose {
            Purpose::Embed { pooling, dense } => {
                let layers = dense.iter().map(HeadLayer::dense).collect::<std::result::Result<Vec<_>, _>>()?;
                let dim = dense.last().map_or(config.hidden_size, |module| module.out_features);
                let head = Self { pooling: *pooling, layers, answers: Answers::Embedding };
                Ok((head, ModelKind::Embedding { dim, pooling: *pooling }))
            }
            Purpose::Rerank { tokens, .. } => {
                let linear = output_rows(config, weights, tokens)?;
                Ok((Self::logits(linear), ModelKind::Reranker))
            }
            Purpose::Classify { labels } => {
                let parts = [("score", labels.len())];
                let linear = load_linear(weights, &Target::cpu(Dtype::Float32), &parts, config.hidden_size, false)?;
                Ok((Self::logits(linear), ModelKind::Classifier { labels: labels.clone() }))
            }
        }
    }

    fn logits(linear: Linear) -> Self {
        let layers = vec![HeadLayer { linear, activation: DenseActivation::Identity }];
        Self { pooling: Pooling::LastToken, layers, answers: Answers::Logits }
    }

    pub(crate) fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Answers every sequence of `batch` from the decoder's final states, or from what the device has pooled of them.
    pub(crate) fn answer(&self, hidden: &Tensor, geometry: &Geometry, batch: &Batch) -> Result<Vec<Output>> {
        let dim = hidden.dim(1)?;
        let states = ops::to_host(hidden)?;
        let row = |i: usize| &states[i * dim..][..dim];
        let pooled = if geometry.pool.is_some() { states.clone() } else { self.pool(geometry, dim, &row)? };
        let pooled = self.apply(Tensor::from_vec(pooled, (geometry.num_sequences(), dim), &Device::Cpu)?)?;
        let width = pooled.dim(1)?;
        let pooled = ops::to_host(&pooled)?;
        let answer = |(b, wanted): (usize, &Wanted)| match wanted {
            Wanted::Tokens => {
                let mut data = Vec::new();
                for i in geometry.output_rows(b) {
                    data.extend_from_slice(row(computed(Some(i))?));
                }
                Ok(Output::Tokens { data, dim })
            }
            Wanted::Pooled => {
                let values = pooled[b * width..][..width].to_vec();
                Ok(if self.answers == Answers::Embedding { Output::Embedding(values) } else { Output::Logits(values) })
            }
        };
        batch.wanted.iter().enumerate().map(answer).collect()
    }

    /// The pooled states of all sequences, `[num_sequences, dim]`.
    fn pool<'a>(&self, geometry: &Geometry, dim: usize, row: &impl Fn(usize) -> &'a [f32]) -> Result<Vec<f32>> {
        let mut pooled = Vec::with_capacity(geometry.num_sequences() * dim);
        for b in 0..geometry.num_sequences() {
            let mut rows = geometry.output_rows(b);
            match self.pooling {
                Pooling::LastToken => pooled.extend_from_slice(row(computed(rows.next_back())?)),
                Pooling::Cls => pooled.extend_from_slice(row(computed(rows.next())?)),
                Pooling::Mean => pooled.extend(mean(rows, dim, row)?),
            }
        }
        Ok(pooled)
    }

    fn apply(&self, mut x: Tensor) -> Result<Tensor> {
        for HeadLayer { linear, activation } in &self.layers {
            let out = Tensor::zeros((x.dim(0)?, linear.out_features()), candle_core::DType::F32, x.device())?;
            linear.forward(&x, &out, Store::Overwrite)?;
            x = match activation {
                DenseActivation::Identity => out,
                DenseActivation::Tanh => out.tanh()?,
            };
        }
        Ok(x)
    }
}

impl HeadLayer {
    fn dense(module: &DenseModule) -> std::result::Result<Self, LoadError> {
        let weight = PackedMatrix::from_f32(&module.weight, module.out_features, module.in_features)?;
        Ok(Self { linear: Linear::packed(weight, module.bias.clone()), activation: module.activation })
    }
}

/// The rows of the output head that a reranker needs, in the order of the tokens.
///
/// # Errors
/// Tensors are missing or malformed, or the head is not in the file but for the rows of other tokens.
fn output_rows(
    config: &DecoderConfig,
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
            // A file may have the rows of a head instead of the head, which then looks as if it were the embeddings.
            if let Some(class) = class.filter(|_| config.tie_word_embeddings) {
                let is_embedding = |row| rows.chunks(width).any(|known| known == row);
                if !class.values.chunks(width).all(is_embedding) {
                    return Err(other_class_rows(&class, tokens));
                }
            }
            rows
        }
    };
    Ok(Linear::packed(PackedMatrix::from_f32(&rows, tokens.len(), width)?, None))
}

/// The rows whose labels are the tokens' texts; `None` unless each token has one.
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

/// The index of a state that the geometry promised.
fn computed(row: Option<Option<usize>>) -> Result<usize> {
    match row.flatten() {
        Some(row) => Ok(row),
        None => candle_core::bail!("a wanted state was not computed"),
    }
}

/// The mean of rows, summed in the order of positions.
fn mean<'a>(
    rows: impl Iterator<Item = Option<usize>>,
    dim: usize,
    row: &impl Fn(usize) -> &'a [f32],
) -> Result<Vec<f32>> {
    let mut sum = vec![0f32; dim];
    let mut count = 0usize;
    for i in rows {
        sum.iter_mut().zip(row(computed(Some(i))?)).for_each(|(sum, x)| *sum += x);
        count += 1;
    }
    let scale = 1.0 / count as f32;
    sum.iter_mut().for_each(|x| *x *= scale);
    Ok(sum)
}
