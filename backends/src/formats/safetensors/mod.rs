//! Safetensors files.

mod header;

use super::tensor::{check_shape, decode};
use crate::LoadError;
use crate::config::names::OPTIONAL_PREFIXES;
use crate::disk::{FileBytes, NamedFile};
use crate::json::{Fields, FromField};
use header::{TensorHeader, read_header};
use prefold_kernels::{Dtype, Element};
use safetensors::Dtype as StoredDtype;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Name of the single weights file.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// Name of the index of sharded weights.
pub(crate) const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// The type of a tensor, if it is supported.
fn supported(dtype: StoredDtype) -> Option<Dtype> {
    match dtype {
        StoredDtype::F32 => Some(Dtype::Float32),
        StoredDtype::F16 => Some(Dtype::Float16),
        StoredDtype::BF16 => Some(Dtype::Bfloat16),
        _ => None,
    }
}

/// One or more safetensors files with a common index.
#[derive(Debug)]
pub(crate) struct SafetensorsFiles {
    files: Vec<NamedFile>,
    tensors: HashMap<String, StoredTensor>,
    /// Name of the files together, for messages.
    description: String,
}

/// Place of a tensor.
#[derive(Debug)]
struct StoredTensor {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

impl SafetensorsFiles {
    /// Opens a file that contains all tensors.
    ///
    /// # Errors
    /// The header is malformed, or a tensor's type is not supported.
    pub(crate) fn single(name: &str, bytes: FileBytes) -> Result<Self, LoadError> {
        let tensors = read_header(name, &bytes)?;
        let mut files = Self { files: vec![], tensors: HashMap::new(), description: name.to_owned() };
        for (tensor, info) in tensors {
            files.insert(name, &tensor, info)?;
        }
        files.files.push(NamedFile { name: name.to_owned(), bytes });
        Ok(files)
    }

    /// Opens the files of an index. `weight_map` contains each tensor's file.
    ///
    /// # Errors
    /// As for [`single`](Self::single), or a tensor is missing from the file in the index.
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

    /// Adds a tensor of the next file.
    fn insert(&mut self, file: &str, name: &str, info: TensorHeader) -> Result<(), LoadError> {
        let TensorHeader { dtype, shape, bytes } = info;
        // Buffers such as position ids may have any type; only weights and biases are refused.
        let Some(dtype) = supported(dtype) else {
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

    /// A tensor by its name, or by an older spelling of it, with or without the first part.
    fn find(&self, name: &str) -> Option<&StoredTensor> {
        let without = OPTIONAL_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        [Some(name), without]
            .into_iter()
            .flatten()
            .find_map(|name| self.tensors.get(name).or_else(|| self.tensors.get(&older_name(name)?)))
    }

    /// `true` if there is such a tensor.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Type of a tensor in the file.
    pub(super) fn stored_dtype(&self, name: &str) -> &'static str {
        self.find(name).map_or("unknown", |tensor| tensor.dtype.as_str())
    }

    /// A whole tensor, converted.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let (file, dtype, bytes) = self.bytes(name, shape)?;
        file.reading(|| decode(dtype, bytes))
    }

    /// Rows of a matrix, converted; `rows` must be below `shape[0]`.
    pub(super) fn read_rows<T: Element>(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: &[u32],
    ) -> Result<Vec<T>, LoadError> {
        let (file, dtype, bytes) = self.bytes(name, &shape)?;
        let row_bytes = bytes.len() / shape[0];
        let row = |row: u32| decode(dtype, &bytes[row as usize * row_bytes..][..row_bytes]);
        file.reading(|| rows.iter().flat_map(|&i| row(i)).collect())
    }

    /// Checks the presence and shape of a tensor.
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        self.bytes(name, shape).map(drop)
    }

    fn bytes(&self, name: &str, shape: &[usize]) -> Result<(&NamedFile, Dtype, &[u8]), LoadError> {
        let Some(tensor) = self.find(name) else {
            return Err(LoadError::MissingTensor { file: self.description.clone(), name: name.to_owned() });
        };
        let file = &self.files[tensor.file];
        check_shape(&file.name, name, shape, &tensor.shape)?;
        Ok((file, tensor.dtype, &file.bytes[tensor.bytes.clone()]))
    }
}

/// The name of a LayerNorm's weight or bias in files converted from TensorFlow.
fn older_name(name: &str) -> Option<String> {
    let norm = |suffix| name.strip_suffix(suffix).filter(|norm| norm.ends_with("LayerNorm"));
    norm(".weight").map(|norm| format!("{norm}.gamma")).or_else(|| norm(".bias").map(|norm| format!("{norm}.beta")))
}

/// File of each tensor by an index. Only plain file names are allowed, so that an index cannot name files elsewhere.
///
/// # Errors
/// The index is malformed, or a name contains folders.
pub(crate) fn weight_map(index: &Value) -> Result<BTreeMap<String, String>, LoadError> {
    let fields = Fields::new(WEIGHTS_INDEX, index)?;
    let map = fields.object("weight_map")?.ok_or_else(|| fields.problem("weight_map", "is missing"))?;
    let entries = map.entries().map(|(tensor, file)| {
        let file = String::from_field(file).ok_or_else(|| map.problem(tensor, "must be a file name"))?;
        let plain = file.ends_with(".safetensors") && !file.contains(['/', '\\', ':']) && !file.starts_with('.');
        match plain {
            true => Ok((tensor.clone(), file)),
            false => {
                Err(map.problem(tensor, &format!("must name a .safetensors file beside the index, not \"{file}\"")))
            }
        }
    });
    entries.collect()
}
