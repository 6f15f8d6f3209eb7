//! Work of a forward pass.

/// Work of a pass, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    pub(crate) rows: usize,
    /// Pairs of a query and a key, in a layer of full attention.
    pub(crate) pairs: u64,
}

/// Work of a pass for each part of a model, by the part's index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WorkByPart(Vec<Work>);

impl WorkByPart {
    pub(crate) fn add(&mut self, part: usize, Work { rows, pairs }: Work) {
        let len = self.0.len().max(part + 1);
        self.0.resize(len, Work::default());
        self.0[part].rows += rows;
        self.0[part].pairs += pairs;
    }

    /// Work of the first part, of the second and so on, up to the last that has any.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Work> {
        self.0.iter().copied()
    }
}
