//! Reading of `tokenizer.json`.

use crate::error::LoadError;
use crate::json::{Fields, not_json};
use crate::json_memory;
use crate::source::ModelFiles;
use prefold_core::{TokenizerFile, TokenizerSums, check_normalizer};
use serde::Deserialize;
use std::collections::HashMap;
use tokenizers::normalizers::{Lowercase, Sequence};
use tokenizers::{
    ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer, TruncationDirection, TruncationParams,
};

pub(crate) const FILE: &str = "tokenizer.json";
pub(in crate::checkpoint) const CONFIG: &str = "tokenizer_config.json";

/// Reads `tokenizer.json` without padding and dropout; truncation keeps only its direction. `None` if there is no such file.
///
/// # Errors
/// The file is malformed, or beyond the limits on what a tokenizer may do with a text.
pub(crate) fn read(files: &ModelFiles, sums: &mut TokenizerSums) -> Result<Option<Tokenizer>, LoadError> {
    let Some(mut tokenizer) = read_file(files, FILE, sums)? else { return Ok(None) };
    let direction = tokenizer.get_truncation().map_or(TruncationDirection::Right, |truncation| truncation.direction);
    keep_direction(&mut tokenizer, direction)?;
    Ok(Some(tokenizer))
}

/// Reads a `tokenizer.json` in any folder, with its truncation and without padding and dropout; `None` if there is no such file. `sums`
/// adds up all tokenizers of the model.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_file(
    files: &ModelFiles,
    name: &str,
    sums: &mut TokenizerSums,
) -> Result<Option<Tokenizer>, LoadError> {
    let Some(bytes) = files.read(name)? else { return Ok(None) };
    let parsed = json_memory::check(FILE, &bytes)?;
    // The library's own message is meant for its developers.
    let file: TokenizerFile = serde_json::from_slice(&bytes).map_err(|error| {
        let problem = if error.is_data() { error.to_string() } else { not_json(&bytes, &error) };
        LoadError::invalid(FILE, problem)
    })?;
    let others = sums.built_bytes();
    file.check(sums).map_err(|problem| LoadError::invalid(FILE, problem))?;
    drop(file);
    json_memory::check_left(FILE, parsed.saturating_add(sums.built_bytes().saturating_sub(others)))?;
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(invalid)?;
    remove_dropout(&mut tokenizer);
    // Removed before the first text is encoded, so that padding is not mistaken for a special token.
    tokenizer.with_padding(None);
    Ok(Some(tokenizer))
}

/// Removes a tokenizer's truncation, since the engine truncates, and keeps its side as the default for requests.
///
/// # Errors
/// The library refuses it.
pub(crate) fn keep_direction(tokenizer: &mut Tokenizer, direction: TruncationDirection) -> Result<(), LoadError> {
    let nothing = || TruncationParams { direction, max_length: usize::MAX, stride: 0, ..TruncationParams::default() };
    let truncation = matches!(direction, TruncationDirection::Left).then(nothing);
    tokenizer.with_truncation(truncation).map(drop).map_err(invalid)
}

/// Sets the truncation side from `truncation_side` of `tokenizer_config.json`; without the field the tokenizer's side stays.
///
/// # Errors
/// The file is malformed.
pub(crate) fn set_direction(tokenizer: &mut Tokenizer, files: &ModelFiles) -> Result<(), LoadError> {
    const FIELD: &str = "truncation_side";
    let Some(config) = files.json(CONFIG)? else { return Ok(()) };
    let fields = Fields::new(CONFIG, &config)?;
    match fields.optional::<String>(FIELD)?.as_deref() {
        None => Ok(()),
        Some("left") => keep_direction(tokenizer, TruncationDirection::Left),
        Some("right") => keep_direction(tokenizer, TruncationDirection::Right),
        Some(other) => Err(fields.problem(FIELD, &format!("must be \"left\" or \"right\", it is \"{other}\""))),
    }
}

/// `true` if the tokenizer works on bytes, as GPT-2's does.
pub(super) fn has_byte_level(tokenizer: &Tokenizer) -> bool {
    fn is_byte_level(step: &PreTokenizerWrapper) -> bool {
        match step {
            PreTokenizerWrapper::ByteLevel(_) => true,
            PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(is_byte_level),
            _ => false,
        }
    }
    tokenizer.get_pre_tokenizer().is_some_and(is_byte_level)
}

