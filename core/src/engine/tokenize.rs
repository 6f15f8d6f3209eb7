//! Tokenization of texts and decoding of ids, without a forward pass.

use super::{Engine, Inner};
use crate::encode::encoders::Encoders;
use crate::encode::growth::MAX_DECODED;
use crate::error::Error;
use crate::metrics::{Method, observe};
use crate::request::{EncodeOptions, Place};
use crate::response::TokenInfo;
use std::sync::atomic::AtomicU64;

impl Engine {
    /// Tokens of each text, with its prompt and special tokens; never truncated.
    ///
    /// # Errors
    /// [`Error::Validation`] for an unknown prompt or beyond the limits of a request; [`Error::Tokenization`]; errors of
    /// admission.
    pub async fn tokenize(&self, texts: Vec<String>, options: EncodeOptions) -> Result<Vec<Vec<TokenInfo>>, Error> {
        observe(
            Method::Tokenize,
            texts.len(),
            Box::pin(async {
                let Inner { tokenizers, quotas, .. } = &*self.inner;
                let texts = self.counted(texts, options.field)?;
                let resolved = tokenizers.encoders().resolve(&options, self.info().capabilities.text_prompts())?;
                let bytes = texts.iter().map(|text| text.len() + resolved.prompt_len() + 1).sum();
                let _request = self.admit()?;
                let unit = "bytes of text with its prompts and one for each text";
                let _share = quotas.tokenize().admit(self.account, options.field, bytes, unit)?;
                let resolved = resolved.counting_in(self.share());
                let texts = Place::each(texts, options.field);
                let prompt = resolved.prompt_len();
                let cost = move |_: &Encoders, text: &String| prompt + text.len();
                let tokens =
                    move |encoders: &Encoders, place, text| encoders.of(&resolved).tokens(text, place, &resolved);
                tokenizers.map(texts, self.turns(cost), tokens).await
            }),
        )
        .await
    }

    /// Text of each list of ids.
    ///
    /// # Errors
    /// [`Error::Validation`] for an id beyond the vocabulary or beyond the limits of a request; [`Error::Tokenization`];
    /// errors of admission.
    pub async fn decode(&self, ids: Vec<Vec<u32>>, skip_special_tokens: bool) -> Result<Vec<String>, Error> {
        observe(
            Method::Decode,
            ids.len(),
            Box::pin(async {
                let Inner { tokenizers, quotas, .. } = &*self.inner;
                let ids = self.counted(ids, "ids")?;
                let _request = self.admit()?;
                let _share =
                    quotas.tokenize().admit(self.account, "ids", ids.iter().map(Vec::len).sum(), "ids in all")?;
                // The length of the decoded text is checked during decoding.
                let most = ids.iter().map(|ids| tokenizers.encoders().first().most_decoded(ids));
                let most = most.fold(0, usize::saturating_add).min(MAX_DECODED as usize);
                let share = self.share();
                share.grow(most)?;
                let ids = Place::each(ids, "ids");
                let decoded = AtomicU64::new(0);
                let decode = move |encoders: &Encoders, place, ids: Vec<u32>| {
                    encoders.first().decode(&ids, place, skip_special_tokens, &decoded)
                };
                let cost = |_: &Encoders, ids: &Vec<u32>| size_of_val(ids.as_slice());
                let texts = tokenizers.map(ids, self.turns(cost), decode).await?;
                let made: usize = texts.iter().map(String::len).sum();
                share.shrink_to(share.held().saturating_sub(most.saturating_sub(made)));
                Ok(texts)
            }),
        )
        .await
    }
}
