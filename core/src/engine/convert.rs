//! Results converted one by one, with pauses: there may be a million of them.

use super::pauses::Pauses;
use crate::error::{BackendError, Error};
use crate::response::Response;

/// Units of work per result in addition to its values: moving it, allocating and freeing memory.
const OF_RESULT: usize = 64;

impl<T> Response<T> {
    /// The same answer with each result converted, at `work` units each.
    pub(super) async fn try_map<U>(
        self,
        work: usize,
        f: impl Fn(T) -> Result<U, BackendError>,
    ) -> Result<Response<U>, Error> {
        let Self { results, usage, timings, share } = self;
        let mut converted = Vec::with_capacity(results.len());
        let mut pauses = Pauses::default();
        for result in results {
            pauses.after(OF_RESULT.saturating_add(work)).await;
            converted.push(f(result)?);
        }
        Ok(Response { results: converted, usage, timings, share })
    }
}
