//! Scores of documents against queries, by the model's method of reranking.

use super::Engine;
use super::pauses::{Pauses, drop_aside};
use super::validate::{check_pairing, check_queries};
use crate::capabilities::{Rerank, Task};
use crate::error::{BackendError, Error};
use crate::metrics::{Method, observe};
use crate::outputs::Outputs;
use crate::postprocess::{cosine, embedding, rerank_score};
use crate::request::{EncodeOptions, Input, Place, ScoreRequest};
use crate::response::{RerankScore, Response};

/// Maximum documents whose inputs are made on a connection thread; larger requests use another, because each query may be copied.
const MADE_AT_ONCE: usize = 1 << 12;

impl Engine {
    /// Score of each document, in the order of the documents: against the single query, or against the query with the same
    /// index.
    ///
    /// The score is the logit of yes minus no for a reranker, the single logit for a classifier, and the cosine of query and
    /// document for an embedding model.
    ///
    /// # Errors
    /// [`Error::NotCapable`] for a classifier with more than one label; [`Error::Validation`] if there are several queries but
    /// not one for each document; errors of admission, encoding and the forward pass.
    pub async fn score(&self, mut request: ScoreRequest) -> Result<Response<RerankScore>, Error> {
        observe(
            Method::Rerank,
            request.documents.len(),
            Box::pin(async {
                let are_queries_checked = !self.config().allow_empty_inputs;
                let checked = check_pairing(&request)
                    .and_then(|()| if are_queries_checked { check_queries(&request) } else { Ok(()) });
                if let Err(error) = checked {
                    drop_aside(request);
                    return Err(error);
                }
                let num_documents = request.documents.len();
                // Embedded queries are inputs too, but the limit concerns only documents.
                request.documents = self.counted(request.documents, request.encode.field)?;
                let rerank = self.capability(Task::Rerank, |can| can.rerank.as_ref())?;
                let (inputs, options) = inputs(request, rerank).await?;
                match rerank {
                    Rerank::Cosine => self.score_by_cosine(inputs, num_documents, &options).await,
                    Rerank::Prompt(_) | Rerank::Pair => {
                        self.run(inputs, &options, Outputs::LOGITS).await?.try_map(0, rerank_score).await
                    }
                }
            }),
        )
        .await
    }

    /// `inputs`: the documents, then their queries or their common query.
    async fn score_by_cosine(
        &self,
        inputs: Vec<(Place, Input)>,
        num_documents: usize,
        options: &EncodeOptions,
    ) -> Result<Response<RerankScore>, Error> {
        let embed = self.capability(Task::Embed, |can| can.embed.as_ref())?;
        let (dim, kept) = (embed.dim, embed.default_dim());
        let response = self.run(inputs, options, Outputs::EMBEDDING).await?;
        let vector = |output| {
            let mut vector = embedding(output, dim)?;
            vector.truncate(kept);
            Ok(vector)
        };
        let mut vectors = response.try_map(0, vector).await?;
        let queries = vectors.results.split_off(num_documents);
        let Response { results: documents, usage, timings, share } = vectors;
        let mut scores = Vec::with_capacity(num_documents);
        let mut pauses = Pauses::default();
        for (query, document) in queries.iter().cycle().zip(documents) {
            pauses.after(3 * kept).await;
            let cosine = cosine(query, &document);
            scores.push(RerankScore { raw: cosine, score: cosine });
        }
        Ok(Response { results: scores, usage, timings, share })
    }
}

/// The inputs of a request, and the options to encode them with.
///
/// # Errors
/// Making them panicked.
async fn inputs(request: ScoreRequest, rerank: &Rerank) -> Result<(Vec<(Place, Input)>, EncodeOptions), Error> {
    if request.documents.len() <= MADE_AT_ONCE {
        return Ok(request.into_inputs(rerank));
    }
    let rerank = rerank.clone();
    let made = tokio::task::spawn_blocking(move || request.into_inputs(&rerank)).await;
    made.map_err(|error| BackendError::Panic(error.to_string()).into())
}
