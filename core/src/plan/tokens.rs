//! The key of folding: tokens with all that changes their hidden states.
//!
//! All code that compares, hashes or copies tokens uses [`Tokens`] and [`TokenKey`]: radix plans, the index of the queue,
//! the folding of equal inputs, and the rows of a batch ([`TokenRows`]). Each operation destructures them without `..`, so
//! a new field does not compile until every operation handles it.

pub use super::scope::{Scope, TaskId};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use thiserror::Error;

/// The tokens of a sequence, or a run of them, with all that changes their hidden states, and the scope of their folding.
///
/// Two of them are equal when they have one scope, one task, and every token has the same id, type and position, however these
/// are held.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<S = Vec<u32>> {
    input_ids: S,
    /// All 0 when absent.
    token_type_ids: Option<S>,
    position_ids: Positions<S>,
    scope: Scope,
    task: TaskId,
}

/// Borrowed [`Tokens`].
pub type TokenSlice<'a> = Tokens<&'a [u32]>;

#[derive(Debug, Clone, Copy, Hash)]
enum Positions<S> {
    /// Consecutive positions from this one on. It is a whole word, because a copy reads a whole word and would wait for
    /// a narrower write.
    From(usize),
    Listed(S),
}

/// One token of [`Tokens`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenKey {
    pub(crate) input_id: u32,
    pub(crate) token_type_id: u32,
    pub(crate) position_id: u32,
}

/// A list that does not have one item for each token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{input_ids} token ids but {items} {list}")]
pub struct LengthMismatch {
    /// Token ids given.
    pub input_ids: usize,
    /// Items of the list.
    pub items: usize,
    /// Name of the list.
    pub list: &'static str,
}

impl<S: AsRef<[u32]>> Tokens<S> {
    /// Tokens of type 0 at positions 0, 1, 2, ...
    #[inline]
    pub fn new(input_ids: S) -> Self {
        let (scope, task) = (Scope::default(), TaskId::default());
        Self { input_ids, token_type_ids: None, position_ids: Positions::From(0), scope, task }
    }

    /// The same tokens in this scope.
    #[inline]
    #[must_use]
    pub fn in_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same tokens, of a text of this task.
    #[inline]
    #[must_use]
    pub fn with_task(self, task: TaskId) -> Self {
        Self { task, ..self }
    }

    /// The task of the text.
    #[inline]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// The scope of folding.
    #[inline]
    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// The same tokens with these types.
    ///
    /// # Errors
    /// The lengths differ.
    pub fn with_token_types(self, token_type_ids: S) -> Result<Self, LengthMismatch> {
        self.check_len(token_type_ids.as_ref(), "token types")?;
        Ok(Self { token_type_ids: Some(token_type_ids), ..self })
    }

    /// The same tokens at these positions.
    ///
    /// # Errors
    /// The lengths differ.
    pub fn with_positions(self, position_ids: S) -> Result<Self, LengthMismatch> {
        self.check_len(position_ids.as_ref(), "positions")?;
        Ok(Self { position_ids: Positions::Listed(position_ids), ..self })
    }

    fn check_len(&self, list: &[u32], name: &'static str) -> Result<(), LengthMismatch> {
        let (input_ids, items) = (self.len(), list.len());
        if input_ids == items { Ok(()) } else { Err(LengthMismatch { input_ids, items, list: name }) }
    }

    /// Number of tokens.
    #[inline]
    pub fn len(&self) -> usize {
        self.input_ids.as_ref().len()
    }

    /// Without tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `[len]`
    pub fn input_ids(&self) -> &[u32] {
        self.input_ids.as_ref()
    }

    /// The tokens, borrowed.
    pub fn as_slice(&self) -> TokenSlice<'_> {
        let &Self { ref input_ids, ref token_type_ids, ref position_ids, scope, task } = self;
        let position_ids = match position_ids {
            Positions::From(first) => Positions::From(*first),
            Positions::Listed(list) => Positions::Listed(list.as_ref()),
        };
        let token_type_ids = token_type_ids.as_ref().map(AsRef::as_ref);
        Tokens { input_ids: input_ids.as_ref(), token_type_ids, position_ids, scope, task }
    }
}

