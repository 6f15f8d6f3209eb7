//! A checkpoint's tensors by their canonical names, checked against the shapes that the config asks for.

use super::header::{TensorHeader, read_header};
use crate::LoadError;
use crate::disk::{FileBytes, NamedFile};
use crate::gguf::{ClassRows, GgufWeights};
use crate::ops::Values;
use crate::options::Dtype;
use half::{bf16, f16};
use rayon::prelude::*;
use safetensors::Dtype as StoredDtype;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The tensors of a checkpoint.
///
/// Names are those that Hugging Face's classes give, with the `model.` prefix
/// (`model.layers.0.self_attn.q_proj.weight`, `lm_head.weight`, `score.weight`); files that leave
/// the prefix out work as well. Tensors are converted one at a time, so that the peak of memory
/// is the mapped file and one converted tensor.
#[derive(Debug)]
pub(crate) enum Weights {
    /// One or more safetensors files.
    Safetensors(SafetensorsFiles),
    /// A GGUF file.
    Gguf(GgufWeights),
}

impl Weights {
    /// A whole tensor as `f32`, row by row.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        match self {
            Self::Safetensors(files) => files.read(name, shape),
            Self::Gguf(file) => file.f32(name, shape),
        }
    }

    /// Some rows of a matrix as `f32`, one after another; rows that are not asked for are not converted. Not for q and k,
    /// whose rows may be in another order in the file.
    ///
    /// # Errors
    /// As for [`f32`](Self::f32), or a row is not below `shape[0]`.
    pub(crate) fn f32_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        if let Some(row) = rows.iter().find(|&&row| row as usize >= shape[0]) {
            return Err(LoadError::invalid(
                "tokenizer.json",
                format!("token {row} is not below {} rows of `{name}`", shape[0]),
            ));
        }
        match self {
            Self::Safetensors(files) => files.read_rows(name, shape, rows),
            Self::Gguf(file) => file.f32_rows(name, shape, rows),
        }
    }

    /// The rows of the head that a reranker's file keeps apart, of this width; none in safetensors.
    ///
    /// # Errors
    /// They are malformed.
    pub(crate) fn class_rows(&self, width: usize) -> Result<Option<ClassRows>, LoadError> {
        match self {
            Self::Safetensors(_) => Ok(None),
            Self::Gguf(file) => file.class_rows(width),
        }
    }

    /// A whole tensor as `bf16`, row by row; without a detour where the file has `bf16`.
    ///
    /// # Errors
    /// As for [`f32`](Self::f32).
    pub(crate) fn bf16(&self, name: &str, shape: &[usize]) -> Result<Vec<bf16>, LoadError> {
        match self {
            Self::Safetensors(files) => files.read(name, shape),
            Self::Gguf(file) => file.bf16(name, shape),
        }
    }

    /// A whole tensor as `f16`, row by row.
    ///
    /// # Errors
    /// As for [`f32`](Self::f32).
    pub(crate) fn f16(&self, name: &str, shape: &[usize]) -> Result<Vec<f16>, LoadError> {
        match self {
            Self::Safetensors(files) => files.read(name, shape),
            Self::Gguf(file) => Ok(file.f32(name, shape)?.into_iter().map(f16::from_f32).collect()),
        }
    }

    /// A whole tensor in the type of the model.
    ///
    /// # Errors
    /// As for [`f32`](Self::f32).
    pub(crate) fn values(&self, dtype: Dtype, name: &str, shape: &[usize]) -> Result<Values, LoadError> {
        Ok(match dtype {
            Dtype::Float32 => Values::F32(self.f32(name, shape)?),
            Dtype::Bfloat16 => Values::Bf16(self.bf16(name, shape)?),
            Dtype::Float16 => Values::F16(self.f16(name, shape)?),
        })
    }

    /// Checks that there is a tensor of this shape, so that room may be made for it.
    ///
    /// # Errors
    /// As for [`f32`](Self::f32).
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        match self {
            Self::Safetensors(files) => files.check(name, shape),
            Self::Gguf(file) => file.check(name, shape),
        }
    }

    /// Whether there is such a tensor.
    pub(crate) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Safetensors(files) => files.find(name).is_some(),
            Self::Gguf(file) => file.contains(name),
        }
    }

    /// The type of the first layer's query projection in the file.
    pub(crate) fn stored_dtype(&self) -> &'static str {
        let name = "model.layers.0.self_attn.q_proj.weight";
        match self {
            Self::Safetensors(files) => files.find(name).map_or("unknown", |tensor| tensor.dtype.name()),
            Self::Gguf(file) => file.stored_dtype(name),
        }
    }
}

/// The element types that are read from safetensors.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stored {
    F32,
    F16,
    Bf16,
}

impl Stored {
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    fn decode<T: Element>(self, bytes: &[u8]) -> Vec<T> {
        match self {
            Self::F32 => decode_f32(bytes),
            Self::F16 => decode_f16(bytes),
            Self::Bf16 => decode_bf16(bytes),
        }
    }

    fn new(dtype: StoredDtype) -> Option<Self> {
        match dtype {
            StoredDtype::F32 => Some(Self::F32),
            StoredDtype::F16 => Some(Self::F16),
            StoredDtype::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }
}

/// What a tensor can be converted to.
pub(crate) trait Element: Copy + Default + Send + Sync {
    fn from_f32(value: f32) -> Self;
    fn from_bf16(value: bf16) -> Self;
}

impl Element for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
    fn from_bf16(value: bf16) -> Self {
        value.to_f32()
    }
}

impl Element for bf16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn from_bf16(value: bf16) -> Self {
        value
    }
}

impl Element for f16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn from_bf16(value: bf16) -> Self {
        Self::from_f32(value.to_f32())
    }
}

