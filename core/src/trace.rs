//! Spans of a request on its way through the engine, for exporters of traces.
//!
//! ```text
//! (the caller's span)
//! ├─ tokenize   encoding its inputs; one for each chunk of a large request
//! ├─ queue      from the hand-over until the backend has taken all of them; again for each chunk
//! │  └─ plan    forming the batch; once for each time that entries of the chunk join it
//! └─ forward    the batch's forward pass; once for each batch that the chunk is in
//!    └─ interrupted    a more urgent batch runs at a yield point of the pass
//! ```
//!
//! A batch serves many requests: each gets its own span, and spans of one batch have the same `batch`. All spans have the
//! level debug and the target [`TARGET`]; without a subscriber for it they are never made.

use std::collections::HashSet;
use std::sync::Arc;
use tracing::Span;

/// The target of all spans that are meant for traces rather than for the log.
pub const TARGET: &str = "prefold::trace";

/// Spans of the request that an entry belongs to; shared by the entries of a chunk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    request: Option<Arc<Span>>,
    /// Span of the queue, which ends with the chunk's last entry.
    queue: Option<Arc<Span>>,
}

impl Trace {
    /// Trace of a chunk that begins to wait, of the request whose span is current.
    pub(crate) fn begin() -> Self {
        let queue = tracing::debug_span!(target: TARGET, "queue");
        if queue.is_disabled() {
            return Self::default();
        }
        Self { request: Some(Arc::new(Span::current())), queue: Some(Arc::new(queue)) }
    }

    /// Ends the entry's part of the queue span.
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
            // i64 is OpenTelemetry's only integer type; others would become strings.
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

/// Fields of a forward pass's span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardSpan {
    pub(crate) id: u64,
    pub(crate) sequences: usize,
    pub(crate) total_tokens: usize,
    pub(crate) unique_tokens: usize,
}

/// Spans of the planning, one for each chunk of a request among the entries' traces.
pub(crate) fn plan_spans<'a>(traces: impl Iterator<Item = &'a Trace>) -> Vec<Span> {
    distinct(traces).filter_map(Trace::plan).collect()
}

/// Spans of a forward pass, one for each chunk of a request among the entries' traces.
pub(crate) fn forward_spans<'a>(traces: impl Iterator<Item = &'a Trace>, batch: &ForwardSpan) -> Vec<Span> {
    distinct(traces).filter_map(|trace| trace.forward(batch)).collect()
}

/// Spans for the time in which the batch with this number interrupts a pass with these spans.
pub(crate) fn interruption_spans(forward: &[Span], batch: u64) -> Vec<Span> {
    let span = |forward: &Span| tracing::debug_span!(target: TARGET, parent: forward, "interrupted", by = batch as i64);
    forward.iter().map(span).collect()
}

/// The trace of each chunk once; none if tracing is off.
fn distinct<'a>(traces: impl Iterator<Item = &'a Trace>) -> impl Iterator<Item = &'a Trace> {
    let mut seen = HashSet::new();
    traces.filter(move |trace| trace.request.as_ref().is_some_and(|request| seen.insert(Arc::as_ptr(request))))
}
