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
pub(crate) struct WorkBySubModel(Vec<Work>);

impl WorkBySubModel {
    pub(crate) fn add(&mut self, sub_model: usize, Work { rows, pairs }: Work) {
        let len = self.0.len().max(sub_model + 1);
        self.0.resize(len, Work::default());
        self.0[sub_model].rows += rows;
        self.0[sub_model].pairs += pairs;
    }

    /// Work of each sub-model in order, up to the last that has any.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Work> {
        self.0.iter().copied()
    }
}
