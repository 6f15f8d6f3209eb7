//! An open GGUF file: typed access to metadata and tensors.

use super::header::{self, Content, TensorInfo};
use crate::disk::{FileBytes, NamedFile};
use crate::error::LoadError;
use crate::formats::tensor::{check_shape, reserved};
use crate::json::is_hidden;
use candle_core::quantized::gguf_file::Value;
use prefold_kernels::Element;
use serde_json::{Value as Json, json};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

/// `true` if the file name ends in `.gguf`.
pub(crate) fn has_gguf_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Key of the model's architecture.
pub(super) const ARCHITECTURE: &str = "general.architecture";

/// Rows of a reranker's head, one per entry of `classifier.output_labels`.
pub(crate) const CLASS_ROWS: &str = "cls.output.weight";

/// Name of the metadata in the list of settings.
pub(crate) const METADATA: &str = "GGUF metadata";

/// Characters of a string of the metadata that messages may show.
const MAX_SHOWN: usize = 100;

/// An open GGUF file.
pub(crate) struct GgufFile {
    file: NamedFile,
    content: Content,
}

impl std::fmt::Debug for GgufFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GgufFile").field("name", &self.file.name).finish_non_exhaustive()
    }
}

impl GgufFile {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, its header is malformed, or a tensor's type or position is invalid.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.display().to_string());
        let not_found = || LoadError::io(path.display().to_string(), ErrorKind::NotFound.into());
        let bytes = FileBytes::map(path)?.ok_or_else(not_found)?;
        let failed = |problem: String| LoadError::invalid(&name, format!("not a readable GGUF file: {problem}"));
        let content = header::read(&bytes).map_err(failed)?;
        let file = Self { file: NamedFile { name, bytes }, content };
        file.check_places()?;
        Ok(file)
    }

    /// Checks the type and position of each tensor and that tensors do not overlap, so that the file's size bounds the memory for
    /// its content.
    fn check_places(&self) -> Result<(), LoadError> {
        let mut tensors: Vec<(&String, &TensorInfo)> = self.content.tensors.iter().collect();
        // An error names the first tensor in the file.
        tensors.sort_by_key(|(name, info)| (info.offset, *name));
        let places = tensors.into_iter().map(|(name, info)| Ok((self.place(name, info)?, name.as_str())));
        let mut places: Vec<(Range<usize>, &str)> = places.collect::<Result<_, LoadError>>()?;
        places.sort_by_key(|(place, _)| (place.start, place.end));
        match places.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
            Some(pair) => {
                let problem = format!("tensors `{}` and `{}` overlap", pair[0].1, pair[1].1);
                Err(LoadError::invalid(self.name(), problem))
            }
            None => Ok(()),
        }
    }

    /// The file's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.file.name
    }

    /// A value of the metadata.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.content.metadata.get(key).filter(|_| !is_hidden(METADATA, key))
    }

    /// Keys of the metadata in alphabetical order, and their values as JSON: of arrays the length, of long strings the beginning.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (&str, Json)> {
        let mut entries: Vec<(&str, &Value)> =
            self.content.metadata.iter().map(|(key, value)| (&**key, value)).collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries.into_iter().map(|(key, value)| (key, as_json(value)))
    }

    /// A whole number of any width.
    ///
    /// # Errors
    /// The value has another type.
    pub(crate) fn usize(&self, key: &str) -> Result<Option<usize>, LoadError> {
        let wide: i128 = match self.get(key) {
            None => return Ok(None),
            Some(&Value::U8(v)) => v.into(),
            Some(&Value::I8(v)) => v.into(),
            Some(&Value::U16(v)) => v.into(),
            Some(&Value::I16(v)) => v.into(),
            Some(&Value::U32(v)) => v.into(),
            Some(&Value::I32(v)) => v.into(),
            Some(&Value::U64(v)) => v.into(),
            Some(&Value::I64(v)) => v.into(),
            Some(_) => return Err(self.wrong(key, "a whole number")),
        };
        usize::try_from(wide).map(Some).map_err(|_| self.wrong(key, "a whole number from 0 up"))
    }

    /// A number.
    ///
    /// # Errors
    /// The value has another type.
    pub(crate) fn f64(&self, key: &str) -> Result<Option<f64>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::F32(v)) if v.is_finite() => Ok(Some(v.into())),
            Some(&Value::F64(v)) if v.is_finite() => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "a finite number")),
        }
    }

    /// A boolean.
    ///
    /// # Errors
    /// The value has another type.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Bool(v)) => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// The value has another type.
    pub(crate) fn str(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(v)) => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// An error about a value of the wrong type.
    pub(crate) fn wrong(&self, key: &str, expected: &str) -> LoadError {
        LoadError::invalid(self.name(), format!("metadata `{key}` must be {expected}"))
    }

    /// An error about a missing value.
    pub(crate) fn lacks(&self, key: &str) -> LoadError {
        LoadError::invalid(self.name(), format!("metadata `{key}` is missing"))
    }

    /// `general.architecture`, the prefix of the model's metadata keys.
    ///
    /// # Errors
    /// It is missing or not a string.
    pub(crate) fn architecture(&self) -> Result<&str, LoadError> {
        self.str(ARCHITECTURE)?.ok_or_else(|| self.lacks(ARCHITECTURE))
    }

    /// Type, shape and offset of a tensor.
    pub(super) fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.content.tensors.get(name)
    }

    /// Names of all tensors.
    pub(crate) fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.content.tensors.keys().map(String::as_str)
    }

    /// A whole tensor by its name in the file.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let info = self.check(name, shape)?;
        let place = self.place(name, info)?;
        self.file.reading(|| info.kind.decode(&self.file.bytes[place]))?
    }

    /// Rows of a matrix, which must be below `shape[0]`; other rows are not converted.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub(super) fn read_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        let info = self.check(name, &shape)?;
        let bytes = &self.file.bytes[self.place(name, info)?];
        // Rows consist of whole blocks.
        let row_bytes = bytes.len().checked_div(shape[0]).unwrap_or(0);
        let row = |row: u32| info.kind.decode(&bytes[row as usize * row_bytes..][..row_bytes]);
        let mut values = reserved(rows.len().saturating_mul(shape[1]))?;
        self.file.reading(|| {
            for &index in rows {
                values.append(&mut row(index)?);
            }
            Ok(values)
        })?
    }

    /// A tensor of the expected shape.
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, LoadError> {
        let missing = || LoadError::MissingTensor { file: self.name().to_owned(), name: name.to_owned() };
        let info = self.tensor(name).ok_or_else(missing)?;
        let found = info.shape.as_slice();
        // Tools that rewrite a file, such as quantizers, store a matrix of one row as a vector.
        if !matches!((shape, found), (&[1, width], &[found]) if width == found) {
            check_shape(self.name(), name, shape, found)?;
        }
        Ok(info)
    }

    /// Byte range of a tensor's blocks in the file.
    fn place(&self, name: &str, info: &TensorInfo) -> Result<Range<usize>, LoadError> {
        let (kind, shape) = (info.kind, &info.shape);
        let problem = |problem: &str| LoadError::invalid(self.name(), format!("tensor `{name}` {problem}"));
        let block = kind.values;
        if !shape.last().is_none_or(|row| row.is_multiple_of(block)) {
            return Err(problem(&format!(
                "has the shape {shape:?}, whose rows are not a multiple of the block size, {block} values"
            )));
        }
        if shape.contains(&0) {
            return Err(problem(&format!("has no values: its shape is {shape:?}")));
        }
        let elements = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let length = elements.and_then(|elements| (elements / block).checked_mul(kind.bytes));
        let length = length.ok_or_else(|| problem(&format!("has the impossible shape {shape:?}")))?;
        let start = self.content.data_offset.checked_add(info.offset);
        let start = start.and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
        // Blocks are read in place and contain numbers of up to four bytes.
        if !start.is_multiple_of(4) {
            return Err(problem("is not aligned"));
        }
        let end = start.saturating_add(length);
        if end <= self.file.bytes.len() {
            Ok(start..end)
        } else {
            Err(problem("lies outside the file; is the file truncated?"))
        }
    }
}

/// A value as JSON.
fn as_json(value: &Value) -> Json {
    match value {
        Value::U8(value) => json!(value),
        Value::I8(value) => json!(value),
        Value::U16(value) => json!(value),
        Value::I16(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::U64(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::F32(value) => json!(value),
        Value::F64(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::String(text) => json!(text.chars().take(MAX_SHOWN).collect::<String>()),
        Value::Array(values) if values.is_empty() => json!([]),
        Value::Array(values) => json!(format!("{} values", values.len())),
    }
}
