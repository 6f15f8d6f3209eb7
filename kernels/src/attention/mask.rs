//! The keys that a query sees.

use super::span::{MAX_POSITIONS, QuerySpan};
use crate::error::KernelError;
use std::ops::Range;

/// The keys of its path that a query sees, before a sliding window is applied.
#[derive(Debug, Clone, Copy)]
pub enum Mask<'a> {
    /// Causal: keys up to the query's own position.
    Causal,
    /// Full: all keys of the path.
    Full {
        /// Positions of the path of each span, `[spans]`.
        path_lens: &'a [u32],
    },
}

impl Mask<'_> {
    /// Checks that a full mask has a path for each span, and that the path contains the span and is within `pages` pages.
    pub(crate) fn check(&self, spans: &[QuerySpan], pages: usize) -> Result<(), KernelError> {
        let Self::Full { path_lens } = self else { return Ok(()) };
        self.check_len(spans)?;
        for (span, &len) in spans.iter().zip(*path_lens) {
            let (found, positions) = (len as usize, span.depth as usize + span.len as usize);
            if found < positions {
                let expected = "at least the end of the span";
                return Err(KernelError::Value { argument: "path length", found, expected });
            }
            if found > MAX_POSITIONS {
                return Err(KernelError::Index { argument: "path length", found, limit: MAX_POSITIONS + 1 });
            }
            let end = span.path as usize + found;
            if end > pages {
                return Err(KernelError::Index { argument: "end of a path", found: end, limit: pages + 1 });
            }
        }
        Ok(())
    }

    /// Checks that a full mask has a path for each span.
    pub(super) fn check_len(&self, spans: &[QuerySpan]) -> Result<(), KernelError> {
        match self {
            Self::Causal => Ok(()),
            Self::Full { path_lens } => crate::error::check_len("path lengths", spans.len(), path_lens.len()),
        }
    }

    /// Number of path positions that the queries of span `index` may see.
    pub(crate) fn path_len(&self, index: usize, span: &QuerySpan) -> usize {
        match self {
            Self::Causal => span.depth as usize + span.len as usize,
            Self::Full { path_lens } => path_lens[index] as usize,
        }
    }

    /// The keys that the query at `position` sees of a path of `path_len` positions.
    #[inline(always)]
    pub(super) fn visible(&self, window: Option<usize>, path_len: usize, position: usize) -> Range<usize> {
        let reach = window.unwrap_or(MAX_POSITIONS + 1);
        let end = match self {
            Self::Causal => position + 1,
            Self::Full { .. } => path_len.min(position.saturating_add(reach)),
        };
        (position + 1).saturating_sub(reach)..end
    }
}
