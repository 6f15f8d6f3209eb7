//! Unigram in a GGUF file's metadata, with XLM-RoBERTa's normaliser and special tokens.

use super::file::GgufFile;
use super::letter_case::LetterCase;
use super::tokens::{BESIDE, Kind, Token, added_tokens, failed, scores, separation, token_at, tokens};
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template, set_template};
use crate::formats::wordpiece::add_tokens;
use candle_core::quantized::gguf_file::Value;
use prefold_core::{TokenizerSums, check_charsmap, check_unigram};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{Precompiled, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{NormalizerWrapper, Tokenizer};

const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// XLM-RoBERTa's mask token.
const MASK: &str = "<mask>";

/// SentencePiece's space mark.
const SPACE: char = '\u{2581}';

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed, or spaces are treated in another way than XLM-RoBERTa's.
pub(super) fn tokenizer(file: &GgufFile, sums: &mut TokenizerSums) -> Result<Tokenizer, LoadError> {
    for key in ["tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces"] {
        if file.bool(key)? == Some(false) {
            return Err(LoadError::unsupported(file.name(), format!("`{key}` false"), format!("true; {BESIDE}")));
        }
    }
    LetterCase::read(file)?.none(file)?;
    let mut tokens = tokens(file)?;
    let mask = name_mask(file, &mut tokens)?;
    let required = |key: &str| token_at(file, &tokens, key)?.ok_or_else(|| file.lacks(key));
    let template = Template {
        bos: Some(required("tokenizer.ggml.bos_token_id")?),
        eos: Some(required("tokenizer.ggml.eos_token_id")?),
        second: separation(file, SecondText::Separated)?,
    };
    let (_, unk) = required("tokenizer.ggml.unknown_token_id")?;
    let failed = failed(file);
    let beyond = |problem| LoadError::invalid(file.name(), format!("the vocabulary {problem}"));
    check_unigram(tokens.iter().map(|token| &*token.text), sums).map_err(beyond)?;
    let model = Unigram::from(scored(file, &tokens)?, Some(unk as usize), false).map_err(failed)?;
    // An unused token until its score is known.
    mask.into_iter().for_each(|id| tokens[id].kind = Kind::Control);
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(Some(normalizer(file)?)).map_err(failed)?;
    let metaspace = || Metaspace::new(SPACE, PrependScheme::Always, true);
    tokenizer.with_pre_tokenizer(Some(PreTokenizers::new(vec![WhitespaceSplit.into(), metaspace().into()])));
    tokenizer.with_decoder(Some(metaspace()));
    add_tokens(&mut tokenizer, added_tokens(file, &tokens)?, sums).map_err(failed)?;
    set_template(&mut tokenizer, &template).map_err(failed)?;
    Ok(tokenizer)
}

/// Names the mask token, which SentencePiece's file lacks, and returns its index: converters write its id, and an unused token in its place.
fn name_mask(file: &GgufFile, tokens: &mut [Token<'_>]) -> Result<Option<usize>, LoadError> {
    let Some((_, id)) = token_at(file, tokens, "tokenizer.ggml.mask_token_id")? else { return Ok(None) };
    let is_unnamed = tokens[id as usize].kind == Kind::Unused && tokens.iter().all(|token| token.text != MASK);
    Ok(is_unnamed.then(|| {
        tokens[id as usize].text = MASK.into();
        id as usize
    }))
}

/// Pieces and their scores by id. Unused ids get the lowest score of the others: converters give them a far lower one, which
/// would lower the score of unknown letters.
fn scored(file: &GgufFile, tokens: &[Token<'_>]) -> Result<Vec<(String, f64)>, LoadError> {
    let scores = scores(file, tokens)?;
    let used = tokens.iter().zip(&scores).filter(|(token, _)| token.kind != Kind::Unused);
    let lowest = used.map(|(_, &score)| score).fold(0.0, f64::min);
    let scored = tokens.iter().zip(scores).map(|(token, score)| {
        let score = if token.kind == Kind::Unused { lowest } else { score };
        (token.text.clone().into_owned(), score)
    });
    Ok(scored.collect())
}

/// SentencePiece's character map, then runs of spaces become one space.
fn normalizer(file: &GgufFile) -> Result<NormalizerWrapper, LoadError> {
    let wrong = || file.wrong(CHARSMAP, "a list of bytes");
    let bytes = match file.get(CHARSMAP) {
        None => Vec::new(),
        Some(Value::Array(bytes)) => {
            let byte = |byte: &Value| match *byte {
                Value::U8(byte) => Ok(byte),
                Value::I8(byte) => Ok(byte.cast_unsigned()),
                _ => Err(wrong()),
            };
            bytes.iter().map(byte).collect::<Result<Vec<_>, _>>()?
        }
        Some(_) => return Err(wrong()),
    };
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if !bytes.is_empty() {
        let invalid = |problem| LoadError::invalid(file.name(), format!("metadata `{CHARSMAP}` {problem}"));
        check_charsmap(&bytes).map_err(invalid)?;
        steps.push(Precompiled::from(&bytes).map_err(|error| invalid(error.to_string()))?.into());
    }
    let spaces = Replace::new(tokenizers::normalizers::replace::ReplacePattern::Regex(" {2,}".to_owned()), " ");
    steps.push(spaces.map_err(failed(file))?.into());
    Ok(Normalizers::new(steps).into())
}
