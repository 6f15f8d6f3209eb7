//! `tokenizer.json`, and the special tokens around a text.

use crate::LoadError;
use crate::files::ModelFiles;
use crate::json::Fields;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokenizers::Tokenizer;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::TemplateProcessing;

/// The file's name.
pub(crate) const FILE: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";

/// The special tokens that a tokenizer puts around every text, by name and id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    /// In front.
    pub(crate) bos: Option<(String, u32)>,
    /// Behind.
    pub(crate) eos: Option<(String, u32)>,
}

/// Reads `tokenizer.json`, without truncation and padding; `None` when there is none.
///
/// # Errors
/// It, or `tokenizer_config.json`, is malformed.
pub(crate) fn read(files: &ModelFiles) -> Result<Option<Tokenizer>, LoadError> {
    let Some(bytes) = files.read(FILE)? else { return Ok(None) };
    // The library's own words on this are for its developers.
    serde_json::from_slice::<IgnoredAny>(&bytes)
        .map_err(|error| LoadError::invalid(FILE, format!("is not JSON: {error}")))?;
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(invalid)?;
    // The engine's business. Before anything is encoded: what stands at an end must not be padding.
    tokenizer.with_truncation(None).map_err(invalid)?;
    tokenizer.with_padding(None);
    if let Some(config) = files.json(CONFIG)? {
        apply_llama_template(&mut tokenizer, &config)?;
    }
    Ok(Some(tokenizer))
}

/// Checks that the model knows every id: those of the vocabulary, and those that are put around a text, which need not be
/// in it.
///
/// # Errors
/// The tokenizer has an id from `vocab_size` up, or cannot encode.
pub(crate) fn check_ids(tokenizer: &Tokenizer, vocab_size: usize) -> Result<(), LoadError> {
    let largest = tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id);
    match largest {
        Some((token, id)) if id as usize >= vocab_size => {
            let problem = format!("token \"{token}\" has the id {id}, but the model's `vocab_size` is {vocab_size}");
            return Err(LoadError::invalid(FILE, problem));
        }
        Some(_) => {}
        None => return Err(LoadError::invalid(FILE, "has no tokens")),
    }
    let around_a_text = tokenizer.encode("a", true).map_err(invalid)?;
    // Not every tokenizer takes pairs.
    let around_a_pair = tokenizer.encode(("a", "a"), true).ok();
    let ids = around_a_pair.iter().chain([&around_a_text]).flat_map(|encoding| encoding.get_ids());
    match ids.copied().find(|&id| id as usize >= vocab_size) {
        Some(id) => {
            let problem = format!("puts the id {id} around a text, but the model's `vocab_size` is {vocab_size}");
            Err(LoadError::invalid(FILE, problem))
        }
        None => Ok(()),
    }
}

/// Puts a template's tokens around every text and pair, in place of the tokenizer's own post-processor.
///
/// # Errors
/// The tokenizer does not take them.
pub(crate) fn set_template(tokenizer: &mut Tokenizer, template: &Template) -> Result<(), tokenizers::Error> {
    let around = |text: &str, segment: usize| -> Vec<String> {
        let token = |token: &Option<(String, u32)>| token.as_ref().map(|(name, _)| format!("{name}:{segment}"));
        [token(&template.bos), Some(format!("{text}:{segment}")), token(&template.eos)].into_iter().flatten().collect()
    };
    let mut tokens: Vec<(String, u32)> = template.bos.iter().chain(&template.eos).cloned().collect();
    tokens.dedup();
    if tokens.is_empty() {
        tokenizer.with_post_processor(None::<PostProcessorWrapper>);
        return Ok(());
    }
    let template = TemplateProcessing::builder()
        .try_single(around("$A", 0))?
        .try_pair([around("$A", 0), around("$B", 1)].concat())?
        .special_tokens(tokens)
        .build()?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}

/// In version 4 of transformers the Llama tokenizer class lets `add_bos_token` and `add_eos_token` of
/// `tokenizer_config.json` overrule the template in `tokenizer.json`; so do we, where the two disagree. Version 5 takes no
/// notice of them when there is a `tokenizer.json`, but checkpoints with the two fields were trained and published with 4.
fn apply_llama_template(tokenizer: &mut Tokenizer, config: &Value) -> Result<(), LoadError> {
    let fields = Fields::new(CONFIG, config)?;
    let class: String = fields.or("tokenizer_class", String::new())?;
    if !matches!(class.as_str(), "LlamaTokenizer" | "LlamaTokenizerFast") {
        return Ok(());
    }
    let encoded = tokenizer.encode("a", true).map_err(invalid)?;
    let mut wanted = Template { bos: None, eos: None };
    let mut differs = false;
    let ends =
        [("bos", &mut wanted.bos, encoded.get_ids().first()), ("eos", &mut wanted.eos, encoded.get_ids().last())];
    for (which, slot, found) in ends {
        let token = token_of(tokenizer, &fields, &format!("{which}_token"))?;
        let is_added = token.as_ref().is_some_and(|(_, id)| found == Some(id));
        let adds = fields.or(&format!("add_{which}_token"), is_added)?;
        if adds && token.is_none() {
            return Err(fields.problem(&format!("{which}_token"), "must name a token of tokenizer.json"));
        }
        differs |= adds != is_added;
        *slot = token.filter(|_| adds);
    }
    if differs {
        tracing::info!("{CONFIG} overrules the special tokens of {FILE}: {wanted:?}");
        set_template(tokenizer, &wanted).map_err(invalid)?;
    }
    Ok(())
}

/// A token that is given as a string, or as an object with `content`.
fn token_of(tokenizer: &Tokenizer, fields: &Fields<'_>, name: &str) -> Result<Option<(String, u32)>, LoadError> {
    let token: Option<String> = match fields.get(name) {
        Some(Value::Object(_)) => fields.object(name)?.map(|token| token.required("content")).transpose()?,
        _ => fields.optional(name)?,
    };
    Ok(token.and_then(|token| tokenizer.token_to_id(&token).map(|id| (token, id))))
}

fn invalid(error: tokenizers::Error) -> LoadError {
    LoadError::invalid(FILE, error.to_string())
}
