//! Classification: the logits of each input.

use super::Engine;
use crate::capabilities::{Classify, Task};
use crate::error::{BackendError, Error};
use crate::metrics::{Method, observe};
use crate::outputs::Outputs;
use crate::postprocess::logits;
use crate::request::{EncodeOptions, Input, Place};
use crate::response::Response;

impl Engine {
    /// Logits of each input, one per label.
    ///
    /// # Errors
    /// [`Error::NotCapable`] unless the model is a classifier; errors of admission, encoding and the forward pass.
    pub async fn classify(&self, inputs: Vec<Input>, options: EncodeOptions) -> Result<Response<Vec<f32>>, Error> {
        observe(
            Method::Predict,
            inputs.len(),
            Box::pin(async {
                let Classify { labels, .. } = self.capability(Task::Classify, |can| can.classify.as_ref())?;
                let inputs = self.counted(inputs, options.field)?;
                let response = self.run(Place::each(inputs, options.field), &options, Outputs::LOGITS).await?;
                let checked = response.try_map(0, |output| {
                    let logits = logits(output)?;
                    if logits.len() == labels.len() {
                        return Ok(logits);
                    }
                    Err(BackendError::Contract(format!("{} logits for {} labels", logits.len(), labels.len())))
                });
                checked.await
            }),
        )
        .await
    }
}
