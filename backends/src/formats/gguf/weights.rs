//! Tensors of a GGUF file under Hugging Face's names.

use super::file::{CLASS_ROWS, GgufFile};
use super::names::{EXPERTS_DOWN, EXPERTS_UP, Naming};
use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::tensor::{reserved, zeros};
use prefold_kernels::Element;
use std::collections::HashSet;

/// Tensors of a GGUF file under Hugging Face's names.
#[derive(Debug)]
pub(crate) struct GgufWeights {
    file: GgufFile,
    naming: Naming,
    /// Head size, if the rows of q and k are in the order of interleaved RoPE.
    interleaved_head_dim: Option<usize>,
    num_experts: usize,
}

impl GgufWeights {
    /// The tensors of a file with this config.
    ///
    /// # Errors
    /// The architecture is not supported.
    pub(crate) fn new(file: GgufFile, config: &TransformerConfig) -> Result<Self, LoadError> {
        // RoPE here, as in Hugging Face's files, rotates pairs (i, i + head_dim / 2).
        let family = file.family()?;
        let interleaved = family.gguf.is_some_and(|gguf| gguf.interleaved_rope);
        let interleaved_head_dim = interleaved.then_some(config.attention.head_dim);
        let num_experts = config.feed_forward.experts.map_or(0, |experts| experts.num_experts);
        Ok(Self { file, naming: Naming::new(family), interleaved_head_dim, num_experts })
    }

    /// As [`Weights::f32_rows`](crate::formats::Weights::f32_rows).
    pub(crate) fn f32_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        self.file.read_rows(&self.stored_name(name)?, shape, rows)
    }

    /// As [`Weights::class_rows`](crate::formats::Weights::class_rows).
    pub(crate) fn class_rows(&self, width: usize) -> Result<Option<ClassRows>, LoadError> {
        let Some(info) = self.file.tensor(CLASS_ROWS) else { return Ok(None) };
        let rows = info.shape.first().copied().unwrap_or(0);
        let values = self.file.read(CLASS_ROWS, &[rows, width])?;
        let labels: Vec<String> = self.file.class_labels()?.into_iter().map(str::to_owned).collect();
        if !labels.is_empty() && labels.len() != rows {
            let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows for {} labels", labels.len());
            return Err(LoadError::invalid(self.file.name(), problem));
        }
        Ok(Some(ClassRows { labels, values }))
    }

    /// As [`Weights::contains`](crate::formats::Weights::contains).
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.naming.gguf_name(name).is_some_and(|name| self.file.tensor(&name).is_some())
    }

    /// As [`Weights::unread`](crate::formats::Weights::unread).
    pub(crate) fn unread(&self, read: &[String]) -> Vec<&str> {
        let read: HashSet<String> = read.iter().filter_map(|name| self.naming.gguf_name(name)).collect();
        self.file.tensor_names().filter(|name| !read.contains(*name)).collect()
    }

    /// Number of values in all tensors.
    pub(crate) fn parameters(&self) -> u64 {
        let count = |name: &str| self.file.tensor(name).map_or(0, |info| info.shape.iter().product::<usize>() as u64);
        self.file.tensor_names().map(count).sum()
    }

    /// Type of a tensor, after the word `gguf`.
    pub(crate) fn stored_dtype(&self, name: &str) -> &'static str {
        let info = self.naming.gguf_name(name).and_then(|name| self.file.tensor(&name));
        info.map_or("unknown", |info| info.kind.name)
    }

    /// As [`Weights::check`](crate::formats::Weights::check).
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        if self.naming.is_experts_bias(name) {
            return Ok(());
        }
        let stored = self.stored_name(name)?;
        self.file.check(&stored, &self.stored_shape(&stored, shape)).map(drop)
    }

    /// Shape in the file, which has another dimension for experts and the matrices of the second layer transposed.
    fn stored_shape(&self, stored: &str, shape: &[usize]) -> Vec<usize> {
        match *shape {
            [rows, hidden] if stored.contains(EXPERTS_UP) => {
                vec![self.num_experts, rows / self.num_experts.max(1), hidden]
            }
            [rows, hidden] if stored.contains(EXPERTS_DOWN) => {
                vec![self.num_experts, hidden, rows / self.num_experts.max(1)]
            }
            _ => shape.to_vec(),
        }
    }

    /// As [`Weights::name_in_files`](crate::formats::Weights::name_in_files).
    pub(crate) fn name_in_files(&self, name: &str) -> Option<String> {
        self.naming.gguf_name(name)
    }

    /// Name in the file.
    fn stored_name(&self, name: &str) -> Result<String, LoadError> {
        let missing = || LoadError::MissingTensor { file: self.file.name().to_owned(), name: name.to_owned() };
        self.naming.gguf_name(name).ok_or_else(missing)
    }

    /// As [`Weights::read`](crate::formats::Weights::read).
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        if self.naming.is_experts_bias(name) {
            return zeros(shape.iter().product());
        }
        let stored = self.stored_name(name)?;
        let stored_shape = self.stored_shape(&stored, shape);
        let values = self.file.read(&stored, &stored_shape)?;
        if let ([_, rows, columns], true) = (&*stored_shape, stored.contains(EXPERTS_DOWN)) {
            return transposed(&values, *rows, *columns);
        }
        let rotated = stored.contains(".attn_q.") || stored.contains(".attn_k.");
        match self.interleaved_head_dim.filter(|_| rotated) {
            Some(head_dim) => halves_from_neighbours(&values, head_dim, shape.iter().skip(1).product()),
            None => Ok(values),
        }
    }
}

/// Reorders the rows of each head from pairs (2i, 2i + 1) to pairs (i, i + head_dim / 2).
///
/// # Errors
/// There is not enough memory.
fn halves_from_neighbours<T: Copy>(values: &[T], head_dim: usize, row_len: usize) -> Result<Vec<T>, LoadError> {
    let mut out = reserved(values.len())?;
    for head in values.chunks(head_dim * row_len) {
        for half in 0..2 {
            for pair in 0..head_dim / 2 {
                out.extend_from_slice(&head[(2 * pair + half) * row_len..][..row_len]);
            }
        }
    }
    Ok(out)
}

/// Transposes matrices one after another.
///
/// # Errors
/// There is not enough memory.
fn transposed<T: Copy>(values: &[T], rows: usize, columns: usize) -> Result<Vec<T>, LoadError> {
    let mut out = reserved(values.len())?;
    for matrix in values.chunks(rows * columns) {
        for column in 0..columns {
            out.extend((0..rows).map(|row| matrix[row * columns + column]));
        }
    }
    Ok(out)
}

/// Rows of a reranker's head that are stored separately.
#[derive(Debug)]
pub(crate) struct ClassRows {
    /// One per row; empty if the file has none.
    pub(crate) labels: Vec<String>,
    /// Row by row.
    pub(crate) values: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_each_head_are_put_back_into_halves() {
        // Two heads of four rows of two values; the row's number is the value.
        let values: Vec<u32> = (0..8).flat_map(|row| [row, row]).collect();
        let rows: Vec<u32> = halves_from_neighbours(&values, 4, 2).unwrap().chunks(2).map(|row| row[0]).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
