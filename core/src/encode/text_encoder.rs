//! Encoder without an engine, for tools that need the same tokens as the server.

use super::encoder::Encoder;
use crate::capabilities::Capabilities;
use crate::error::Error;
use crate::request::{EncodeLimits, EncodeOptions, Input, Place};
use rayon::prelude::*;
use tokenizers::Tokenizer;

/// Encodes inputs exactly as an [`Engine`](crate::Engine) with the same model does.
pub struct TextEncoder {
    encoder: Encoder,
    capabilities: Capabilities,
}

impl std::fmt::Debug for TextEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextEncoder").finish_non_exhaustive()
    }
}

impl TextEncoder {
    /// Encoder with the prompts of `capabilities`.
    ///
    /// # Errors
    /// [`Error::Validation`] or [`Error::Tokenization`] if the rerank prompt does not fit tokenizer and limits.
    pub fn new(tokenizer: Tokenizer, capabilities: Capabilities, limits: EncodeLimits) -> Result<Self, Error> {
        let encoder = Encoder::new(tokenizer, capabilities.rerank_template().cloned(), limits)?;
        Ok(Self { encoder, capabilities })
    }

    /// Token ids of each input of a request, encoded in parallel; returns the first error in the order of the inputs.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Validation`], [`Error::Tokenization`].
    pub fn encode(&self, inputs: Vec<Input>, options: &EncodeOptions) -> Result<Vec<Vec<u32>>, Error> {
        let field = options.field;
        let options = self.encoder.resolve(options, self.capabilities.text_prompts())?;
        let one = |(index, input)| {
            let place = Place { field, index: Some(index) };
            self.encoder.encode(input, place, &options).map(|encoded| encoded.tokens.input_ids().to_vec())
        };
        let encoded: Vec<_> = inputs.into_par_iter().enumerate().map(one).collect();
        encoded.into_iter().collect()
    }
}
