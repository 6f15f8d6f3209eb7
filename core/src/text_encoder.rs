//! The encoder without the engine, for tools that want the tokens that a server would make.

use crate::encode::Encoder;
use crate::{EncodeLimits, EncodeOptions, Error, Input, Place, Prompts, RerankTemplate};
use rayon::prelude::*;
use tokenizers::Tokenizer;

/// Encodes inputs exactly as an [`Engine`](crate::Engine) with the same model does.
pub struct TextEncoder {
    encoder: Encoder,
}

impl std::fmt::Debug for TextEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextEncoder").finish_non_exhaustive()
    }
}

impl TextEncoder {
    /// `template` is needed for [`Input::Rerank`] only.
    ///
    /// # Errors
    /// [`Error::Validation`] or [`Error::Tokenization`] if the template does not fit tokenizer and limits.
    pub fn new(
        tokenizer: Tokenizer,
        prompts: Prompts,
        template: Option<RerankTemplate>,
        limits: EncodeLimits,
    ) -> Result<Self, Error> {
        Ok(Self { encoder: Encoder::new(tokenizer, prompts, template, limits)? })
    }

    /// The token ids of each input of a request, in parallel; the first error in their order if there is one.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Validation`], [`Error::Tokenization`]; [`Error::WrongModelKind`] for a rerank prompt
    /// without a template.
    pub fn encode(&self, inputs: Vec<Input>, options: &EncodeOptions) -> Result<Vec<Vec<u32>>, Error> {
        let rules = self.encoder.rules(options)?;
        let one = |(index, input)| {
            let place = Place { field: options.field, index: Some(index) };
            self.encoder.encode(input, place, &rules).map(|encoded| encoded.input_ids)
        };
        let encoded: Vec<_> = inputs.into_par_iter().enumerate().map(one).collect();
        encoded.into_iter().collect()
    }
}