impl Tokens {
    /// Keeps the first `at` tokens and returns the others.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let rest = self.as_slice().tail(at).into_owned();
        *self = self.as_slice().range(0..at).into_owned();
        rest
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<'a> TokenSlice<'a> {
    /// The tokens of a range.
    #[inline(always)]
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        let Self { input_ids, token_type_ids, position_ids, scope, task } = self;
        let position_ids = match position_ids {
            Positions::From(first) => Positions::From(first + range.start),
            Positions::Listed(list) => Positions::Listed(&list[range.clone()]),
        };
        let token_type_ids = token_type_ids.map(|list| &list[range.clone()]);
        Self { input_ids: &input_ids[range], token_type_ids, position_ids, scope, task }
    }

    /// The tokens after the first `start`.
    #[inline(always)]
    pub(crate) fn tail(self, start: usize) -> Self {
        self.range(start..self.len())
    }

    pub(crate) fn into_owned(self) -> Tokens {
        let Self { input_ids, token_type_ids, position_ids, scope, task } = self;
        let position_ids = match position_ids {
            Positions::From(first) => Positions::From(first),
            Positions::Listed(list) => Positions::Listed(list.to_vec()),
        };
        let token_type_ids = token_type_ids.map(<[u32]>::to_vec);
        Tokens { input_ids: input_ids.to_vec(), token_type_ids, position_ids, scope, task }
    }

    #[inline(always)]
    pub(crate) fn key(&self, index: usize) -> TokenKey {
        let &Self { input_ids, token_type_ids, position_ids, scope: _, task: _ } = self;
        TokenKey {
            input_id: input_ids[index],
            token_type_id: token_type_ids.map_or(0, |list| list[index]),
            position_id: match position_ids {
                Positions::From(first) => (first + index) as u32,
                Positions::Listed(list) => list[index],
            },
        }
    }

    /// Leading tokens that two runs have in common.
    #[inline(always)]
    pub(crate) fn common_prefix_len(&self, other: &Self) -> usize {
        let &Self { input_ids, token_type_ids, position_ids, scope, task } = self;
        if scope != other.scope || task != other.task {
            return 0;
        }
        let len = common_prefix_len(input_ids, other.input_ids);
        let len = match (token_type_ids, other.token_type_ids) {
            (None, None) => len,
            (Some(list), None) | (None, Some(list)) => {
                list[..len].iter().position(|&token_type| token_type != 0).unwrap_or(len)
            }
            (Some(list), Some(other)) => common_prefix_len(&list[..len], &other[..len]),
        };
        match (position_ids, other.position_ids) {
            (Positions::From(first), Positions::From(other)) => {
                if first == other {
                    len
                } else {
                    0
                }
            }
            (Positions::From(first), Positions::Listed(list)) | (Positions::Listed(list), Positions::From(first)) => {
                list[..len].iter().zip(first as u32..).take_while(|&(&position, counted)| position == counted).count()
            }
            (Positions::Listed(list), Positions::Listed(other)) => common_prefix_len(&list[..len], &other[..len]),
        }
    }

    /// True if it is known to be in [`normal`](Self::normal) form without reading the lists.
    #[inline]
    pub(crate) fn is_normal(&self) -> bool {
        let Self { input_ids: _, token_type_ids, position_ids, scope: _, task: _ } = self;
        token_type_ids.is_none() && matches!(position_ids, Positions::From(_))
    }

    /// The same tokens in the form that is fastest to compare, which equal tokens have in common.
    pub(crate) fn normal(self) -> Self {
        let Self { input_ids, token_type_ids, position_ids, scope, task } = self;
        let position_ids = match position_ids {
            Positions::Listed(list @ &[first, ..]) if is_counted(list) => Positions::From(first as usize),
            other => other,
        };
        let token_type_ids = token_type_ids.filter(|list| list.iter().fold(0, |all, token_type| all | token_type) != 0);
        Self { input_ids, token_type_ids, position_ids, scope, task }
    }

    /// At positions `first`, `first + 1`, ... in [`normal`](Self::normal) form.
    #[inline]
    pub(crate) fn counts_from(&self, first: u32) -> bool {
        matches!(self.position_ids, Positions::From(start) if start == first as usize)
    }
}

/// Each position is the one before it plus 1. The loop has no early end, because such a loop is not vectorised.
fn is_counted(positions: &[u32]) -> bool {
    let Some(&first) = positions.first() else { return true };
    let counted = (0..positions.len() as u32).map(|index| first.wrapping_add(index));
    let difference = positions.iter().zip(counted).fold(0, |all, (position, counted)| all | (position ^ counted));
    difference == 0 && first.checked_add(positions.len() as u32).is_some()
}

/// Number of leading elements that two slices have in common.
pub(crate) fn common_prefix_len(a: &[u32], b: &[u32]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let equal_chunks = a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0).take_while(|(a, b)| a == b).count();
    let done = equal_chunks * 16;
    done + a[done..].iter().zip(&b[done..]).take_while(|(a, b)| a == b).count()
}

