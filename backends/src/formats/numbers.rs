//! Tensors of integers and `f64`, types that weights do not have.

use super::tensor::TensorHeader;
use crate::disk::NamedFile;
use crate::error::LoadError;
use std::ops::Range;

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    I32,
    I64,
    F64,
}

impl Number {
    /// The type by its name in a file.
    pub(super) fn named(dtype: &str) -> Option<Self> {
        match dtype {
            "I32" | "Int" => Some(Self::I32),
            "I64" | "Long" => Some(Self::I64),
            "F64" | "Double" => Some(Self::F64),
            _ => None,
        }
    }
}

/// Place of a tensor of numbers.
#[derive(Debug)]
pub(super) struct StoredNumbers {
    pub(super) file: usize,
    number: Number,
    pub(super) shape: Vec<usize>,
    bytes: Range<usize>,
}

impl StoredNumbers {
    /// A contiguous tensor of a file.
    pub(super) fn new(file: usize, number: Number, TensorHeader { shape, bytes, .. }: TensorHeader) -> Self {
        Self { file, number, shape, bytes }
    }

    /// `true` if the stored values are of an integer type.
    pub(super) fn are_integers(&self) -> bool {
        self.number != Number::F64
    }

    /// The values, which must be whole numbers from 0 to `limit - 1`.
    ///
    /// # Errors
    /// One is not.
    pub(super) fn integers(&self, file: &NamedFile, name: &str, limit: usize) -> Result<Vec<u32>, LoadError> {
        let values: Option<Vec<u32>> = file.reading(|| {
            let bytes = &file.bytes[self.bytes.clone()];
            let row = |value: i64| u32::try_from(value).ok().filter(|&row| (row as usize) < limit);
            match self.number {
                Number::I32 => bytes.as_chunks().0.iter().map(|&it| row(i32::from_le_bytes(it).into())).collect(),
                Number::I64 => bytes.as_chunks().0.iter().map(|&it| row(i64::from_le_bytes(it))).collect(),
                Number::F64 => None,
            }
        })?;
        let problem = || format!("`{name}` must have values from 0 to {}", limit.saturating_sub(1));
        values.ok_or_else(|| LoadError::invalid(&file.name, problem()))
    }

    /// The values of a tensor of floats.
    pub(super) fn floats(&self, file: &NamedFile) -> Result<Vec<f32>, LoadError> {
        file.reading(|| {
            let values = file.bytes[self.bytes.clone()].as_chunks().0.iter();
            values.map(|&value| f64::from_le_bytes(value) as f32).collect()
        })
    }
}
