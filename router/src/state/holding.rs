//! Data of an answer for its connection: the route, and the bytes that are held until the client has read it.

use prefold_core::Share;
use std::sync::{Arc, Weak};

/// Pattern of the route that made an answer.
#[derive(Debug, Clone)]
pub(crate) struct Route(pub(crate) String);

/// Weak handle to the share of an answer's request, for the connection that sends the answer.
#[derive(Debug, Clone)]
pub(crate) struct Holding(Weak<Share>);

impl Holding {
    pub(crate) fn of(share: &Arc<Share>) -> Self {
        Self(Arc::downgrade(share))
    }

    /// Bytes of the share; 0 when nothing holds it any more.
    pub(crate) fn bytes(&self) -> usize {
        self.0.upgrade().map_or(0, |share| share.held())
    }
}