/// The ids of added tokens in `tokenizer.json`.
///
/// # Errors
/// The file is malformed.
pub(super) fn added_ids(files: &ModelFiles) -> Result<HashMap<String, u32>, LoadError> {
    #[derive(Deserialize)]
    struct Token {
        id: u32,
        content: String,
    }
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        added_tokens: Vec<Token>,
    }
    let Some(bytes) = files.read(FILE)? else { return Ok(HashMap::new()) };
    let file: File = serde_json::from_slice(&bytes).map_err(|error| LoadError::invalid(FILE, error.to_string()))?;
    Ok(file.added_tokens.into_iter().map(|token| (token.content, token.id)).collect())
}

/// `true` if the text of `tokenizer.json` has the name of byte-level steps anywhere, as transformers searches it for Llama's class.
pub(super) fn mentions_byte_level(files: &ModelFiles) -> Result<bool, LoadError> {
    const NAME: &[u8] = b"\"ByteLevel\"";
    Ok(files.read(FILE)?.is_some_and(|text| text.windows(NAME.len()).any(|it| it == NAME)))
}

/// Converts texts to lower case before all other steps of the tokenizer, except special tokens in a text.
///
/// # Errors
/// The lower-cased added tokens exceed a limit, or the library refuses the normalizer.
pub(crate) fn lowercase(tokenizer: &mut Tokenizer, sums: &mut TokenizerSums) -> Result<(), LoadError> {
    let mut steps: Vec<NormalizerWrapper> = vec![Lowercase.into()];
    steps.extend(tokenizer.get_normalizer().cloned());
    set_normalizer(tokenizer, Some(Sequence::new(steps).into()), sums)
}

/// Replaces a tokenizer's normalizer, which normalizes its added tokens too.
///
/// # Errors
/// The normalized added tokens exceed a limit, or the library refuses the normalizer.
pub(super) fn set_normalizer(
    tokenizer: &mut Tokenizer,
    normalizer: Option<NormalizerWrapper>,
    sums: &mut TokenizerSums,
) -> Result<(), LoadError> {
    if let Some(normalizer) = &normalizer {
        check_normalizer(tokenizer, normalizer, sums)
            .map_err(|problem| LoadError::invalid(FILE, format!("`added_tokens` {problem}")))?;
    }
    tokenizer.with_normalizer(normalizer).map(drop).map_err(invalid)
}

/// `false` if `model_input_names` of `tokenizer_config.json` lacks `token_type_ids`; all tokens then have type 0. Without that field
/// the class decides.
///
/// # Errors
/// The field is malformed.
pub(super) fn gives_token_types(config: &Fields<'_>, of_class: bool) -> Result<bool, LoadError> {
    let names: Option<Vec<String>> = config.optional("model_input_names")?;
    Ok(names.map_or(of_class, |names| names.iter().any(|name| name == "token_type_ids")))
}

/// Removes dropout, which is for training: it gives equal texts different tokens.
fn remove_dropout(tokenizer: &mut Tokenizer) {
    if let ModelWrapper::BPE(bpe) = tokenizer.get_model()
        && let Some(dropout) = bpe.dropout
    {
        tracing::warn!("`dropout` {dropout} of {FILE} is ignored: it is for training");
        let mut bpe = bpe.clone();
        bpe.dropout = None;
        tokenizer.with_model(bpe);
    }
}

/// Checks that all ids are below `vocab_size`: the vocabulary's, and the special tokens' around a text, which may be missing
/// from the vocabulary.
///
/// # Errors
/// An id is not below `vocab_size`, or the tokenizer cannot encode.
pub(crate) fn check_ids(tokenizer: &Tokenizer, vocab_size: usize) -> Result<(), LoadError> {
    let vocab = tokenizer.get_vocab(true);
    let largest = vocab.into_iter().max_by_key(|(_, id)| *id);
    match largest {
        Some((token, id)) if id as usize >= vocab_size => {
            let problem = format!("token \"{token}\" has the id {id}, but the model's `vocab_size` is {vocab_size}");
            return Err(LoadError::invalid(FILE, problem));
        }
        Some(_) => {}
        None => return Err(LoadError::invalid(FILE, "has no tokens")),
    }
    let around_a_text = tokenizer.encode("a", true).map_err(invalid)?;
    // Some tokenizers accept no pairs.
    let around_a_pair = tokenizer.encode(("a", "a"), true).ok();
    let ids = around_a_pair.iter().chain([&around_a_text]).flat_map(|encoding| encoding.get_ids());
    match ids.copied().find(|&id| id as usize >= vocab_size) {
        Some(id) => {
            let problem = format!("adds the token id {id} to texts, but the model's `vocab_size` is {vocab_size}");
            Err(LoadError::invalid(FILE, problem))
        }
        None => Ok(()),
    }
}

pub(crate) fn invalid(error: tokenizers::Error) -> LoadError {
    LoadError::invalid(FILE, error.to_string())
}
