//! Folding of a batch's equal entries, which want the same answer: they run once.

use crate::backend::Batch;
use crate::outputs::{Output, Outputs};
use crate::plan::ragged::RaggedBatchError;
use crate::plan::tokens::{Scope, TokenSlice};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Sequence of a batch that answers each entry. Empty if nothing is folded, when each entry is a sequence.
#[derive(Debug, Default)]
pub(crate) struct WholeFolding<H = RandomState> {
    hasher: H,
    /// Sequences and their scopes by hash; after a collision at the next free number.
    sequences: HashMap<u64, (u32, Scope)>,
    answered_by: Vec<u32>,
}

impl<H: BuildHasher> WholeFolding<H> {
    /// Adds an entry to a batch unless it has an equal one.
    pub(crate) fn push(
        &mut self,
        batch: &mut Batch,
        tokens: TokenSlice<'_>,
        wanted: Outputs,
    ) -> Result<(), RaggedBatchError> {
        let mut hash = self.hasher.hash_one((&tokens, wanted));
        let sequence = loop {
            match self.sequences.get(&hash) {
                None => {
                    let sequence = batch.wanted.len() as u32;
                    batch.push(tokens, wanted)?;
                    self.sequences.insert(hash, (sequence, tokens.scope()));
                    break sequence;
                }
                Some(&(sequence, scope))
                    if batch.wanted[sequence as usize] == wanted
                        && batch.ragged.sequence(sequence as usize).in_scope(scope) == tokens =>
                {
                    break sequence;
                }
                Some(_) => hash = hash.wrapping_add(1),
            }
        };
        self.answered_by.push(sequence);
        Ok(())
    }

    /// True for each entry that is the first of its sequence.
    pub(crate) fn is_first(&self) -> impl Iterator<Item = bool> {
        let mut sequences = 0;
        self.answered_by.iter().map(move |&sequence| {
            let is_first = sequence == sequences;
            sequences += u32::from(is_first);
            is_first
        })
    }

    /// Outputs of the entries, from the outputs of the sequences.
    pub(crate) fn unfold(&self, outputs: Vec<Output>) -> Vec<Output> {
        if self.answered_by.len() <= outputs.len() {
            return outputs;
        }
        self.answered_by.iter().map(|&sequence| outputs[sequence as usize].clone()).collect()
    }

    /// Forgets all entries and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self { hasher: _, sequences, answered_by } = self;
        sequences.clear();
        answered_by.clear();
    }
}

#[cfg(test)]
#[path = "tests/whole.rs"]
mod tests;
