//! The transformer's description in a GGUF file's metadata.

use super::file::{Architecture, CLASS_ROWS, GgufFile};
use super::names::layer_part;
use crate::LoadError;
use crate::config::TransformerConfig;
use prefold_core::Pooling;

/// Tensors without a Hugging Face name: divisors of RoPE, which become part of the description, and rows of a reranker's head.
const OTHER_PARTS: [&str; 2] = ["rope_freqs.weight", CLASS_ROWS];

/// The `pooling_type` of a reranker, which scores by the language model's head or that of a classifier.
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
        let config = match architecture.is_encoder {
            true => self.encoder(architecture)?,
            false => self.decoder(architecture)?,
        };
        config.validate(self.name())?;
        // Biases and norms are detected in the first layer; no other layer may have more.
        for (name, part) in self.tensor_names().filter_map(|name| Some((name, layer_part(name)?))) {
            if self.tensor(&format!("blk.0.{part}")).is_none() {
                return Err(LoadError::invalid(self.name(), format!("tensor `{name}` has no counterpart in layer 0")));
            }
        }
        // Validated before, because this allocates by the number of layers.
        Ok(TransformerConfig { sliding_windows: vec![None; config.num_layers], ..config })
    }

    /// Rows of a matrix.
    ///
    /// # Errors
    /// There is no such matrix.
    pub(super) fn rows(&self, name: &str) -> Result<usize, LoadError> {
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
        match (self.bool(&key("attention.causal"))?, architecture.is_encoder) {
            (Some(false), false) => {
                return refused(format!("`{}` false", key("attention.causal")), "causal attention only");
            }
            (Some(true), true) => return refused(format!("`{}` true", key("attention.causal")), "false"),
            _ => {}
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
        let naming = architecture.naming;
        let known = |name: &str| naming.hugging_face_name(name).is_some() || OTHER_PARTS.contains(&name);
        match self.tensor_names().find(|name| !known(name)) {
            Some(name) => refused(format!("tensor `{name}`"), &format!("the tensors of {}", naming.families)),
            None => Ok(()),
        }
    }
}