impl<S: AsRef<[u32]>> PartialEq for Tokens<S> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.scope == other.scope
            && self.task == other.task
            && self.as_slice().common_prefix_len(&other.as_slice()) == self.len()
    }
}

impl<S: AsRef<[u32]>> Eq for Tokens<S> {}

impl<S: AsRef<[u32]>> Hash for Tokens<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Tokens { input_ids, token_type_ids, position_ids, scope, task } = self.as_slice().normal();
        input_ids.hash(state);
        (scope, task).hash(state);
        if input_ids.is_empty() {
            return;
        }
        token_type_ids.hash(state);
        position_ids.hash(state);
    }
}

impl From<Vec<u32>> for Tokens {
    fn from(input_ids: Vec<u32>) -> Self {
        Self::new(input_ids)
    }
}

impl<'a, S: AsRef<[u32]> + ?Sized> From<&'a S> for TokenSlice<'a> {
    fn from(input_ids: &'a S) -> Self {
        Self::new(input_ids.as_ref())
    }
}

/// Tokens of many sequences, row by row, in the form that a device takes: without scopes and tasks, which belong to whole
/// sequences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenRows {
    input_ids: Vec<u32>,
    /// Empty while all are 0.
    token_type_ids: Vec<u32>,
    position_ids: Vec<u32>,
}

impl TokenRows {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { input_ids: Vec::with_capacity(rows), token_type_ids: Vec::new(), position_ids: Vec::with_capacity(rows) }
    }

    pub(crate) fn len(&self) -> usize {
        self.input_ids.len()
    }

    pub(crate) fn input_ids(&self) -> &[u32] {
        &self.input_ids
    }

    /// `None` where all are 0.
    #[inline]
    pub(crate) fn token_type_ids(&self) -> Option<&[u32]> {
        (!self.token_type_ids.is_empty()).then_some(&self.token_type_ids)
    }

    pub(crate) fn position_ids(&self) -> &[u32] {
        &self.position_ids
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> TokenSlice<'_> {
        let Self { input_ids, token_type_ids: _, position_ids } = self;
        let token_type_ids = self.token_type_ids();
        Tokens { token_type_ids, position_ids: Positions::Listed(position_ids), ..Tokens::new(input_ids) }
    }

    /// Rows that the caller knows to have the positions `first`, `first + 1`, ...
    #[inline]
    pub(crate) fn counted(&self, rows: Range<usize>, first: u32) -> TokenSlice<'_> {
        let token_type_ids = self.token_type_ids().map(|list| &list[rows.clone()]);
        let position_ids = Positions::From(first as usize);
        Tokens { token_type_ids, position_ids, ..Tokens::new(&self.input_ids[rows]) }
    }

    #[inline]
    pub(crate) fn extend(&mut self, tokens: TokenSlice<'_>) {
        let Tokens { input_ids, token_type_ids, position_ids, scope: _, task: _ } = tokens;
        self.input_ids.extend_from_slice(input_ids);
        match position_ids {
            Positions::From(first) => {
                let first = first as u32;
                self.position_ids.extend(first..first + input_ids.len() as u32);
            }
            Positions::Listed(list) => self.position_ids.extend_from_slice(list),
        }
        if token_type_ids.is_some() || !self.token_type_ids.is_empty() {
            self.extend_types(token_type_ids.unwrap_or(&[]));
        }
    }

    /// Types of the last rows; those that are not in the list are 0.
    fn extend_types(&mut self, list: &[u32]) {
        if !self.token_type_ids.is_empty() || list.iter().any(|&token_type| token_type != 0) {
            self.token_type_ids.resize(self.input_ids.len() - list.len(), 0);
            self.token_type_ids.extend_from_slice(list);
        }
    }

    /// Appends rows of zeros up to `rows` rows.
    pub(crate) fn pad(&mut self, rows: usize) {
        let Self { input_ids, token_type_ids, position_ids } = self;
        input_ids.resize(rows, 0);
        position_ids.resize(rows, 0);
        if !token_type_ids.is_empty() {
            token_type_ids.resize(rows, 0);
        }
    }

    /// Removes all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self { input_ids, token_type_ids, position_ids } = self;
        [input_ids, token_type_ids, position_ids].into_iter().for_each(Vec::clear);
    }
}

#[cfg(test)]
#[path = "tests/tokens.rs"]
mod tests;
