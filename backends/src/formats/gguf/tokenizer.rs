//! Tokenizer in a GGUF file's metadata, by its kind.

use super::file::GgufFile;
use super::tokens::BESIDE;
use super::{byte_level, unigram, wordpiece};
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
        model => {
            let kind = if model == "llama" { " (SentencePiece's BPE)" } else { "" };
            let supported = format!("gpt2 (byte-level BPE), bert (WordPiece), t5 (Unigram); {BESIDE}");
            Err(LoadError::unsupported(file.name(), format!("`{MODEL}` \"{model}\"{kind}"), supported))
        }
    }
}
