//! File formats of checkpoints. [`Weights`] gives the tensors of all formats by their canonical names.

pub(crate) mod config_json;
pub(crate) mod families;
pub(crate) mod gguf;
pub(crate) mod lora;
mod mapped_table;
mod numbers;
pub(crate) mod pytorch;
pub(crate) mod safetensors;
pub(crate) mod special_tokens;
mod tensor;
mod tensor_files;
mod tensor_names;
pub(crate) mod wordpiece;

pub(crate) use mapped_table::MappedTable;
pub(crate) use tensor_files::{TensorFiles, TensorFormat};

use crate::error::LoadError;
use candle_core::{Device, Tensor};
use gguf::{ClassRows, GgufWeights};
use half::{bf16, f16};
use lora::{AdaptedFiles, FilesByTask};
use prefold_kernels::{Dtype, Element};

/// The tensors of a checkpoint.
///
/// Tensors have the names in Hugging Face's classes with the prefix `model.` or the family's (`model.layers.0.self_attn.q_proj.weight`,
/// `bert.embeddings.LayerNorm.weight`, `score.weight`); files without the prefix are read too. Tensors are converted one at a time, so that
/// the peak of memory is the mapped file and one converted tensor.
#[derive(Debug)]
pub(crate) enum Weights {
    /// One or more files of named tensors.
    Files(TensorFiles),
    /// The same with a LoRA adapter.
    Adapted(Box<AdaptedFiles>),
    /// The same with an adapter for each task.
    ByTask(Box<FilesByTask>),
    /// Files with a table whose rows tokens share.
    Mapped(MappedTable),
    /// A GGUF file.
    Gguf(GgufWeights),
}

impl Weights {
    /// A whole tensor, row by row; without a detour where the file has the type.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        match self {
            Self::Files(files) => files.read(name, shape),
            Self::Adapted(files) => files.read(name, shape),
            Self::ByTask(files) => files.read(name, shape),
            Self::Mapped(table) => table.read(name, shape),
            Self::Gguf(file) => file.read(name, shape),
        }
    }

    /// Rows of a matrix as `f32`, one after another; other rows are not converted. Not for q and k, whose rows may have
    /// another order in the file.
    ///
    /// # Errors
    /// As for [`read`](Self::read), or a row is not below `shape[0]`.
    pub(crate) fn f32_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        if let Some(row) = rows.iter().find(|&&row| row as usize >= shape[0]) {
            return Err(LoadError::invalid(
                "tokenizer.json",
                format!("token {row} is beyond the {} rows of `{name}`", shape[0]),
            ));
        }
        match self {
            Self::Files(files) => files.read_rows(name, shape, rows),
            Self::Adapted(files) => files.read_rows(name, shape, rows),
            Self::ByTask(files) => files.base().read_rows(name, shape, rows),
            Self::Mapped(table) => table.read_rows(name, shape, rows),
            Self::Gguf(file) => file.f32_rows(name, shape, rows),
        }
    }

    /// Rows of the head, of this width, that a reranker's GGUF file stores separately; none in other formats.
    ///
    /// # Errors
    /// They are malformed.
    pub(crate) fn class_rows(&self, width: usize) -> Result<Option<ClassRows>, LoadError> {
        match self {
            Self::Files(_) | Self::Adapted(_) | Self::ByTask(_) | Self::Mapped(_) => Ok(None),
            Self::Gguf(file) => file.class_rows(width),
        }
    }

    /// A whole matrix on the host, in the type of the model.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub(crate) fn matrix(&self, dtype: Dtype, name: &str, shape: [usize; 2]) -> Result<Tensor, LoadError> {
        let (device, size) = (&Device::Cpu, (shape[0], shape[1]));
        Ok(match dtype {
            // Quantization starts from the file's values.
            Dtype::Float32 | Dtype::Int8 => Tensor::from_vec(self.read::<f32>(name, &shape)?, size, device)?,
            Dtype::Bfloat16 => Tensor::from_vec(self.read::<bf16>(name, &shape)?, size, device)?,
            Dtype::Float16 => Tensor::from_vec(self.read::<f16>(name, &shape)?, size, device)?,
        })
    }

    /// The table whose rows tokens share, if there is one.
    pub(crate) fn mapped(&self) -> Option<&MappedTable> {
        match self {
            Self::Mapped(table) => Some(table),
            Self::Files(_) | Self::Adapted(_) | Self::ByTask(_) | Self::Gguf(_) => None,
        }
    }

    /// Checks the presence and shape of a tensor, before memory is allocated for it.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        match self {
            Self::Files(files) => files.check(name, shape),
            Self::Adapted(files) => files.check(name, shape),
            Self::ByTask(files) => files.check(name, shape),
            Self::Mapped(table) => table.check(name, shape),
            Self::Gguf(file) => file.check(name, shape),
        }
    }

    /// `true` if there is such a tensor.
    pub(crate) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Files(files) => files.contains(name),
            Self::Adapted(files) => files.contains(name),
            Self::ByTask(files) => files.contains(name),
            Self::Mapped(table) => table.files().contains(name),
            Self::Gguf(file) => file.contains(name),
        }
    }

    /// The name that a tensor has in the files, for messages.
    pub(crate) fn name_in_files(&self, name: &str) -> String {
        match self {
            Self::Gguf(file) => file.name_in_files(name).unwrap_or_else(|| name.to_owned()),
            Self::Files(_) | Self::Adapted(_) | Self::ByTask(_) | Self::Mapped(_) => name.to_owned(),
        }
    }

    /// Names in the files of the tensors that no name of `read` finds.
    pub(crate) fn unread(&self, read: &[String]) -> Vec<&str> {
        match self {
            Self::Files(files) => files.unread(read),
            Self::Adapted(files) => files.unread(read),
            // A tensor of an adapter without a place is refused.
            Self::ByTask(files) => files.base().unread(read),
            Self::Mapped(table) => table.unread(read),
            Self::Gguf(file) => file.unread(read),
        }
    }

    /// Values of all tensors.
    pub(crate) fn parameters(&self) -> u64 {
        match self {
            Self::Files(files) => files.parameters(),
            Self::Adapted(files) => files.base().parameters(),
            Self::ByTask(files) => files.base().parameters(),
            Self::Mapped(table) => table.files().parameters(),
            Self::Gguf(file) => file.parameters(),
        }
    }

    /// Type of a tensor in the file.
    pub(crate) fn stored_dtype(&self, name: &str) -> &'static str {
        match self {
            Self::Files(files) => files.stored_dtype(name),
            Self::Adapted(files) => files.stored_dtype(name),
            Self::ByTask(files) => files.base().stored_dtype(name),
            Self::Mapped(table) => table.files().stored_dtype(name),
            Self::Gguf(file) => file.stored_dtype(name),
        }
    }
}
