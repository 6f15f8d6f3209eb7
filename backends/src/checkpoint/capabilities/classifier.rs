//! Labels of classifiers, and the activations named in their files.

use super::Evidence;
use super::head::HeadSource;
use crate::checkpoint::metadata::Metadata;
use crate::config::MAX_LABELS;
use crate::error::LoadError;
use crate::formats::families::label_count;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::{Capabilities, Classify, LogitActivation, Prompts};
use std::collections::HashMap;

/// Suffix of the class names of token classifiers.
const OF_TOKENS: &str = "ForTokenClassification";

/// Maximum bytes of a label's name. Every response of a classifier repeats the names.
const MAX_LABEL_BYTES: usize = 256;

impl Evidence<'_> {
    /// `true` if the config names a sequence classifier, or a GGUF file has the head of one.
    ///
    /// # Errors
    /// The config is malformed.
    pub(super) fn is_classifier(&self) -> Result<bool, LoadError> {
        Ok(self.metadata.gguf.labels.is_some()
            || self.class()?.is_some_and(|name| name.ends_with("ForSequenceClassification")))
    }

    /// Class of the checkpoint: the first of `architectures` in `config.json`; a GGUF file has none.
    pub(in crate::checkpoint) fn class(&self) -> Result<Option<String>, LoadError> {
        let Some(json) = &self.metadata.json else { return Ok(None) };
        let classes: Vec<String> = Fields::new("config.json", json)?.or("architectures", vec![])?;
        Ok(classes.into_iter().next())
    }

    /// Capabilities and head of a sequence classifier.
    ///
    /// # Errors
    /// The files are malformed.
    pub(super) fn classify(&self) -> Result<(Capabilities, HeadSource), LoadError> {
        let prompts = self.prompts(self.metadata.cross_encoder_prompts())?;
        let (classify, warning) = read(self.files, self.metadata, prompts)?;
        let num_labels = classify.labels.len();
        let warnings = warning.into_iter().chain(repeated(&classify.labels)).chain(self.metadata.ignored_prompt());
        let warnings = warnings.chain(self.metadata.gguf.assumed_class_pooling.clone());
        let warnings: Vec<String> = warnings.collect();
        let mut capabilities = Capabilities::classifier(classify, self.metadata.max_input_length);
        capabilities.warnings.extend(warnings);
        Ok((capabilities, HeadSource::Classifier { num_labels }))
    }

    /// `true` if the config names a token classifier.
    ///
    /// # Errors
    /// The config is malformed.
    pub(super) fn is_token_classifier(&self) -> Result<bool, LoadError> {
        Ok(self.class()?.is_some_and(|name| name.ends_with(OF_TOKENS)))
    }

    /// Capabilities and head of a token classifier.
    ///
    /// # Errors
    /// The files are malformed, or the model is not a token classifier.
    pub(super) fn classify_tokens(&self) -> Result<(Capabilities, HeadSource), LoadError> {
        let json = self.metadata.json.as_ref().filter(|_| !self.metadata.config.classifier.of_tokens.is_empty());
        let (Some(json), true) = (json, self.is_token_classifier()?) else {
            let problem = format!("is not a token classifier (...{OF_TOKENS}), which --task classify-tokens needs");
            return Err(LoadError::Options(format!("{} {problem}", self.files.display_name())));
        };
        if self.options.default_prompt.is_some() {
            let problem = "`--default-prompt`: a token classifier takes texts without a prompt";
            return Err(LoadError::Options(problem.to_owned()));
        }
        let labels = labels(&Fields::new("config.json", json)?)?;
        let (num_labels, warning) = (labels.len(), repeated(&labels));
        let mut capabilities = Capabilities::token_classifier(labels, self.metadata.max_input_length);
        capabilities.warnings.extend(warning);
        Ok((capabilities, HeadSource::TokenClassifier { num_labels }))
    }
}

