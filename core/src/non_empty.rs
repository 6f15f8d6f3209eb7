//! Vector with at least one item.

/// At least one item, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonEmpty<T> {
    first: T,
    rest: Vec<T>,
}

impl<T> NonEmpty<T> {
    /// A single item.
    pub const fn one(first: T) -> Self {
        Self { first, rest: Vec::new() }
    }

    /// The items of an iterator; `None` if there are none.
    pub fn collect(items: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut items = items.into_iter();
        Some(Self { first: items.next()?, rest: items.collect() })
    }

    /// The first item.
    pub const fn first(&self) -> &T {
        &self.first
    }

    /// The first item, without the others.
    pub fn into_first(self) -> T {
        self.first
    }

    /// The item at `index`.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.iter().nth(index)
    }

    /// Number of items.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// All items, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.first).chain(&mut self.rest)
    }

    /// The items with `f` applied to each.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<NonEmpty<U>, E> {
        Ok(NonEmpty { first: f(self.first)?, rest: self.rest.into_iter().map(f).collect::<Result<_, _>>()? })
    }
}
