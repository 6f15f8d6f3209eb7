//! Scope and task of a sequence. Sequences that differ in either share no states.

/// Scope of folding: sequences of different scopes share no states, even if their tokens are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope(pub u32);

/// Number of a text's task among the model's tasks, from 1; 0 for no task. The task selects an adapter or a sub-model and so changes all
/// hidden states: sequences of different tasks share none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TaskId(pub u8);
