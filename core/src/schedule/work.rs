//! Work of a forward pass.

/// Work of a pass or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    pub(crate) rows: usize,
    /// Query-key pairs in a layer of full attention.
    pub(crate) pairs: u64,
}

/// Work of a pass by sub-model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WorkByPart(Vec<Work>);

impl WorkByPart {
    pub(crate) fn add(&mut self, part: usize, Work { rows, pairs }: Work) {
        let len = self.0.len().max(part + 1);
        self.0.resize(len, Work::default());
        self.0[part].rows += rows;
        self.0[part].pairs += pairs;
    }

    /// Work of each sub-model in order, up to the last that has any.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Work> {
        self.0.iter().copied()
    }
}
