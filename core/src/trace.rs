//! The spans of a request on its way through the engine, for whoever exports traces.
//!
//! ```text
//! (the caller's span)
//! ├─ tokenize   encoding its inputs; one for each part of a large request
//! ├─ queue      from the hand-over until the backend has taken all of them; again for each part
//! │  └─ plan    forming the batch; once for each time that entries of the part join it
//! └─ forward    the batch's forward pass; once for each batch that the part is in
//! ```
//!
//! A batch serves many requests: each gets a span of its own, and `batch` in it tells which are the same. All have the
//! level debug and the target [`TARGET`]; where no subscriber asks for that they are never made.

use crate::queue::Entry;
use std::collections::HashSet;
use std::sync::Arc;
use tracing::Span;

/// The target of all spans that are meant for traces rather than for the log.
pub const TARGET: &str = "prefold::trace";

/// What an entry knows of the request that it belongs to; shared by the entries of a part, each with spans of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    request: Option<Arc<Span>>,
    /// Ends with its last entry.
    queue: Option<Arc<Span>>,
}

impl Trace {
    /// A part of the request whose span is current begins to wait.
    pub(crate) fn begin() -> Self {
        let queue = tracing::debug_span!(target: TARGET, "queue");
        if queue.is_disabled() {
            return Self::default();
        }
        Self { request: Some(Arc::new(Span::current())), queue: Some(Arc::new(queue)) }
    }

    /// The entry waits no longer.
    pub(crate) fn leave_queue(&mut self) {
        self.queue = None;
    }

    /// Planning for this request; ends when dropped.
    fn plan(&self) -> Option<Span> {
        self.queue.as_deref().map(|queue| tracing::debug_span!(target: TARGET, parent: queue, "plan"))
    }

    /// A forward pass for this request; ends when dropped.
    fn forward(&self, batch: &ForwardSpan) -> Option<Span> {
        let &ForwardSpan { id, sequences, total_tokens, unique_tokens } = batch;
        self.request.as_deref().map(|request| {
            // Of whole numbers OpenTelemetry knows i64 alone; others would become texts.
            tracing::debug_span!(
                target: TARGET,
                parent: request,
                "forward",
                batch = id as i64,
                sequences = sequences as i64,
                total_tokens = total_tokens as i64,
                unique_tokens = unique_tokens as i64,
            )
        })
    }
}

/// What the span of a forward pass says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardSpan {
    pub(crate) id: u64,
    pub(crate) sequences: usize,
    pub(crate) total_tokens: usize,
    pub(crate) unique_tokens: usize,
}

/// Spans of the planning for each part of a request among the entries.
pub(crate) fn plan_spans(entries: &[Entry]) -> Vec<Span> {
    parts(entries).filter_map(Trace::plan).collect()
}

/// Spans of a forward pass for each part of a request among the entries.
pub(crate) fn forward_spans(entries: &[Entry], batch: &ForwardSpan) -> Vec<Span> {
    parts(entries).filter_map(|trace| trace.forward(batch)).collect()
}

/// Each part of a request once; none that nobody traces.
fn parts(entries: &[Entry]) -> impl Iterator<Item = &Trace> {
    let mut seen = HashSet::new();
    let traces = entries.iter().map(|entry| &entry.trace);
    traces.filter(move |trace| trace.request.as_ref().is_some_and(|request| seen.insert(Arc::as_ptr(request))))
}
