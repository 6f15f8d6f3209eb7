//! Scheduling: the queue of waiting entries, and the choice of those that form a batch together.

pub(crate) mod batcher;
pub(crate) mod budget;
pub(crate) mod cost_model;
mod debts;
pub(crate) mod entry;
mod fair_shares;
pub(crate) mod fit;
pub(crate) mod forming;
mod held;
pub(crate) mod interrupting;
pub(crate) mod level;
mod pace;
mod prefix_index;
mod prefix_tree;
pub(crate) mod queue;
mod size_lanes;
pub(crate) mod sub_model_costs;
mod take_interrupting;
mod whole;
pub(crate) mod work;
mod work_counter;

#[cfg(test)]
#[path = "tests/fairness.rs"]
mod fairness_tests;
#[cfg(test)]
#[path = "tests/scheduling.rs"]
mod scheduling_tests;
#[cfg(test)]
#[path = "tests/simulation.rs"]
mod simulation;
