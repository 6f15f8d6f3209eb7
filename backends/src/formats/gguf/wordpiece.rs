//! WordPiece in a GGUF file's metadata.
//!
//! Converters mark pieces that begin a word with U+2581 and drop the `##` of pieces that continue one. The file does not state
//! whether texts are converted to lower case; this is inferred from the vocabulary.

use super::file::GgufFile;
use super::tokens::{Kind, Token, failed, token_at, tokens, vocab};
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template};
use crate::formats::wordpiece::{BertTokenizer, CONTINUES};
use prefold_core::TokenizerSums;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::{AddedToken, NormalizedString, Normalizer, Tokenizer};

/// Converters' prefix of pieces that begin a word.
const BEGINS: char = '\u{2581}';

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed.
pub(super) fn tokenizer(file: &GgufFile, sums: &mut TokenizerSums) -> Result<Tokenizer, LoadError> {
    let tokens = tokens(file)?;
    let pieces: Vec<String> = tokens.iter().map(piece).collect();
    let normal = tokens.iter().zip(&pieces).filter(|(token, _)| token.kind == Kind::Normal);
    let normalizer = normalizer(file, normal.map(|(_, piece)| piece.as_str()))?;
    let cls = special(file, (&tokens, &pieces), &["cls_token_id", "bos_token_id"], "[CLS]")?;
    // The format's own spelling.
    let sep = special(file, (&tokens, &pieces), &["seperator_token_id", "eos_token_id"], "[SEP]")?;
    let (unk, _) = special(file, (&tokens, &pieces), &["unknown_token_id"], "[UNK]")?;
    let added = tokens.iter().zip(&pieces).filter_map(|(token, piece)| match token.kind {
        Kind::Control => Some(AddedToken::from(piece.as_str(), true).normalized(false)),
        Kind::UserDefined => Some(AddedToken::from(piece.as_str(), false)),
        Kind::Normal | Kind::Unused => None,
    });
    let added = added.collect();
    let template = Template { bos: Some(cls), eos: Some(sep), second: SecondText::Joined };
    let vocab = vocab(file, pieces.into_iter())?;
    BertTokenizer { vocab, unk, normalizer, added, template }.build(sums).map_err(failed(file))
}

/// A token in BERT's own spelling.
fn piece(token: &Token<'_>) -> String {
    match token.text.strip_prefix(BEGINS) {
        _ if token.kind == Kind::Control => token.text.clone().into_owned(),
        // U+2581 alone continues a word: no word begins with nothing.
        None | Some("") => format!("{CONTINUES}{}", token.text),
        Some(word) => word.to_owned(),
    }
}

/// The normaliser that the file states, as newer converters write it; otherwise that of the vocabulary. Without a statement about accents
/// they are stripped if texts are lower-cased, as in BERT's.
fn normalizer<'a>(file: &GgufFile, pieces: impl Iterator<Item = &'a str> + Clone) -> Result<BertNormalizer, LoadError> {
    let stated = |name: &str| file.bool(&format!("tokenizer.ggml.normalizer.{name}"));
    let (lowercase, strip_accents) = (stated("lowercase")?, stated("strip_accents")?);
    let inferred = inferred(pieces);
    Ok(match (lowercase, strip_accents) {
        (None, None) => inferred,
        _ => BertNormalizer::new(true, true, strip_accents, lowercase.unwrap_or(inferred.lowercase)),
    })
}

/// Infers the normaliser of a vocabulary: no piece may change under it, because a changed piece could never match. Names in brackets,
/// such as `[unused1]`, are not words.
fn inferred<'a>(pieces: impl Iterator<Item = &'a str> + Clone) -> BertNormalizer {
    let mut words = pieces.filter(|piece| !(piece.contains('[') && piece.ends_with(']')));
    let is_cased = |piece: &str| piece.chars().any(|letter| !letter.to_lowercase().eq([letter]));
    let mut normalizer = BertNormalizer::new(true, true, None, !words.clone().any(is_cased));
    if normalizer.lowercase {
        let stripped = BertNormalizer::new(false, false, Some(true), false);
        let has_accent = |piece: &str| {
            let mut text = NormalizedString::from(piece);
            stripped.normalize(&mut text).is_err() || text.get() != piece
        };
        normalizer.strip_accents = Some(!words.any(|piece| !piece.is_ascii() && has_accent(piece)));
    }
    normalizer
}

/// A special token by the first of the keys in the file, otherwise by its usual name.
fn special(
    file: &GgufFile,
    (tokens, pieces): (&[Token<'_>], &[String]),
    keys: &[&str],
    name: &str,
) -> Result<(String, u32), LoadError> {
    let keys = keys.iter().map(|key| format!("tokenizer.ggml.{key}"));
    for key in keys.clone() {
        if let Some((_, id)) = token_at(file, tokens, &key)? {
            return Ok((pieces[id as usize].clone(), id));
        }
    }
    let named = pieces.iter().zip(0u32..).find(|(piece, _)| *piece == name);
    let missing = || file.lacks(&keys.collect::<Vec<_>>().join("` or `"));
    named.map(|(piece, id)| (piece.clone(), id)).ok_or_else(missing)
}
