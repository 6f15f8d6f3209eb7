//! The device: what it is, how it is chosen, and which types it computes in.

pub(super) mod options;
pub(super) mod skip;
pub(super) mod stream;
pub(super) mod target;
