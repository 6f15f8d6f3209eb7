//! What all tokens of a sequence have in common, and share states with none that has another.

/// Sequences of different scopes have nothing in common, whatever their tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope(pub u32);

/// The number of a text's task among the model's, from 1; 0 for none. The task selects what the tokens go through (an adapter, a model behind a
/// Router) and changes all hidden states, so sequences of different tasks have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TaskId(pub u8);
