//! SentencePiece's BPE in a GGUF file's metadata: merges follow from the scores of the pieces, as transformers converts them.

use super::end_token::end_token;
use super::file::GgufFile;
use super::letter_case::LetterCase;
use super::tokens::{Kind, TOKENS, Token, added_tokens, failed, first_token, scores, token_at, tokens, vocab};
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template, set_template};
use crate::formats::wordpiece::add_tokens;
use prefold_core::{TokenizerSums, check_merges, check_pieces};
use std::cmp::Reverse;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::{Prepend, Sequence as Normalizers};
use tokenizers::{DecoderWrapper, NormalizerWrapper, Tokenizer};

/// SentencePiece's space mark.
const SPACE: &str = "\u{2581}";

/// Maximum bytes of all halves of all pieces, which are looked up. A vocabulary of 262,000 pieces has some thirty million.
const MAX_HALVES: usize = 1 << 30;

/// Maximum bytes of all merges, of which each is a copy of its piece. Few of a piece's halves are pieces.
const MAX_MERGE_BYTES: usize = 1 << 26;

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed, or beyond a limit.
pub(super) fn tokenizer(file: &GgufFile, sums: &mut TokenizerSums) -> Result<Tokenizer, LoadError> {
    LetterCase::read(file)?.none(file)?;
    let mut tokens = tokens(file)?;
    let scores = scores(file, &tokens)?;
    // Converters write the spaces of these tokens as such.
    for token in tokens.iter_mut().filter(|token| token.kind == Kind::UserDefined) {
        token.text = token.text.replace(' ', SPACE).into();
    }
    let (unknown, _) = token_at(file, &tokens, "tokenizer.ggml.unknown_token_id")?
        .ok_or_else(|| file.lacks("tokenizer.ggml.unknown_token_id"))?;
    let beyond = |problem| LoadError::invalid(file.name(), format!("the vocabulary {problem}"));
    check_pieces(tokens.iter().map(|token| &*token.text).zip(0..), Some(&unknown)).map_err(beyond)?;
    let vocab = vocab(file, tokens.iter().map(|token| token.text.clone().into_owned()))?;
    let merges = merges(&tokens, &scores, &vocab).map_err(beyond)?;
    let invalid = |error| LoadError::invalid(file.name(), format!("tokenizer: {error}"));
    let builder = BPE::builder().vocab_and_merges(vocab, merges).unk_token(unknown).fuse_unk(true).byte_fallback(true);
    let mut tokenizer = Tokenizer::new(builder.build().map_err(invalid)?);

    let failed = failed(file);
    let prefix = file.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let replace = |from: &str, to: &str| Replace::new(ReplacePattern::String(from.to_owned()), to).map_err(failed);
    let mut normalizers: Vec<NormalizerWrapper> = vec![replace(" ", SPACE)?.into()];
    let mut decoders: Vec<DecoderWrapper> =
        vec![replace(SPACE, " ")?.into(), ByteFallback::new().into(), Fuse::new().into()];
    if prefix {
        normalizers.insert(0, Prepend::new(SPACE.to_owned()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    tokenizer.with_normalizer(Some(Normalizers::new(normalizers))).map_err(failed)?;
    tokenizer.with_decoder(Some(Decoders::new(decoders)));
    add_tokens(&mut tokenizer, added_tokens(file, &tokens)?, sums).map_err(failed)?;
    let template =
        Template { bos: first_token(file, &tokens, true)?, eos: end_token(file, false)?, second: SecondText::Own };
    set_template(&mut tokenizer, &template).map_err(failed)?;
    Ok(tokenizer)
}

/// The pairs of pieces that are a piece, the best piece first. Tokens that are matched as a whole are better than any piece.
///
/// # Errors
/// They are beyond a limit; the rest of a sentence.
fn merges(tokens: &[Token<'_>], scores: &[f64], vocab: &Vocab) -> Result<Vec<(String, String)>, String> {
    let (mut found, mut halves, mut bytes) = (Vec::new(), 0, 0);
    for (token, &score) in tokens.iter().zip(scores) {
        let score = match token.kind {
            Kind::Normal => score,
            Kind::UserDefined => f64::INFINITY,
            Kind::Control | Kind::Unused => continue,
        };
        let text = &*token.text;
        halves += text.len() * text.len();
        if halves > MAX_HALVES {
            return Err(format!("has pieces whose halves have more than {MAX_HALVES} bytes together in `{TOKENS}`"));
        }
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if vocab.contains_key(left) && vocab.contains_key(right) {
                found.push((score, left, right));
                bytes += text.len();
            }
        }
        if bytes > MAX_MERGE_BYTES {
            return Err(format!(
                "has pieces whose merges have more than {MAX_MERGE_BYTES} bytes together in `{TOKENS}`"
            ));
        }
        check_merges(found.len())?;
    }
    let length = |text: &str| Reverse(text.chars().count());
    found.sort_by(|(a, a_left, a_right), (b, b_left, b_right)| {
        b.total_cmp(a).then_with(|| (length(a_left), length(a_right)).cmp(&(length(b_left), length(b_right))))
    });
    Ok(found.into_iter().map(|(_, left, right)| (left.to_owned(), right.to_owned())).collect())
}
