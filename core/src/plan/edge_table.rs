//! The children of all edges of a radix tree, found by hash.

use std::hash::{BuildHasher, RandomState};

/// Key of a child: the end row of the edge above it and the id of its first token. Edges partition the rows, so the end
/// row names the edge; the root's is 0, or one that no edge can have.
///
/// Most children have a key of their own. Children with the same key differ in the rest of the token
/// ([`TokenKey`](super::tokens::TokenKey)), which the caller compares: slots that held it would need more memory and
/// make planning slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EdgeKey {
    pub(crate) parent_end: u32,
    pub(crate) input_id: u32,
}

/// Hash table with open addressing and linear probing, at most half full. Only all edges together can be removed, at no
/// cost: a slot counts only if it was written in the current generation.
#[derive(Debug)]
pub(crate) struct EdgeTable {
    /// A power of two.
    slots: Vec<Slot>,
    generation: u32,
    len: usize,
    /// Random, because clients choose token ids and could otherwise make all keys collide.
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    generation: u32,
    key: EdgeKey,
    edge: u32,
}

/// Never the current generation.
const FREE: Slot = Slot { generation: 0, key: EdgeKey { parent_end: 0, input_id: 0 }, edge: 0 };

const MIN_SLOTS: usize = 64;

/// Minimum slots per key.
const SLOTS_PER_KEY: usize = 2;

/// Free place of an edge that was not found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vacancy {
    key: EdgeKey,
    index: usize,
}

impl Default for EdgeTable {
    fn default() -> Self {
        Self { slots: vec![FREE; MIN_SLOTS], generation: 1, len: 0, seed: RandomState::new().hash_one(0) }
    }
}

impl EdgeTable {
    /// The edge with this key for which `is_it` is true, or the place where it would be.
    #[inline]
    pub(crate) fn find(&self, key: EdgeKey, is_it: impl Fn(u32) -> bool) -> Result<u32, Vacancy> {
        let mut index = self.home(key);
        loop {
            let slot = &self.slots[index];
            if slot.generation != self.generation {
                return Err(Vacancy { key, index });
            }
            if slot.key == key && is_it(slot.edge) {
                return Ok(slot.edge);
            }
            index = self.after(index);
        }
    }

    /// Enters an edge where it was not found. Nothing may have been entered since.
    #[inline]
    pub(crate) fn insert(&mut self, vacancy: Vacancy, edge: u32) {
        let Vacancy { key, index } = vacancy;
        self.slots[index] = Slot { generation: self.generation, key, edge };
        self.len += 1;
        if self.len * SLOTS_PER_KEY > self.slots.len() {
            self.grow();
        }
    }

    /// Removes everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == FREE.generation {
            self.slots.fill(FREE);
            self.generation += 1;
        }
    }

    fn write(&mut self, slot: Slot) {
        let mut index = self.home(slot.key);
        while self.slots[index].generation == self.generation {
            index = self.after(index);
        }
        self.slots[index] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![FREE; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, slots);
        let generation = self.generation;
        old.into_iter().filter(|slot| slot.generation == generation).for_each(|slot| self.write(slot));
    }

    fn after(&self, index: usize) -> usize {
        (index + 1) & (self.slots.len() - 1)
    }

    /// One wide multiplication, folded.
    fn home(&self, EdgeKey { parent_end, input_id }: EdgeKey) -> usize {
        let key = self.seed ^ (u64::from(parent_end) << 32 | u64::from(input_id));
        let product = u128::from(key) * 0x9E37_79B9_7F4A_7C15;
        ((product >> 64) as u64 ^ product as u64) as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
#[path = "tests/edge_table.rs"]
mod tests;
