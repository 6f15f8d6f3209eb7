//! Byte-level BPE in a GGUF file's metadata.

use super::end_token::end_token;
use super::file::GgufFile;
use super::letter_case::LetterCase;
use super::pre_tokenizers::pre_tokenizer;
use super::tokens::{Token, added_tokens, failed, first_token, separation, strings, tokens, vocab};
use crate::error::LoadError;
use crate::formats::special_tokens::{Template, set_template};
use crate::formats::wordpiece::add_tokens;
use prefold_core::{TokenizerSums, check_merges};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::normalizers::{Lowercase, Sequence as Normalizers};
use tokenizers::{NormalizerWrapper, Tokenizer};

const MERGES: &str = "tokenizer.ggml.merges";

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed, or the pattern that splits texts is not known.
pub(super) fn tokenizer(file: &GgufFile, sums: &mut TokenizerSums) -> Result<Tokenizer, LoadError> {
    let pre = pre_tokenizer(file)?;
    let tokens = tokens(file)?;
    let mut tokenizer = Tokenizer::new(bpe(file, &tokens, pre.ignore_merges)?);
    let failed = failed(file);

    let lowercase = LetterCase::read(file)?.without_stripping(file)?.lowercase == Some(true);
    let steps = [pre.nfc.then(|| NFC.into()), lowercase.then(|| Lowercase.into())];
    let steps: Vec<NormalizerWrapper> = steps.into_iter().flatten().collect();
    tokenizer.with_normalizer((!steps.is_empty()).then(|| Normalizers::new(steps))).map_err(failed)?;
    tokenizer.with_pre_tokenizer(Some(pre.split.build().map_err(failed)?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    add_tokens(&mut tokenizer, added_tokens(file, &tokens)?, sums).map_err(failed)?;
    let template = Template {
        bos: first_token(file, &tokens, pre.adds_bos)?,
        eos: end_token(file, pre.adds_eos)?,
        second: separation(file, pre.second)?,
    };
    set_template(&mut tokenizer, &template).map_err(failed)?;
    Ok(tokenizer)
}

fn bpe(file: &GgufFile, tokens: &[Token<'_>], ignore_merges: bool) -> Result<BPE, LoadError> {
    let vocab = vocab(file, tokens.iter().map(|token| token.text.clone().into_owned()))?;
    let merges = strings(file, MERGES)?;
    check_merges(merges.len())
        .map_err(|problem| LoadError::invalid(file.name(), format!("metadata `{MERGES}` {problem}")))?;
    let merges = merges.into_iter().map(|merge| match merge.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => {
            Err(LoadError::invalid(file.name(), format!("metadata `{MERGES}` has \"{merge}\", which is not a pair")))
        }
    });
    let builder =
        BPE::builder().vocab_and_merges(vocab, merges.collect::<Result<_, _>>()?).ignore_merges(ignore_merges);
    builder.build().map_err(|error| LoadError::invalid(file.name(), format!("tokenizer: {error}")))
}
