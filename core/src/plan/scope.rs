//! What all tokens of a sequence have in common, and share states with none that has another.

/// Sequences of different scopes have nothing in common, whatever their tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope(pub u32);

/// The adapter that the tokens of a sequence go through, as its number among the model's, from 1; 0 for none. It changes all of their
/// hidden states, so sequences of different adapters have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Adapter(pub u8);
