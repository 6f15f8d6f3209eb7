//! Limits on a tokenizer file, which comes from the model's author and is not trusted: they bound the size and time of its steps
//! on a text. They are checked before the library builds anything from the file.

mod added;
mod charsmap;
mod growth;
mod pattern;
mod sums;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use added::{check_added_tokens, check_normalizer};
pub use charsmap::check_charsmap;
pub(crate) use growth::{of_decoder, of_normalizer};
pub use sums::TokenizerSums;
pub use vocabulary::{check_merges, check_pieces, check_unigram};

use added::{AddedToken, check_added};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::{DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};
use vocabulary::{Merges, Vocabulary};

/// Maximum bytes of a text in a step, such as a pattern, a replacement or a prefix.
const MAX_TEXT: usize = 4096;

/// Maximum JSON values in the steps of one kind.
const MAX_VALUES: usize = 10_000;

/// Maximum bytes of the affix that BPE or WordPiece adds to every part of a word.
const MAX_AFFIX: usize = 64;

/// Maximum characters of a word that WordPiece looks up, in time proportional to the square of the word's length.
const MAX_WORD: u64 = 200;

/// Maximum special tokens that a template puts around a text.
const MAX_TEMPLATE_TOKENS: usize = 256;

/// The parts of a `tokenizer.json` that have limits.
#[derive(Debug, Deserialize)]
pub struct TokenizerFile {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    added_tokens: Option<Vec<AddedToken>>,
    #[serde(default)]
    model: Option<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    max_input_chars_per_word: Option<u64>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    vocab: Option<Vocabulary>,
    #[allow(dead_code, reason = "counted as it is read")]
    #[serde(default)]
    merges: Option<Merges>,
}

impl TokenizerFile {
    /// Checks all steps, the tokens and the pieces, and adds them to the sums over the model's tokenizers. A panic of the library on malformed
    /// steps passes through.
    ///
    /// # Errors
    /// A step is malformed, or it or a sum is beyond a limit; a sentence that names it.
    pub fn check(&self, sums: &mut TokenizerSums) -> Result<(), String> {
        let normalizer: Option<NormalizerWrapper> = read("normalizer", &self.normalizer)?;
        let growth = normalizer.as_ref().map_or(Ok(1), of_normalizer).map_err(named("normalizer"))?;
        if let Some(pre_tokenizer) = read::<PreTokenizerWrapper>("pre_tokenizer", &self.pre_tokenizer)? {
            growth::of_pre_tokenizer(&pre_tokenizer).map_err(named("pre_tokenizer"))?;
        }
        if let Some(decoder) = read::<DecoderWrapper>("decoder", &self.decoder)? {
            of_decoder(&decoder).map_err(named("decoder"))?;
        }
        if let Some(processor) = read::<PostProcessorWrapper>("post_processor", &self.post_processor)? {
            check_templates(&processor).map_err(named("post_processor"))?;
        }
        let added = self.added_tokens.as_deref().unwrap_or_default();
        let normalizer = normalizer.as_ref().map(|steps| (steps, growth));
        check_added(added, normalizer, sums).map_err(named("added_tokens"))?;
        self.model.as_ref().map_or(Ok(()), |model| model.check(sums)).map_err(named("model"))
    }
}

impl Model {
    fn check(&self, sums: &mut TokenizerSums) -> Result<(), String> {
        let affixes = [
            ("continuing_subword_prefix", &self.continuing_subword_prefix),
            ("end_of_word_suffix", &self.end_of_word_suffix),
        ];
        for (name, affix) in affixes {
            if let Some(affix) = affix.as_ref().filter(|affix| affix.len() > MAX_AFFIX) {
                return Err(format!("has a `{name}` of {} bytes, the limit is {MAX_AFFIX}", affix.len()));
            }
        }
        if let Some(word) = self.max_input_chars_per_word.filter(|&word| word > MAX_WORD) {
            return Err(format!("has a `max_input_chars_per_word` of {word}, the limit is {MAX_WORD}"));
        }
        self.vocab.as_ref().map_or(Ok(()), |vocabulary| vocabulary.check(self.unk_token.as_deref(), sums))
    }
}

fn named(field: &str) -> impl Fn(String) -> String {
    move |problem| format!("`{field}` {problem}")
}

/// Reads steps whose size and patterns have been checked; `None` if there are none.
fn read<T: DeserializeOwned>(field: &str, steps: &Value) -> Result<Option<T>, String> {
    if steps.is_null() {
        return Ok(None);
    }
    check_values(steps).map_err(named(field))?;
    // From text, since some steps can be read from nothing else.
    serde_json::from_str(&steps.to_string()).map(Some).map_err(|error| format!("`{field}`: {error}"))
}

/// Sizes of the texts and patterns in steps, and their number.
fn check_values(steps: &Value) -> Result<(), String> {
    let mut left = vec![("", steps)];
    let mut count = 0;
    while let Some((key, value)) = left.pop() {
        count += 1;
        if count > MAX_VALUES {
            return Err(format!("has more than {MAX_VALUES} values"));
        }
        match value {
            Value::String(text) => {
                let limit = if key == "precompiled_charsmap" { charsmap::MAX_LEN } else { MAX_TEXT };
                if text.len() > limit {
                    return Err(format!("has a text of {} bytes, the limit is {limit}", text.len()));
                }
                match key {
                    "Regex" => pattern::check(text)
                        .map_err(|problem| format!("has the pattern \"{text}\", which {problem}"))?,
                    "precompiled_charsmap" => drop(charsmap::growth(text)?),
                    _ => {}
                }
            }
            Value::Array(values) => left.extend(values.iter().map(|value| ("", value))),
            Value::Object(fields) => left.extend(fields.iter().map(|(key, value)| (key.as_str(), value))),
            _ => {}
        }
    }
    Ok(())
}

/// Templates have a text once and few tokens around it.
fn check_templates(processor: &PostProcessorWrapper) -> Result<(), String> {
    let processor = serde_json::to_value(processor).map_err(|error| format!("cannot be written: {error}"))?;
    let (mut left, mut around) = (vec![&processor], 0);
    while let Some(value) = left.pop() {
        left.extend(value["processors"].as_array().into_iter().flatten());
        for name in ["single", "pair"] {
            let pieces = value[name].as_array().map(Vec::as_slice).unwrap_or_default();
            for text in ["A", "B"] {
                if pieces.iter().filter(|piece| piece["Sequence"]["id"] == text).count() > 1 {
                    return Err(format!("has the text {text} more than once in `{name}`"));
                }
            }
            // All ids and spellings of a list are copied for each text.
            let tokens = |piece: &Value| {
                let token = &value["special_tokens"][piece["SpecialToken"]["id"].as_str().unwrap_or_default()];
                let count = |list: &str| token[list].as_array().map_or(0, Vec::len);
                count("ids").max(count("tokens"))
            };
            around += pieces.iter().map(tokens).sum::<usize>();
            if around > MAX_TEMPLATE_TOKENS {
                return Err(format!("puts {around} tokens around a text or more, the limit is {MAX_TEMPLATE_TOKENS}"));
            }
        }
    }
    Ok(())
}
