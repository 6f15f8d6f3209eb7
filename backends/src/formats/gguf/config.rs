//! The transformer's description in a GGUF file's metadata.

use super::file::{ARCHITECTURE, CLASS_ROWS, GgufFile};
use super::names::{EXPERTS_DOWN, EXPERTS_UP, Naming, layer_part};
use super::settings::Metadata;
use crate::config::poolings::POOLINGS;
use crate::config::{MaskConfig, TransformerConfig};
use crate::error::LoadError;
use crate::formats::families::{self, Family, Gguf, Windows};
use crate::json::{Fields, shown};
use prefold_core::Pooling;
use std::collections::BTreeSet;

/// Tensors without a Hugging Face name: frequency divisors of RoPE, and rows of a reranker's head.
const OTHER_PARTS: [&str; 2] = ["rope_freqs.weight", CLASS_ROWS];

/// The `pooling_type` of a reranker, which scores by the language model's head or a classifier's.
const RANK: usize = 4;

impl GgufFile {
    /// The file's pooling, if it is one of an embedding model.
    ///
    /// # Errors
    /// The type of pooling is unknown.
    pub(super) fn pooling(&self) -> Result<Option<Pooling>, LoadError> {
        let key = format!("{}.pooling_type", self.architecture()?);
        let number = match self.usize(&key)? {
            // 0 is none.
            None | Some(0 | RANK) => return Ok(None),
            Some(number) => number,
        };
        let unsupported = || LoadError::unsupported(self.name(), format!("`{key}` {number}"), "1 mean, 2 cls, 3 last");
        POOLINGS.iter().find(|row| row.gguf == number).map(|row| Some(row.pooling)).ok_or_else(unsupported)
    }

    /// `true` if the file declares a reranker.
    ///
    /// # Errors
    /// The type of pooling is not a number.
    pub(super) fn ranks(&self) -> Result<bool, LoadError> {
        let key = format!("{}.pooling_type", self.architecture()?);
        Ok(self.usize(&key)? == Some(RANK))
    }

    /// The reason why a file without a pooling states no task.
    ///
    /// # Errors
    /// As for [`ranks`](Self::ranks).
    pub(super) fn no_task(&self) -> Result<String, LoadError> {
        let key = format!("{}.pooling_type", self.architecture()?);
        Ok(match self.usize(&key)? {
            None => format!("`{key}` is missing, which says how an embedding model pools"),
            Some(RANK) => {
                format!("`{key}` is {RANK}, a reranker's, but the file has no classifier's head and no known prompt")
            }
            Some(number) => format!("`{key}` is {number}, no pooling"),
        })
    }

    /// The mask: the family's, unless the file says that the model was trained without it.
    ///
    /// # Errors
    /// The field is of another type, or the architecture is not supported.
    pub(super) fn mask(&self) -> Result<MaskConfig, LoadError> {
        match self.bool(&format!("{}.attention.causal", self.architecture()?))? {
            Some(false) => Ok(MaskConfig::Full),
            _ => Ok(self.family()?.mask),
        }
    }

