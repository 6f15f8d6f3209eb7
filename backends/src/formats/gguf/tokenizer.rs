//! Tokenizer in a GGUF file's metadata, by its kind.

use super::file::GgufFile;
use super::tokens::BESIDE;
use super::{byte_level, sentencepiece, unigram, wordpiece};
use crate::error::LoadError;
use prefold_core::TokenizerSums;
use tokenizers::Tokenizer;

const MODEL: &str = "tokenizer.ggml.model";

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed, or the kind of tokenizer is not supported.
pub(crate) fn tokenizer(file: &GgufFile, sums: &mut TokenizerSums) -> Result<Tokenizer, LoadError> {
    match file.str(MODEL)?.ok_or_else(|| file.lacks(MODEL))? {
        "gpt2" => byte_level::tokenizer(file, sums),
        "bert" => wordpiece::tokenizer(file, sums),
        "t5" => unigram::tokenizer(file, sums),
        "llama" => sentencepiece::tokenizer(file, sums),
        model => {
            let supported = "gpt2 (byte-level BPE), llama (SentencePiece's BPE), bert (WordPiece), t5 (Unigram)";
            let supported = format!("{supported}; {BESIDE}");
            Err(LoadError::unsupported(file.name(), format!("`{MODEL}` \"{model}\""), supported))
        }
    }
}
