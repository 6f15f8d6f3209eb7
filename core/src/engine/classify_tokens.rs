//! Token classification.

use super::validate::check_not_empty_texts;
use super::{Engine, Inner};
use crate::capabilities::{ClassifyTokens, Task};
use crate::encode::encoders::Encoders;
use crate::encode::spans::Spans;
use crate::error::Error;
use crate::metrics::{self, Method, observe};
use crate::outputs::Outputs;
use crate::request::{EncodeOptions, Input, Place};
use crate::response::{Response, TokenLogits};
use std::sync::Arc;
use std::time::Instant;

/// Units of work per text for joining its tokens with their logits.
const OF_TEXT: usize = 1 << 10;

impl Engine {
    /// Tokens of each text, each with the logits of all labels.
    ///
    /// # Errors
    /// [`Error::NotCapable`] unless the model is a token classifier; [`Error::Validation`] beyond the limits of a request; errors
    /// of admission, encoding and the forward pass.
    pub async fn classify_tokens(
        &self,
        texts: Vec<String>,
        options: EncodeOptions,
    ) -> Result<Response<TokenLogits>, Error> {
        observe(
            Method::Predict,
            texts.len(),
            Box::pin(async {
                let ClassifyTokens { labels, .. } =
                    self.capability(Task::ClassifyTokens, |can| can.classify_tokens.as_ref())?;
                let texts = self.counted(texts, options.field)?;
                if !self.config().allow_empty_inputs {
                    check_not_empty_texts(&texts, options.field)?;
                }
                let begun = Instant::now();
                let Inner { quotas, .. } = &*self.inner;
                let bytes = texts.iter().map(|text| text.len() + 1).sum();
                let unit = "bytes of text and one for each text";
                let encoding = quotas.tokenize().admit(self.account, options.field, bytes, unit)?;
                let spans = self.spans(texts, &options).await?;
                // From here on the tokens' memory counts in the request's own share.
                drop(encoding);
                let tokenization = begun.elapsed();
                let ids = spans.iter().map(|spans| Input::Ids(spans.ids.clone())).collect();
                // The ids are within the limits already.
                let response = self.run(Place::each(ids, options.field), &options, Outputs::TOKENS).await?;
                let Response { results, mut usage, mut timings, share } = response;
                usage.characters = spans.iter().map(|spans| spans.text.chars().count()).sum();
                usage.truncated_inputs = spans.iter().filter(|spans| spans.is_truncated).count();
                metrics::truncated_inputs(usage.truncated_inputs);
                timings.tokenization += tokenization;
                timings.total += tokenization;
                let results = spans.into_iter().zip(results).collect();
                let response = Response { results, usage, timings, share };
                let logits = |(Spans { text, tokens, kept, .. }, output)| {
                    TokenLogits::new(text, tokens, &kept, labels.len(), output)
                };
                response.try_map(OF_TEXT, logits).await
            }),
        )
        .await
    }

    async fn spans(&self, texts: Vec<String>, options: &EncodeOptions) -> Result<Vec<Spans>, Error> {
        let tokenizers = &self.inner.tokenizers;
        let resolved = Arc::new(tokenizers.encoders().resolve(options, None)?.with_offsets().counting_in(self.share()));
        let _request = self.admit()?;
        let options_of_cost = Arc::clone(&resolved);
        let cost = move |encoders: &Encoders, text: &String| encoders.first().text_cost(text.len(), &options_of_cost);
        let spans = move |encoders: &Encoders, place, text| encoders.first().spans(text, place, &resolved);
        tokenizers.map(Place::each(texts, options.field), self.turns(cost), spans).await
    }
}
