//! BERT's tokenizer, built from its vocabulary and settings.

use super::special_tokens::{Template, set_template};
use prefold_core::{TokenizerSums, check_added_tokens, check_pieces};
use tokenizers::decoders::wordpiece::WordPiece as WordPieceDecoder;
use tokenizers::models::bpe::Vocab;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Tokenizer};

/// Prefix of pieces that continue a word.
pub(crate) const CONTINUES: &str = "##";

/// Parts of BERT's tokenizer.
pub(crate) struct BertTokenizer {
    /// Ids by piece.
    pub(crate) vocab: Vocab,
    /// The piece for words that the vocabulary does not cover.
    pub(crate) unk: String,
    pub(crate) normalizer: BertNormalizer,
    /// Added tokens, which are matched as a whole.
    pub(crate) added: Vec<AddedToken>,
    pub(crate) template: Template,
}

impl BertTokenizer {
    /// Builds the tokenizer; `sums` counts all tokenizers of the model.
    ///
    /// # Errors
    /// A part or a sum exceeds a limit, or the library refuses it.
    pub(crate) fn build(self, sums: &mut TokenizerSums) -> Result<Tokenizer, tokenizers::Error> {
        let pieces = self.vocab.iter().map(|(piece, &id)| (piece.as_str(), id));
        check_pieces(pieces, Some(&self.unk)).map_err(|problem| format!("the vocabulary {problem}"))?;
        let model = WordPiece::builder().vocab(self.vocab).unk_token(self.unk).build()?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_normalizer(Some(self.normalizer))?;
        tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
        tokenizer.with_decoder(Some(WordPieceDecoder::new(CONTINUES.to_owned(), true)));
        add_tokens(&mut tokenizer, self.added, sums)?;
        set_template(&mut tokenizer, &self.template)?;
        Ok(tokenizer)
    }
}

/// Adds added tokens, special and others, to a tokenizer that has its normalizer: all in one call, because the library rebuilds their
/// matcher on each call.
///
/// # Errors
/// The tokens exceed a limit, or the library refuses one.
pub(crate) fn add_tokens(
    tokenizer: &mut Tokenizer,
    added: Vec<AddedToken>,
    sums: &mut TokenizerSums,
) -> Result<(), tokenizers::Error> {
    check_added_tokens(&added, tokenizer.get_normalizer(), sums)
        .map_err(|problem| format!("the added tokens: {problem}"))?;
    tokenizer.add_tokens(added).map(drop)
}
