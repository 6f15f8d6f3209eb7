//! The threads that encode texts, away from the ones that serve connections.

use crate::encode::{Encoded, Encoder, Rules};
use crate::pipeline::panic_message;
use crate::{Error, Input, Place, TokenInfo};
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// A worker that waits for parts of one request may pick up another request meanwhile, and so on: deep
/// stacks are possible, and memory is only reserved, not used.
const STACK_SIZE: usize = 8 << 20;

/// Encodes the inputs of each request in parallel.
pub(crate) struct TokenizerPool {
    encoder: Arc<Encoder>,
    threads: rayon::ThreadPool,
}

impl TokenizerPool {
    /// # Errors
    /// [`Error::Validation`] if the threads cannot be started.
    pub(crate) fn new(encoder: Encoder, workers: usize) -> Result<Self, Error> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .stack_size(STACK_SIZE)
            .thread_name(|index| format!("prefold-tokenizer-{index}"))
            .build()
            .map_err(|error| Error::Validation {
                field: "tokenization_workers",
                problem: format!("could not start {workers} threads: {error}"),
            })?;
        Ok(Self { encoder: Arc::new(encoder), threads })
    }

    pub(crate) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Encodes all inputs; the answer is the first error in their order if there is one.
    pub(crate) async fn encode(&self, inputs: Vec<(Place, Input)>, rules: Arc<Rules>) -> Result<Vec<Encoded>, Error> {
        self.map(inputs, move |encoder, place, input| encoder.encode(input, place, &rules)).await
    }

    pub(crate) async fn tokens(&self, texts: Vec<(Place, String)>, rules: Rules) -> Result<Vec<Vec<TokenInfo>>, Error> {
        self.map(texts, move |encoder, place, text| encoder.tokens(text, place, &rules)).await
    }

    pub(crate) async fn decode(
        &self,
        ids: Vec<(Place, Vec<u32>)>,
        skip_special_tokens: bool,
    ) -> Result<Vec<String>, Error> {
        self.map(ids, move |encoder, place, ids| encoder.decode(&ids, place, skip_special_tokens)).await
    }

    /// Runs `work` on every item, on the pool. Work that nobody waits for any more is left undone, and its items do not wait
    /// for their turn.
    async fn map<T, R, F>(&self, items: Vec<(Place, T)>, work: F) -> Result<Vec<R>, Error>
    where
        T: Send + 'static,
        R: Send + 'static,
        F: Fn(&Encoder, Place, T) -> Result<R, Error> + Send + Sync + 'static,
    {
        let failed = {
            let field = items.first().map_or("inputs", |(place, _)| place.field);
            move |problem: String| Error::Tokenization { field, problem }
        };
        let encoder = Arc::clone(&self.encoder);
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting(Arc::new(Mutex::new(items)));
        let begun = Waiting(Arc::clone(&waiting.0));
        self.threads.spawn(move || {
            let items = begun.take();
            let run = |(place, item)| {
                if reply.is_closed() {
                    return Err(failed("the client has gone".to_owned()));
                }
                work(&encoder, place, item)
            };
            let results = catch_unwind(AssertUnwindSafe(|| items.into_par_iter().map(run).collect::<Vec<_>>()));
            let results = match results {
                Ok(results) => results.into_iter().collect(),
                Err(panic) => Err(failed(format!("the tokenizer panicked: {}", panic_message(&*panic)))),
            };
            drop(reply.send(results));
        });
        answer.await.unwrap_or_else(|_| Err(failed("the tokenization workers are gone".to_owned())))
    }
}

/// The items of a request until a worker begins with them. Dropped, it leaves none.
struct Waiting<T>(Arc<Mutex<Vec<T>>>);

impl<T> Waiting<T> {
    fn take(&self) -> Vec<T> {
        // Nothing that can panic runs under the lock.
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.take();
    }
}

#[cfg(test)]
#[path = "tokenize_tests.rs"]
mod tests;
