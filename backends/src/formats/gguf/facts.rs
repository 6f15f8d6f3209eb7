//! Statements of a file about its model that are not in the config, and known faults of converters.

use super::end_token;
use super::file::GgufFile;
use super::names::DENSE;
use crate::config::MaskConfig;
use crate::config::poolings::flag;
use crate::error::LoadError;
use prefold_core::Pooling;

/// Statements of a GGUF file about its model that are not in the config; empty for other formats.
#[derive(Debug, Default)]
pub(crate) struct GgufFacts {
    /// Pooling of an embedding model.
    pub(crate) pooling: Option<Pooling>,
    /// The reason why the file states no task: it has no pooling of an embedding model.
    pub(crate) no_task: Option<String>,
    /// The file declares a reranker.
    pub(crate) ranks: bool,
    /// Labels of a classifier.
    pub(crate) labels: Option<Vec<String>>,
    /// A warning about the pooling before a classifier's head.
    pub(crate) assumed_class_pooling: Option<String>,
    /// The prompt of a reranker, with `{query}` and `{document}`.
    pub(crate) rerank_prompt: Option<String>,
    /// Dense modules: their tensors, without `.weight`, and the width of their outputs.
    pub(crate) dense: Vec<(&'static str, usize)>,
    /// A warning about what the converter left out.
    pub(crate) lost: Option<String>,
    /// A warning about the pooling type.
    pub(crate) doubtful_pooling: Option<String>,
    /// A warning for last-token pooling.
    pub(crate) doubtful_end: Option<String>,
}

/// Poolings of published models, by parts of their names in lower case with spaces between the words. Parts of longer names come first.
const PUBLISHED: [(&str, Pooling); 19] = [
    ("qwen3 embedding", Pooling::LastToken),
    ("gte qwen2", Pooling::LastToken),
    ("e5 mistral", Pooling::LastToken),
    ("multilingual e5", Pooling::Mean),
    ("e5 small v2", Pooling::Mean),
    ("e5 base v2", Pooling::Mean),
    ("e5 large v2", Pooling::Mean),
    ("all minilm", Pooling::Mean),
    ("embeddinggemma", Pooling::Mean),
    ("nomic embed text", Pooling::Mean),
    ("modernbert embed", Pooling::Mean),
    ("jina embeddings v2", Pooling::Mean),
    ("jina embeddings v3", Pooling::Mean),
    ("bge small", Pooling::Cls),
    ("bge base", Pooling::Cls),
    ("bge large", Pooling::Cls),
    ("bge m3", Pooling::Cls),
    ("mxbai embed large", Pooling::Cls),
    ("gte modernbert", Pooling::Cls),
];

impl GgufFile {
    /// The statements; `own_tokenizer` is false if a `tokenizer.json` replaces the file's.
    ///
    /// # Errors
    /// A value is malformed or not supported.
    pub(crate) fn facts(&self, own_tokenizer: bool) -> Result<GgufFacts, LoadError> {
        let (pooling, dense) = (self.pooling()?, self.dense()?);
        let lost = self.family()?.gguf.map_or("", |gguf| gguf.lost);
        let lost = (!lost.is_empty() && dense.is_empty()).then(|| {
            let what = self.architecture().unwrap_or_default();
            format!("`{what}`: llama.cpp's converter leaves out {lost}; vectors are not those of the original files")
        });
        let labels = self.classifier_labels()?;
        Ok(GgufFacts {
            pooling,
            assumed_class_pooling: if labels.is_some() { self.assumed_class_pooling()? } else { None },
            no_task: if pooling.is_none() { Some(self.no_task()?) } else { None },
            rerank_prompt: self.str("tokenizer.chat_template.rerank")?.map(str::to_owned),
            dense,
            lost,
            ranks: self.ranks()?,
            labels,
            doubtful_pooling: pooling.map(|pooling| self.doubtful_pooling(pooling)).transpose()?.flatten(),
            doubtful_end: if own_tokenizer { end_token::warning(self)? } else { None },
        })
    }

    /// A warning about a second epsilon of the norms: the original's, which llama.cpp does not read.
    ///
    /// # Errors
    /// An epsilon is not a number.
    pub(crate) fn other_epsilon(&self) -> Result<Option<String>, LoadError> {
        let (architecture, key) = (self.architecture()?, self.family()?.keys.norm_eps);
        if key.gguf_otherwise.is_empty() {
            return Ok(None);
        }
        let [used, other] = [key.gguf, key.gguf_otherwise].map(|name| format!("{architecture}.{name}"));
        Ok(match (self.f64(&used)?, self.f64(&other)?) {
            (Some(eps), Some(ignored)) if eps != ignored => Some(format!(
                "`{other}` {} is ignored, although it is the original model's: as in llama.cpp, norms have `{used}`, {}",
                ignored as f32, eps as f32
            )),
            _ => None,
        })
    }

    /// The Dense modules in the file.
    fn dense(&self) -> Result<Vec<(&'static str, usize)>, LoadError> {
        if !self.family()?.gguf.is_some_and(|gguf| gguf.dense) {
            return Ok(vec![]);
        }
        let weight = |name: &str| format!("{name}.weight");
        let present = DENSE.into_iter().filter(|name| self.tensor(&weight(name)).is_some());
        present.map(|name| Ok((name, self.rows(&weight(name))?))).collect()
    }

    /// A warning about a pooling that the published models of the name or the architecture do not have.
    fn doubtful_pooling(&self, pooling: Pooling) -> Result<Option<String>, LoadError> {
        let architecture = self.architecture()?;
        let is_causal = self.mask()? == MaskConfig::Causal;
        let key = format!("`{architecture}.pooling_type` says {} pooling", flag(pooling));
        if let Some((name, published)) = self.published()?.filter(|(_, published)| *published != pooling) {
            let name = crate::json::shown(&name.into());
            let published = flag(published);
            return Ok(Some(format!(
                "{key}, but {name} was trained with {published} pooling; the file is followed, --pooling {published} overrides \
                 it"
            )));
        }
        Ok(match pooling {
            Pooling::Cls if is_causal => Some(format!(
                "{key}, but the first token of a causal model sees no other token; the file is followed, --pooling last-token \
                 overrides it"
            )),
            Pooling::Mean if is_causal && matches!(architecture, "qwen2" | "qwen3") => Some(format!(
                "{key}, but published causal embedding models of `{architecture}` take the last token; the file is followed, \
                 --pooling last-token overrides it"
            )),
            _ => None,
        })
    }

    /// The file's name of its model and the pooling of the published model of that name.
    fn published(&self) -> Result<Option<(&str, Pooling)>, LoadError> {
        for key in ["general.basename", "general.name"] {
            let Some(name) = self.str(key)? else { continue };
            let words = name.to_lowercase().replace(['-', '_'], " ");
            if let Some((_, pooling)) = PUBLISHED.iter().find(|(part, _)| words.contains(part)) {
                return Ok(Some((name, *pooling)));
            }
        }
        Ok(None)
    }
}
