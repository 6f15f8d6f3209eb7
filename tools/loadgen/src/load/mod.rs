//! Load in a closed or open loop, and the counting of its results.

pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod server_side;
