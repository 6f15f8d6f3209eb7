//! The transformer's description in a GGUF file's metadata.

use super::file::{Architecture, CLASS_ROWS, GgufFile};
use super::names::{hugging_face_name, layer_part};
use crate::LoadError;
use crate::config::{
    AttentionConfig, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, MaskConfig, NormConfig, NormKind, Placement,
    PositionsConfig, RopeConfig, RopeScaling, TransformerConfig, names,
};
use prefold_core::Pooling;
use prefold_kernels::Activation;

/// Tensors without a Hugging Face name: divisors of RoPE, which become part of the description, and rows of a reranker's head.
const OTHER_PARTS: [&str; 2] = ["rope_freqs.weight", CLASS_ROWS];

/// The `pooling_type` of a reranker, which scores by the language model's head.
const RANK: usize = 4;

impl GgufFile {
    /// The file's pooling, if it is one of an embedding model.
    ///
    /// # Errors
    /// The type of pooling is unknown.
    pub(crate) fn pooling(&self) -> Result<Option<Pooling>, LoadError> {
        let key = format!("{}.pooling_type", self.architecture()?.name);
        match self.usize(&key)? {
            // 0 is none.
            None | Some(0 | RANK) => Ok(None),
            Some(1) => Ok(Some(Pooling::Mean)),
            Some(2) => Ok(Some(Pooling::Cls)),
            Some(3) => Ok(Some(Pooling::LastToken)),
            Some(other) => {
                Err(LoadError::unsupported(self.name(), format!("`{key}` {other}"), "1 mean, 2 cls, 3 last"))
            }
        }
    }

    /// `true` if the file declares a reranker.
    ///
    /// # Errors
    /// The type of pooling is not a number.
    pub(crate) fn ranks(&self) -> Result<bool, LoadError> {
        let key = format!("{}.pooling_type", self.architecture()?.name);
        Ok(self.usize(&key)? == Some(RANK))
    }

    /// The transformer's description.
    ///
    /// # Errors
    /// A value is missing or malformed, or the file needs an unsupported feature.
    pub(crate) fn config(&self) -> Result<TransformerConfig, LoadError> {
        let architecture = self.architecture()?;
        self.refuse_unsupported(architecture)?;
        let key = |name: &str| format!("{}.{name}", architecture.name);
        let required = |name: &str| self.usize(&key(name))?.ok_or_else(|| self.lacks(&key(name)));

        let num_heads = required("attention.head_count")?;
        let hidden_size = required("embedding_length")?;
        let head_dim = match self.usize(&key("attention.key_length"))? {
            Some(head_dim) => head_dim,
            None => hidden_size.checked_div(num_heads).unwrap_or(0),
        };
        let eps = key("attention.layer_norm_rms_epsilon");
        let num_layers = required("block_count")?;
        let config = TransformerConfig {
            model_type: architecture.name.to_owned(),
            vocab_size: self.vocab_size()?,
            hidden_size,
            feed_forward: FeedForwardConfig {
                intermediate_size: required("feed_forward_length")?,
                bias: self.tensor("blk.0.ffn_gate.bias").is_some(),
                gated: true,
                activation: Activation::Silu,
            },
            num_layers,
            attention: AttentionConfig {
                num_heads,
                num_kv_heads: self.usize(&key("attention.head_count_kv"))?.unwrap_or(num_heads),
                head_dim,
                qkv_bias: self.tensor("blk.0.attn_q.bias").is_some(),
                output_bias: self.tensor("blk.0.attn_output.bias").is_some(),
                qk_norm: self.tensor("blk.0.attn_q_norm.weight").is_some(),
                mask: MaskConfig::Causal,
                relative_bias: None,
            },
            norm: NormConfig {
                kind: NormKind::Rms,
                placement: Placement::Before,
                eps: self.f64(&eps)?.ok_or_else(|| self.lacks(&eps))? as f32,
            },
            embeddings: EmbeddingsConfig { size: hidden_size, token_types: 0, norm: false },
            positions: PositionsConfig::Rotary(self.rope(architecture, head_dim)?),
            sliding_windows: vec![],
            tie_word_embeddings: self.tensor("output.weight").is_none(),
            max_position_embeddings: required("context_length")?,
            names: names::DECODER,
            classifier: DECODER_HEAD,
        };
        config.validate(self.name())?;
        // Biases and norms are detected in the first layer; no other layer may have more.
        for (name, part) in self.tensor_names().filter_map(|name| Some((name, layer_part(name)?))) {
            if self.tensor(&format!("blk.0.{part}")).is_none() {
                return Err(LoadError::invalid(self.name(), format!("tensor `{name}` has no counterpart in layer 0")));
            }
        }
        Ok(TransformerConfig { sliding_windows: vec![None; num_layers], ..config })
    }

