//! Parts of a tokenizer that its class in transformers 5 builds itself, whatever `tokenizer.json` has: of that file it keeps the vocabulary, the
//! merges, SentencePiece's table of characters (`Precompiled`) and, in some classes, the special tokens around a text.

use super::class::Class;
use super::tokenizer_json::{self, CONFIG};
use super::{bert_normalizer, unknown_token};
use crate::error::LoadError;
use crate::formats::gguf::QWEN2;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::TokenizerSums;
use tokenizers::SplitDelimiterBehavior::{Isolated, MergedWithPrevious};
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::{Lowercase, NFC, Sequence as Normalizers, Strip};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

/// The character that SentencePiece writes for a space.
const SPACE: char = '\u{2581}';

/// Pattern of Qwen3.5.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Replaces the normalizer, the pre-tokenizer and the settings of the model by the ones of the class.
///
/// # Errors
/// A field is malformed, or the added tokens exceed a limit with this normalizer.
pub(super) fn apply(
    tokenizer: &mut Tokenizer,
    files: &ModelFiles,
    (config, class): (&Fields<'_>, Class),
    sums: &mut TokenizerSums,
) -> Result<(), LoadError> {
    let normalizer = normalizer(tokenizer.get_normalizer(), config, class)?;
    if !is_same(tokenizer.get_normalizer(), normalizer.as_ref()) {
        tracing::info!("the tokenizer's class and {CONFIG} overrule the normalizer of {}", tokenizer_json::FILE);
        tokenizer_json::set_normalizer(tokenizer, normalizer, sums)?;
    }
    let steps = pre_tokenizer(config, class)?;
    if steps.is_some() && tokenizer.get_pre_tokenizer() != steps.as_ref() {
        tracing::info!("the tokenizer's class and {CONFIG} overrule the pre-tokenizer of {}", tokenizer_json::FILE);
        tokenizer.with_pre_tokenizer(steps);
    }
    unknown_token::apply(tokenizer, files, config, class)
}

/// The class's normalizer.
fn normalizer(
    found: Option<&NormalizerWrapper>,
    config: &Fields<'_>,
    class: Class,
) -> Result<Option<NormalizerWrapper>, LoadError> {
    let replace = |pattern: ReplacePattern, content: &str| {
        Replace::new(pattern, content).map(NormalizerWrapper::from).map_err(tokenizer_json::invalid)
    };
    Ok(match class {
        Class::Bert | Class::DistilBert | Class::Mpnet => Some(bert_normalizer::described(config)?.into()),
        Class::XlmRoberta | Class::Camembert | Class::T5 => found.and_then(precompiled),
        Class::DebertaV2 => {
            let lowercase = config.or("do_lower_case", false)?.then(|| Lowercase.into());
            let spaces = replace(ReplacePattern::Regex(r"\s{2,}|[\n\r\t]".to_owned()), " ")?;
            let steps = lowercase.into_iter().chain([spaces, NFC.into(), Strip::new(false, true).into()]);
            Some(Normalizers::new(steps.collect()).into())
        }
        Class::Qwen2 | Class::Qwen35 => Some(NFC.into()),
        Class::Gemma => Some(replace(ReplacePattern::String(" ".to_owned()), &SPACE.to_string())?),
        Class::Roberta | Class::Gpt2 | Class::Llama | Class::Generic => None,
    })
}

/// SentencePiece's table of characters in a normalizer.
fn precompiled(normalizer: &NormalizerWrapper) -> Option<NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Precompiled(_) => Some(normalizer.clone()),
        NormalizerWrapper::Sequence(steps) => {
            steps.as_ref().iter().find(|step| matches!(step, NormalizerWrapper::Precompiled(_))).cloned()
        }
        _ => None,
    }
}

/// `true` if both have the same settings, which the library compares only as JSON.
fn is_same(found: Option<&NormalizerWrapper>, wanted: Option<&NormalizerWrapper>) -> bool {
    let json = |it: Option<&NormalizerWrapper>| serde_json::to_vec(&it).ok();
    json(found) == json(wanted)
}

/// The class's pre-tokenizer; `None` for a class that keeps the one in the file.
fn pre_tokenizer(config: &Fields<'_>, class: Class) -> Result<Option<PreTokenizerWrapper>, LoadError> {
    let adds_space = |usual: bool| Ok::<bool, LoadError>(config.optional("add_prefix_space")?.unwrap_or(usual));
    // Python's null is false to these classes, whose default is true. Llama's class replaces it by the default.
    let adds_space_unless_null = || {
        let is_null = config.mentions("add_prefix_space") && config.get("add_prefix_space").is_none();
        adds_space(!is_null)
    };
    let metaspace = |scheme, splits| Metaspace::new(SPACE, scheme, splits).into();
    let scheme = |adds: bool| if adds { PrependScheme::Always } else { PrependScheme::Never };
    let split = |pattern: SplitPattern, behavior| {
        Split::new(pattern, behavior, false).map(PreTokenizerWrapper::from).map_err(tokenizer_json::invalid)
    };
    let mut steps = match class {
        Class::Bert | Class::DistilBert | Class::Mpnet => vec![BertPreTokenizer.into()],
        Class::Roberta | Class::Gpt2 => vec![ByteLevel::new(adds_space(false)?, true, true).into()],
        Class::XlmRoberta | Class::Camembert => {
            vec![WhitespaceSplit.into(), metaspace(scheme(adds_space_unless_null()?), true)]
        }
        Class::T5 => vec![WhitespaceSplit.into(), metaspace(PrependScheme::Always, true)],
        Class::DebertaV2 => {
            let splits = config.or("split_by_punct", false)?.then(|| Punctuation::new(Isolated).into());
            let scheme = if adds_space_unless_null()? { PrependScheme::Always } else { PrependScheme::First };
            let steps = splits.into_iter().chain([metaspace(scheme, true)]);
            return Ok(Some(Sequence::new(steps.collect()).into()));
        }
        Class::Qwen2 | Class::Qwen35 => vec![
            split(SplitPattern::Regex(if class == Class::Qwen2 { QWEN2 } else { QWEN35 }.to_owned()), Isolated)?,
            ByteLevel::new(adds_space(false)?, true, false).into(),
        ],
        Class::Gemma => vec![split(SplitPattern::String(" ".to_owned()), MergedWithPrevious)?],
        Class::Llama => {
            let scheme = match (adds_space(true)?, config.or("legacy", false)?) {
                (false, _) => PrependScheme::Never,
                (true, true) => PrependScheme::Always,
                (true, false) => PrependScheme::First,
            };
            vec![metaspace(scheme, false)]
        }
        Class::Generic => return Ok(None),
    };
    Ok(if steps.len() == 1 { steps.pop() } else { Some(Sequence::new(steps).into()) })
}