/// One or more safetensors files with a common index.
#[derive(Debug)]
pub(crate) struct SafetensorsFiles {
    files: Vec<NamedFile>,
    tensors: HashMap<String, StoredTensor>,
    /// What to call the files together in messages.
    description: String,
}

/// Where a tensor is.
#[derive(Debug)]
struct StoredTensor {
    file: usize,
    dtype: Stored,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

impl SafetensorsFiles {
    /// A file with all tensors.
    ///
    /// # Errors
    /// Its header is malformed, or a tensor's type is not supported.
    pub(crate) fn single(name: &str, bytes: FileBytes) -> Result<Self, LoadError> {
        let tensors = read_header(name, &bytes)?;
        let mut files = Self { files: vec![], tensors: HashMap::new(), description: name.to_owned() };
        for (tensor, info) in tensors {
            files.insert(name, &tensor, info)?;
        }
        files.files.push(NamedFile { name: name.to_owned(), bytes });
        Ok(files)
    }

    /// The files that an index names. `weight_map` gives each tensor's file.
    ///
    /// # Errors
    /// As for [`single`](Self::single), or a tensor is not in the file that the index names.
    pub(crate) fn sharded(
        index: &str,
        weight_map: &BTreeMap<String, String>,
        mut open: impl FnMut(&str) -> Result<FileBytes, LoadError>,
    ) -> Result<Self, LoadError> {
        let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tensor, file) in weight_map {
            by_file.entry(file).or_default().push(tensor);
        }
        let mut files = Self { files: vec![], tensors: HashMap::new(), description: index.to_owned() };
        for (file, tensors) in by_file {
            let bytes = open(file)?;
            let mut header = read_header(file, &bytes)?;
            for tensor in tensors {
                let Some(info) = header.remove(tensor) else {
                    let problem = format!("tensor `{tensor}` is not in {file}, where {index} says it is");
                    return Err(LoadError::invalid(index, problem));
                };
                files.insert(file, tensor, info)?;
            }
            files.files.push(NamedFile { name: file.to_owned(), bytes });
        }
        Ok(files)
    }

    /// Adds a tensor of the file that is about to be added.
    fn insert(&mut self, file: &str, name: &str, info: TensorHeader) -> Result<(), LoadError> {
        let TensorHeader { dtype, shape, bytes } = info;
        // Buffers such as position ids may be of any type; only what a model could ask for is refused.
        let Some(dtype) = Stored::new(dtype) else {
            if name.ends_with(".weight") || name.ends_with(".bias") {
                let what = format!("tensor `{name}` of type {dtype:?}");
                return Err(LoadError::unsupported(file, what, "F32, F16, BF16"));
            }
            return Ok(());
        };
        let tensor = StoredTensor { file: self.files.len(), dtype, shape, bytes };
        self.tensors.insert(name.to_owned(), tensor);
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&StoredTensor> {
        self.tensors.get(name).or_else(|| self.tensors.get(name.strip_prefix("model.")?))
    }

    /// A whole tensor, converted.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let (file, dtype, bytes) = self.bytes(name, shape)?;
        file.reading(|| dtype.decode(bytes))
    }

    /// Some rows of a matrix, converted; `rows` must be below `shape[0]`.
    fn read_rows<T: Element>(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<T>, LoadError> {
        let (file, dtype, bytes) = self.bytes(name, &shape)?;
        let row_bytes = bytes.len() / shape[0];
        let row = |row: u32| dtype.decode(&bytes[row as usize * row_bytes..][..row_bytes]);
        file.reading(|| rows.iter().flat_map(|&i| row(i)).collect())
    }

    /// Checks that there is a tensor of this shape.
    fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        self.bytes(name, shape).map(drop)
    }

    fn bytes(&self, name: &str, shape: &[usize]) -> Result<(&NamedFile, Stored, &[u8]), LoadError> {
        let Some(tensor) = self.find(name) else {
            return Err(LoadError::MissingTensor { file: self.description.clone(), name: name.to_owned() });
        };
        let file = &self.files[tensor.file];
        check_shape(&file.name, name, shape, &tensor.shape)?;
        Ok((file, tensor.dtype, &file.bytes[tensor.bytes.clone()]))
    }
}

/// Compares a tensor's shape with the one that the config asks for.
///
/// # Errors
/// They differ.
pub(crate) fn check_shape(file: &str, name: &str, expected: &[usize], found: &[usize]) -> Result<(), LoadError> {
    if expected == found {
        return Ok(());
    }
    Err(LoadError::TensorShape {
        file: file.to_owned(),
        name: name.to_owned(),
        expected: expected.to_vec(),
        found: found.to_vec(),
    })
}

/// Little-endian `f32` values.
pub(crate) fn decode_f32<T: Element>(bytes: &[u8]) -> Vec<T> {
    decode(bytes, |b| T::from_f32(f32::from_le_bytes(b)))
}

/// Little-endian `f16` values.
pub(crate) fn decode_f16<T: Element>(bytes: &[u8]) -> Vec<T> {
    decode(bytes, |b| T::from_f32(f16::from_le_bytes(b).to_f32()))
}

/// Little-endian `bf16` values.
pub(crate) fn decode_bf16<T: Element>(bytes: &[u8]) -> Vec<T> {
    decode(bytes, |b| T::from_bf16(bf16::from_le_bytes(b)))
}

/// Converts values of `N` bytes. The bytes may be unaligned.
fn decode<T: Element, const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> T + Sync) -> Vec<T> {
    /// Values that one task converts.
    const CHUNK: usize = 1 << 16;
    let (values, _) = bytes.as_chunks::<N>();
    let mut out = vec![T::default(); values.len()];
    out.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(out, values)| {
        for (out, &value) in out.iter_mut().zip(values) {
            *out = convert(value);
        }
    });
    out
}