    fn vocab_size(&self) -> Result<usize, LoadError> {
        let name = "token_embd.weight";
        match self.tensor(name).map(|info| info.shape.dims()) {
            Some(&[rows, _]) => Ok(rows),
            Some(dims) => {
                Err(LoadError::invalid(self.name(), format!("tensor `{name}` must be a matrix, it is {dims:?}")))
            }
            None => Err(LoadError::MissingTensor { file: self.name().to_owned(), name: name.to_owned() }),
        }
    }

    /// Refuses features that would change the computation and are not implemented.
    fn refuse_unsupported(&self, architecture: &Architecture) -> Result<(), LoadError> {
        let refused = |what: String, supported: &str| Err(LoadError::unsupported(self.name(), what, supported));
        let key = |name: &str| format!("{}.{name}", architecture.name);
        if let Some(parts @ 2..) = self.usize("split.count")? {
            return refused(format!("a model split into {parts} files"), "one GGUF file");
        }
        if let Some(experts @ 1..) = self.usize(&key("expert_count"))? {
            return refused(format!("`{}` {experts}", key("expert_count")), "one MLP per layer");
        }
        if self.bool(&key("attention.causal"))? == Some(false) {
            return refused(format!("`{}` false", key("attention.causal")), "causal attention only");
        }
        let context = self.usize(&key("context_length"))?.unwrap_or(0);
        match self.usize(&key("attention.sliding_window"))? {
            Some(window) if window > 0 && window < context => {
                return refused(
                    format!("`{}` {window}", key("attention.sliding_window")),
                    "full attention in GGUF files",
                );
            }
            _ => {}
        }
        let key_length = self.usize(&key("attention.key_length"))?;
        let value_length = self.usize(&key("attention.value_length"))?;
        if key_length.is_some() && value_length.is_some() && key_length != value_length {
            return refused(format!("`{}` other than key_length", key("attention.value_length")), "equal lengths");
        }
        let known = |name: &str| hugging_face_name(name).is_some() || OTHER_PARTS.contains(&name);
        match self.tensor_names().find(|name| !known(name)) {
            Some(name) => refused(format!("tensor `{name}`"), "the tensors of Llama, Qwen2 and Qwen3"),
            None => Ok(()),
        }
    }

    fn rope(&self, architecture: &Architecture, head_dim: usize) -> Result<RopeConfig, LoadError> {
        let key = |name: &str| format!("{}.rope.{name}", architecture.name);
        let theta = match self.f64(&key("freq_base"))? {
            Some(theta) if theta > 0.0 => theta,
            Some(theta) => return Err(self.wrong(&key("freq_base"), &format!("above 0, it is {theta}"))),
            None => architecture.default_rope_theta.ok_or_else(|| self.lacks(&key("freq_base")))?,
        };
        if let Some(rotated) = self.usize(&key("dimension_count"))?.filter(|&rotated| rotated != head_dim) {
            let what = format!("`{}` {rotated} of {head_dim}", key("dimension_count"));
            return Err(LoadError::unsupported(self.name(), what, "rotation of every component"));
        }
        let scaling = match self.str(&key("scaling.type"))? {
            None | Some("none") => RopeScaling::None,
            Some("linear") => match self.f64(&key("scaling.factor"))? {
                Some(factor) if factor > 0.0 => RopeScaling::Linear { factor },
                Some(factor) => return Err(self.wrong(&key("scaling.factor"), &format!("above 0, it is {factor}"))),
                None => return Err(self.lacks(&key("scaling.factor"))),
            },
            Some(other) => {
                let what = format!("`{}` \"{other}\"", key("scaling.type"));
                return Err(LoadError::unsupported(self.name(), what, "none, linear"));
            }
        };
        let scaling = match (self.tensor("rope_freqs.weight").is_some(), scaling) {
            (false, scaling) => scaling,
            (true, RopeScaling::None) => self.rope_factors(head_dim)?,
            (true, _) => {
                return Err(LoadError::unsupported(self.name(), "`rope_freqs.weight` with scaling", "one of the two"));
            }
        };
        Ok(RopeConfig { theta, scaling })
    }

    fn rope_factors(&self, head_dim: usize) -> Result<RopeScaling, LoadError> {
        let name = "rope_freqs.weight";
        let factors: Vec<f32> = self.read(name, name, &[head_dim / 2])?;
        match factors.iter().all(|&factor| factor.is_finite() && factor > 0.0) {
            true => Ok(RopeScaling::Factors(factors)),
            false => Err(LoadError::invalid(self.name(), format!("tensor `{name}` must hold numbers above 0"))),
        }
    }
}