/// The classifier in the files, with a warning about an unsupported activation.
///
/// # Errors
/// The files are malformed, or a GGUF file has no classifier head.
fn read(files: &ModelFiles, metadata: &Metadata, prompts: Prompts) -> Result<(Classify, Option<String>), LoadError> {
    let Some(json) = &metadata.json else {
        let what = "a classifier in a GGUF file of a decoder";
        let labels = metadata.gguf.labels.clone();
        let labels = labels.ok_or_else(|| LoadError::unsupported(files.display_name(), what, "safetensors"))?;
        check_labels(&files.display_name(), &labels)?;
        let mut classify = Classify::of_labels(labels, prompts);
        let warning = activate_pairs(&mut classify, pair_activation(files, None)?);
        return Ok((classify, warning));
    };
    let fields = Fields::new("config.json", json)?;
    if let Some(field) = metadata.config.classifier.width {
        let hidden = metadata.config.hidden_size;
        let width = fields.or(field, hidden)?;
        if width != hidden {
            return Err(fields.unsupported(field, &width.to_string(), format!("`hidden_size`, {hidden}")));
        }
    }
    let mut classify = Classify::of_labels(labels(&fields)?, prompts);
    match fields.optional::<String>("problem_type")?.as_deref() {
        Some("multi_label_classification") => classify.activation = LogitActivation::Sigmoid,
        Some("regression") => classify.activation = LogitActivation::Identity,
        _ => {}
    }
    let warning = activate_pairs(&mut classify, pair_activation(files, Some(&fields))?);
    Ok((classify, warning))
}

/// Takes over the activation that the files name for pairs. A warning if it is unknown.
fn activate_pairs(classify: &mut Classify, named: Option<(&'static str, String)>) -> Option<String> {
    let known = named.as_ref().map(|(_, name)| match name.rsplit('.').next().unwrap_or_default() {
        "Identity" => Some(LogitActivation::Identity),
        "Sigmoid" => Some(LogitActivation::Sigmoid),
        _ => None,
    });
    classify.pair_activation = known.flatten().unwrap_or(classify.pair_activation);
    match (named, known) {
        (Some((field, name)), Some(None)) => {
            let name = crate::json::shown(&name.into());
            Some(format!("`{field}`: {name} is not supported; /v1/score applies the sigmoid"))
        }
        _ => None,
    }
}

/// A warning about two labels with the same name. Their scores stay separate, as in transformers and text-embeddings-inference, but a
/// response does not show which is which.
fn repeated(labels: &[String]) -> Option<String> {
    let mut first = HashMap::new();
    let (index, label, before) =
        labels.iter().enumerate().find_map(|(index, label)| Some((index, label, first.insert(label, index)?)))?;
    let name = crate::json::shown(&label.as_str().into());
    Some(format!("the labels {before} and {index} are both {name}; responses have two entries of this name"))
}

/// Checks the labels of a GGUF file.
fn check_labels(file: &str, labels: &[String]) -> Result<(), LoadError> {
    let invalid = |problem: String| Err(LoadError::invalid(file, problem));
    if labels.is_empty() || labels.len() > MAX_LABELS {
        return invalid(format!("has a classifier with {} labels, it must have from 1 to {MAX_LABELS}", labels.len()));
    }
    match labels.iter().map(String::len).max() {
        Some(longest) if longest > MAX_LABEL_BYTES => {
            invalid(format!("has a label of {longest} bytes, the limit is {MAX_LABEL_BYTES}"))
        }
        _ => Ok(()),
    }
}

/// Activation of a cross-encoder's logit, in the spellings of all versions of sentence-transformers. A GGUF file has no `config`, but
/// sentence-transformers' own file may be in its folder.
fn pair_activation(
    files: &ModelFiles,
    config: Option<&Fields<'_>>,
) -> Result<Option<(&'static str, String)>, LoadError> {
    const FILE: &str = "config_sentence_transformers.json";
    const NEWER: &str = "activation_fn";
    const NESTED: &str = "sentence_transformers.activation_fn";
    const OLDER: &str = "sbert_ce_default_activation_function";
    if let Some(own) = files.json(FILE)?
        && let Some(name) = Fields::new(FILE, &own)?.optional(NEWER)?
    {
        return Ok(Some((NEWER, name)));
    }
    let Some(config) = config else { return Ok(None) };
    let nested = config.object("sentence_transformers")?.filter(|fields| fields.mentions(NEWER));
    Ok(match nested {
        Some(fields) => fields.optional(NEWER)?.map(|name| (NESTED, name)),
        None => config.optional(OLDER)?.map(|name| (OLDER, name)),
    })
}

/// Labels of a classifier by index.
fn labels(fields: &Fields<'_>) -> Result<Vec<String>, LoadError> {
    let count = label_count(fields)?;
    let Some(names) = fields.object("id2label")? else {
        return Ok((0..count).map(|i| format!("LABEL_{i}")).collect());
    };
    let label = |i: usize| match names.required::<String>(&i.to_string())? {
        name if name.len() <= MAX_LABEL_BYTES => Ok(name),
        name => {
            let problem = format!("has a name of {} bytes, the limit is {MAX_LABEL_BYTES}", name.len());
            Err(names.problem(&i.to_string(), &problem))
        }
    };
    (0..count).map(label).collect()
}
