//! Tokens of texts and texts of tokens, without a forward pass.

use super::{Engine, Inner};
use crate::encode::encoders::Encoders;
use crate::metrics::{Method, observe};
use crate::{EncodeOptions, Error, Place, TokenInfo};
use std::sync::atomic::AtomicU64;

impl Engine {
    /// The tokens of each text, with its prompt and special tokens; never truncated.
    ///
    /// # Errors
    /// [`Error::Validation`] for an unknown prompt or for more than a request may bring, [`Error::Tokenization`],
    /// and what admission reports.
    pub async fn tokenize(&self, texts: Vec<String>, options: EncodeOptions) -> Result<Vec<Vec<TokenInfo>>, Error> {
        observe(
            Method::Tokenize,
            texts.len(),
            Box::pin(async {
                let Inner { tokenizers, tokenize_quota, .. } = &*self.inner;
                self.check_count(texts.len(), options.field)?;
                let resolved = tokenizers.encoders().resolve(&options, self.info().capabilities.text_prompts())?;
                let bytes = texts.iter().map(|text| text.len() + resolved.prompt_len() + 1).sum();
                let _request = self.admit()?;
                let unit = "bytes of text with its prompts and one for each text";
                let _share = tokenize_quota.admit(self.account, options.field, bytes, unit)?;
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

    /// The text of each list of ids.
    ///
    /// # Errors
    /// [`Error::Validation`] for an id beyond the vocabulary or for more than a request may bring,
    /// [`Error::Tokenization`], and what admission reports.
    pub async fn decode(&self, ids: Vec<Vec<u32>>, skip_special_tokens: bool) -> Result<Vec<String>, Error> {
        observe(
            Method::Decode,
            ids.len(),
            Box::pin(async {
                let Inner { tokenizers, tokenize_quota, .. } = &*self.inner;
                self.check_count(ids.len(), "ids")?;
                let _request = self.admit()?;
                let _share = tokenize_quota.admit(self.account, "ids", ids.iter().map(Vec::len).sum(), "ids in all")?;
                let ids = Place::each(ids, "ids");
                let decoded = AtomicU64::new(0);
                let decode = move |encoders: &Encoders, place, ids: Vec<u32>| {
                    encoders.first().decode(&ids, place, skip_special_tokens, &decoded)
                };
                let cost = |_: &Encoders, ids: &Vec<u32>| size_of_val(ids.as_slice());
                tokenizers.map(ids, self.turns(cost), decode).await
            }),
        )
        .await
    }
}
