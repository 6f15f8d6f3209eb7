//! Scheduling: the waiting entries, and which of them form a batch together.

pub(crate) mod batcher;
pub(crate) mod budget;
pub(crate) mod entry;
mod fairness;
mod prefix_index;
mod prefix_tree;
pub(crate) mod queue;
mod whole;
mod work_counter;

#[cfg(test)]
#[path = "tests/scheduling.rs"]
mod tests;
