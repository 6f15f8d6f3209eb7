//! Heads of classifiers and rerankers in GGUF files.

use super::file::{CLASS_ROWS, GgufFile};
use crate::config::poolings::POOLINGS;
use crate::config::{MAX_LABELS, MaskConfig};
use crate::error::LoadError;
use candle_core::quantized::gguf_file::Value;
use prefold_core::Pooling;

/// The layer of a classifier's head before [`CLASS_ROWS`].
const CLASS_DENSE: &str = "cls.weight";

/// The bias of that layer.
pub(super) const CLASS_BIAS: &str = "cls.bias";

impl GgufFile {
    /// Labels of the rows of [`CLASS_ROWS`]; empty if the file has none.
    ///
    /// # Errors
    /// They are not strings.
    pub(super) fn class_labels(&self) -> Result<Vec<&str>, LoadError> {
        let key = format!("{}.classifier.output_labels", self.architecture()?);
        let wrong = || self.wrong(&key, "a list of strings");
        let Some(value) = self.get(&key) else { return Ok(vec![]) };
        let Value::Array(labels) = value else { return Err(wrong()) };
        labels.iter().map(|label| if let Value::String(label) = label { Ok(&**label) } else { Err(wrong()) }).collect()
    }

    /// Labels of a classifier, one per row of its head; `None` if the file has no classifier.
    ///
    /// # Errors
    /// The labels are malformed, or their number differs from the rows.
    pub(super) fn classifier_labels(&self) -> Result<Option<Vec<String>>, LoadError> {
        if self.tensor(CLASS_ROWS).is_none() || self.family()?.mask == MaskConfig::Causal {
            return Ok(None);
        }
        let rows = self.rows(CLASS_ROWS)?;
        let labels: Vec<String> = self.class_labels()?.into_iter().map(str::to_owned).collect();
        match labels.len() {
            0 if rows > MAX_LABELS => {
                let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows, the limit is {MAX_LABELS}");
                Err(LoadError::invalid(self.name(), problem))
            }
            0 => Ok(Some((0..rows).map(|row| format!("LABEL_{row}")).collect())),
            count if count == rows => Ok(Some(labels)),
            count => {
                let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows for {count} labels");
                Err(LoadError::invalid(self.name(), problem))
            }
        }
    }

    /// The pooling before a classifier's head, if the file states it.
    ///
    /// # Errors
    /// It is not supported.
    pub(super) fn class_pooling(&self) -> Result<Option<Pooling>, LoadError> {
        let key = self.class_pooling_key()?;
        let Some(number) = self.usize(&key)? else { return Ok(None) };
        let mut known = POOLINGS.iter().filter(|row| matches!(row.pooling, Pooling::Mean | Pooling::Cls));
        let unsupported = || LoadError::unsupported(self.name(), format!("`{key}` {number}"), "1 mean, 2 cls");
        known.find(|row| row.gguf == number).map(|row| Some(row.pooling)).ok_or_else(unsupported)
    }

    /// A warning about a classifier in a family with several poolings, if its file states none.
    ///
    /// # Errors
    /// As for [`class_pooling`](Self::class_pooling).
    pub(super) fn assumed_class_pooling(&self) -> Result<Option<String>, LoadError> {
        if self.family()?.classifier_pooling.is_none() || self.class_pooling()?.is_some() {
            return Ok(None);
        }
        let key = self.class_pooling_key()?;
        Ok(Some(format!(
            "`{key}` is missing, as in files of older converters; the head gets the mean of the states, as in llama.cpp"
        )))
    }

    pub(super) fn class_pooling_key(&self) -> Result<String, LoadError> {
        Ok(format!("{}.classifier.pooling_type", self.architecture()?))
    }

    /// Refuses a classifier without its first layer, which converters drop for BERT.
    ///
    /// # Errors
    /// Names the layer.
    pub(super) fn check_head(&self) -> Result<(), LoadError> {
        let (dense, rows) = (self.tensor(CLASS_DENSE).is_some(), self.tensor(CLASS_ROWS).is_some());
        if dense == rows {
            return Ok(());
        }
        let (there, missing) = if dense { (CLASS_DENSE, CLASS_ROWS) } else { (CLASS_ROWS, CLASS_DENSE) };
        let what = format!("tensor `{there}` without `{missing}`, as converters write BERT's classifiers");
        Err(LoadError::unsupported(
            self.name(),
            what,
            "classifiers of RoBERTa, XLM-RoBERTa and DistilBERT; safetensors",
        ))
    }
}
