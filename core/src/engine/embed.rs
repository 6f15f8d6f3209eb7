//! Embeddings: of whole inputs and of their tokens.

use super::Engine;
use super::validate::check_dimensions;
use crate::capabilities::Task;
use crate::error::Error;
use crate::metrics::{Method, observe};
use crate::outputs::Outputs;
use crate::postprocess::{embedding, normalize, token_vectors};
use crate::request::{EmbedOptions, EncodeOptions, Input, Place};
use crate::response::{Response, TokenVectors};

impl Engine {
    /// One vector for each input.
    ///
    /// # Errors
    /// [`Error::NotCapable`] unless the model makes embeddings; [`Error::Validation`] for `dimensions` out of range; errors
    /// of admission, encoding and the forward pass.
    pub async fn embed(&self, inputs: Vec<Input>, options: EmbedOptions) -> Result<Response<Vec<f32>>, Error> {
        self.embed_with(None, inputs, options).await
    }

    /// The same with an input of another field before the others.
    ///
    /// # Errors
    /// As [`embed`](Self::embed).
    pub async fn embed_with(
        &self,
        first: Option<(&'static str, Input)>,
        inputs: Vec<Input>,
        options: EmbedOptions,
    ) -> Result<Response<Vec<f32>>, Error> {
        observe(
            Method::Embed,
            inputs.len() + usize::from(first.is_some()),
            Box::pin(async {
                let embed = self.capability(Task::Embed, |can| can.embed.as_ref())?;
                let (dim, normalizes) = (embed.dim, embed.normalizes(options.encode.task.as_deref()));
                let kept = check_dimensions(options.dimensions.unwrap_or(embed.default_dim()), dim)?;
                let inputs = self.counted(inputs, options.encode.field)?;
                let mut inputs = Place::each(inputs, options.encode.field);
                if let Some((field, input)) = first {
                    inputs.insert(0, (Place { field, index: None }, input));
                }
                let response = self.run(inputs, &options.encode, Outputs::EMBEDDING).await?;
                let converted = response.try_map(2 * dim, |output| {
                    let mut vector = embedding(output, dim)?;
                    if options.normalize.is_none() && normalizes {
                        normalize(&mut vector);
                    }
                    vector.truncate(kept);
                    if options.normalize == Some(true) {
                        normalize(&mut vector);
                    }
                    Ok(vector)
                });
                converted.await
            }),
        )
        .await
    }

    /// One vector for each token of each input.
    ///
    /// # Errors
    /// As [`embed`](Self::embed).
    pub async fn embed_tokens(
        &self,
        inputs: Vec<Input>,
        options: EncodeOptions,
    ) -> Result<Response<TokenVectors>, Error> {
        observe(
            Method::EmbedAll,
            inputs.len(),
            Box::pin(async {
                self.capability(Task::Embed, |can| can.embed.as_ref())?;
                let inputs = self.counted(inputs, options.field)?;
                let response = self.run(Place::each(inputs, options.field), &options, Outputs::TOKENS).await?;
                response.try_map(0, token_vectors).await
            }),
        )
        .await
    }
}