    /// The family of the model.
    ///
    /// # Errors
    /// It is missing or not supported.
    pub(crate) fn family(&self) -> Result<&'static Family, LoadError> {
        let name = self.architecture()?;
        let has_marks = |gguf: &Gguf| gguf.marks.iter().all(|mark| self.tensor(mark).is_some());
        let mut of_architecture = families::of_gguf().filter(|(_, gguf)| gguf.architecture == name);
        of_architecture.find(|(_, gguf)| has_marks(gguf)).map(|(family, _)| family).ok_or_else(|| {
            let supported: BTreeSet<_> = families::of_gguf().map(|(_, gguf)| gguf.architecture).collect();
            let supported = supported.into_iter().collect::<Vec<_>>().join(", ");
            LoadError::unsupported(self.name(), format!("`{ARCHITECTURE}` \"{name}\""), supported)
        })
    }

    /// The transformer's description.
    ///
    /// # Errors
    /// A value is missing or malformed, or the file needs an unsupported feature.
    pub(crate) fn config(&self) -> Result<TransformerConfig, LoadError> {
        let (architecture, family) = (self.architecture()?, self.family()?);
        let naming = Naming::new(family);
        self.refuse_unsupported(architecture, family, &naming)?;
        let fields = self.fields(family)?;
        let settings = Metadata { file: self, architecture, naming, json: Fields::new(self.name(), &fields)? };
        let config = families::read(&settings, family)?;
        // Biases and norms are detected in the first layer; no other layer may have more.
        for (name, part) in self.tensor_names().filter_map(|name| Some((name, layer_part(name)?))) {
            if !differs(family, part) && self.tensor(&format!("blk.0.{part}")).is_none() {
                return Err(LoadError::invalid(self.name(), format!("tensor `{name}` has no counterpart in layer 0")));
            }
        }
        Ok(TransformerConfig { model_type: architecture.to_owned(), ..config })
    }

    /// Number of rows of a matrix; a rewritten file may store a single row as a vector.
    ///
    /// # Errors
    /// There is no such matrix.
    pub(super) fn rows(&self, name: &str) -> Result<usize, LoadError> {
        match self.tensor(name).map(|info| info.shape.as_slice()) {
            Some(&[rows, _]) => Ok(rows),
            Some([_]) => Ok(1),
            Some(dims) => {
                Err(LoadError::invalid(self.name(), format!("tensor `{name}` must be a matrix, it is {dims:?}")))
            }
            None => Err(LoadError::MissingTensor { file: self.name().to_owned(), name: name.to_owned() }),
        }
    }

    /// Checks that keys and values have one width, in families without a key of their own for it a head's share of the states.
    fn check_head_widths(&self, family: &Family, key: &impl Fn(&str) -> String) -> Result<(), LoadError> {
        const KEY_LENGTH: &str = "attention.key_length";
        let heads = self.usize(&key("attention.head_count"))?.filter(|&heads| heads > 0);
        let share = self.usize(&key("embedding_length"))?.zip(heads).map(|(width, heads)| width / heads);
        let stated = self.usize(&key(KEY_LENGTH))?.filter(|_| family.keys.head_dim.gguf == KEY_LENGTH);
        let Some(width) = stated.or(share) else { return Ok(()) };
        for name in [KEY_LENGTH, "attention.value_length"].map(key) {
            if let Some(other) = self.usize(&name)?.filter(|&other| other != width) {
                let supported = format!("{width}, the width of a head");
                return Err(LoadError::unsupported(self.name(), format!("`{name}` {other}"), supported));
            }
        }
        Ok(())
    }

    /// Refuses features that would change the computation and are not implemented.
    fn refuse_unsupported(&self, architecture: &str, family: &Family, naming: &Naming) -> Result<(), LoadError> {
        let refused = |what: String, supported: &str| Err(LoadError::unsupported(self.name(), what, supported));
        let key = |name: &str| format!("{architecture}.{name}");
        if let Some(parts @ 2..) = self.usize("split.count")? {
            return refused(format!("a model split into {parts} files"), "one GGUF file");
        }
        if let Some(kind) = self.str("general.type")?.filter(|&kind| kind != "model") {
            return refused(format!("`general.type` {}", shown(&kind.into())), "\"model\"");
        }
        if let Some(experts @ 1..) = self.usize(&key("expert_count"))?.filter(|_| !family.experts) {
            return refused(format!("`{}` {experts}", key("expert_count")), "one MLP per layer");
        }
        let causal = key("attention.causal");
        if family.mask == MaskConfig::Full {
            if self.bool(&causal)? == Some(true) {
                return refused(format!("`{causal}` true"), "false");
            }
            self.check_head()?;
        }
        let has_windows = matches!(family.windows, Windows::Local | Windows::Alternating);
        let context = self.usize(&key("context_length"))?.unwrap_or(0);
        match self.usize(&key("attention.sliding_window"))?.filter(|_| !has_windows) {
            Some(window) if window > 0 && window < context => {
                let what = format!("`{}` {window}", key("attention.sliding_window"));
                return refused(what, "full attention in files of this architecture");
            }
            _ => {}
        }
        self.check_head_widths(family, &key)?;
        let known = |name: &str| naming.knows(name) || OTHER_PARTS.contains(&name);
        match self.tensor_names().find(|name| !known(name)) {
            Some(name) => {
                let reason = reason(name).unwrap_or_default();
                refused(format!("tensor `{name}`{reason}"), &format!("the tensors of `{architecture}`"))
            }
            None => Ok(()),
        }
    }
}

/// `true` for a part of layers that not all layers of a family have.
fn differs(family: &Family, part: &str) -> bool {
    let is_of_experts = ["ffn_gate_inp.", EXPERTS_UP, EXPERTS_DOWN].iter().any(|name| part.starts_with(name));
    family.experts && is_of_experts || !family.first_attention_norm && part.starts_with("attn_norm.")
}

/// The reason why a tensor that converters write is not supported, as the rest of its name.
fn reason(name: &str) -> Option<&'static str> {
    let part = layer_part(name).unwrap_or(name);
    let reasons = [("cls.", ", the head of a classifier,"), ("dense_2.", ", a projection of tokens (ColBERT),")];
    reasons.iter().find(|(start, _)| part.starts_with(start)).map(|(_, reason)| *reason)
}
