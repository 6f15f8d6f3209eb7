//! Files of named tensors, in one file or in shards with an index.

use super::numbers::{Number, StoredNumbers};
use super::tensor::{StoredType, TensorHeader, check_shape, decode, in_rows, reserved};
use super::tensor_names::{FACTORS, is_weight, other_name, with_prefix};
use super::{pytorch, safetensors};
use crate::config::adapters::{first_factor, parametrized};
use crate::config::names::{OPTIONAL_PREFIXES, RENAMED_PREFIXES};
use crate::disk::{FileBytes, NamedFile};
use crate::error::LoadError;
use crate::json::{Fields, FromField};
use prefold_kernels::{Dtype, Element};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Maximum tensor files of a model; the largest models have 200.
const MAX_SHARDS: usize = 1024;

/// Maximum tensors in all files, including tensors that the index does not name. The largest models have 100,000.
const MAX_TENSORS: usize = 1 << 20;

/// A format of files that hold named tensors. A model's files are in the first of these that it has, a single file before shards,
/// as transformers takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorFormat {
    Safetensors,
    /// What `torch.save` writes.
    Pytorch,
}

impl TensorFormat {
    pub(crate) const ALL: [Self; 2] = [Self::Safetensors, Self::Pytorch];

    /// Name of the single file.
    pub(crate) fn single(self) -> &'static str {
        match self {
            Self::Safetensors => "model.safetensors",
            Self::Pytorch => "pytorch_model.bin",
        }
    }

    /// Name of the index of shards.
    pub(crate) fn index(self) -> &'static str {
        match self {
            Self::Safetensors => "model.safetensors.index.json",
            Self::Pytorch => "pytorch_model.bin.index.json",
        }
    }

    /// The ending of its files' names.
    fn extension(self) -> &'static str {
        match self {
            Self::Safetensors => ".safetensors",
            Self::Pytorch => ".bin",
        }
    }

    /// The format of a file, by its name.
    pub(crate) fn of_file(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| name.ends_with(format.extension()))
    }

    /// Where the tensors of a whole file are.
    fn read_header(self, file: &str, bytes: &[u8]) -> Result<HashMap<String, TensorHeader>, LoadError> {
        match self {
            Self::Safetensors => safetensors::read_header(file, bytes),
            Self::Pytorch => pytorch::read_header(file, bytes),
        }
    }

    /// File of each tensor by an index. Only plain file names are allowed, so that an index cannot name files elsewhere.
    ///
    /// # Errors
    /// The index is malformed, or a name contains folders or has another ending.
    pub(crate) fn weight_map(self, index: &Value) -> Result<BTreeMap<String, String>, LoadError> {
        let fields = Fields::new(self.index(), index)?;
        let map = fields.object("weight_map")?.ok_or_else(|| fields.problem("weight_map", "is missing"))?;
        let entries = map.entries().map(|(tensor, file)| {
            let file = String::from_field(file).ok_or_else(|| map.problem(tensor, "must be a file name"))?;
            let extension = self.extension();
            let plain = file.ends_with(extension) && !file.contains(['/', '\\', ':']) && !file.starts_with('.');
            if plain {
                return Ok((tensor.clone(), file));
            }
            Err(map.problem(tensor, &format!("must name a {extension} file in the index's folder, not \"{file}\"")))
        });
        entries.collect()
    }
}

/// One or more files of a format, with a common index.
#[derive(Debug)]
pub(crate) struct TensorFiles {
    files: Vec<NamedFile>,
    tensors: HashMap<String, StoredTensor>,
    /// Tensors of types that weights do not have.
    numbers: HashMap<String, StoredNumbers>,
    /// Names of tensors that cannot be read: of other types, or in a file whose index does not name them.
    others: Vec<String>,
    /// Name of the files together, for messages.
    description: String,
}

/// Place of a tensor.
#[derive(Debug)]
struct StoredTensor {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    strides: Option<Vec<usize>>,
    bytes: Range<usize>,
}

impl TensorFiles {
    /// No tensors yet.
    fn empty(description: String) -> Self {
        Self { files: vec![], tensors: HashMap::new(), numbers: HashMap::new(), others: vec![], description }
    }

    /// Opens a file that contains all tensors.
    ///
    /// # Errors
    /// The header is malformed, or a tensor's type is not supported.
    pub(crate) fn single(format: TensorFormat, name: &str, bytes: FileBytes) -> Result<Self, LoadError> {
        let tensors = format.read_header(name, &bytes)?;
        let mut files = Self::empty(name.to_owned());
        for (tensor, info) in in_order(tensors) {
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
        format: TensorFormat,
        weight_map: &BTreeMap<String, String>,
        mut open: impl FnMut(&str) -> Result<FileBytes, LoadError>,
    ) -> Result<Self, LoadError> {
        let index = format.index();
        let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tensor, file) in weight_map {
            by_file.entry(file).or_default().push(tensor);
        }
        if by_file.len() > MAX_SHARDS {
            let problem = format!("names {} files of tensors, the limit is {MAX_SHARDS}", by_file.len());
            return Err(LoadError::invalid(index, problem));
        }
        let (mut files, mut count) = (Self::empty(index.to_owned()), 0);
        for (file, tensors) in by_file {
            let bytes = open(file)?;
            let mut header = format.read_header(file, &bytes)?;
            count += header.len();
            if count > MAX_TENSORS {
                let problem = format!("names files with more than {MAX_TENSORS} tensors, which is the limit");
                return Err(LoadError::invalid(index, problem));
            }
            for tensor in tensors {
                let Some(info) = header.remove(tensor) else {
                    let problem = format!("tensor `{tensor}` is not in {file}, where {index} says it is");
                    return Err(LoadError::invalid(index, problem));
                };
                files.insert(file, tensor, info)?;
            }
            files.others.extend(header.into_keys());
            files.files.push(NamedFile { name: file.to_owned(), bytes });
        }
        Ok(files)
    }

    /// The tensors of files truncated at the end of the header; their values cannot be read.
    ///
    /// # Errors
    /// A header is malformed, or a tensor's type is not supported.
    pub(crate) fn headers(heads: &[(String, Vec<u8>)]) -> Result<Self, LoadError> {
        let description = heads.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let mut files = Self::empty(description);
        for (name, head) in heads {
            for (tensor, info) in in_order(safetensors::read_header_alone(name, head)?) {
                files.insert(name, &tensor, info)?;
            }
            files.files.push(NamedFile { name: name.clone(), bytes: FileBytes::Static(&[]) });
        }
        Ok(files)
    }

    /// Values of all tensors.
    pub(super) fn parameters(&self) -> u64 {
        self.tensors.values().map(|tensor| tensor.shape.iter().product::<usize>() as u64).sum()
    }

    /// Adds a tensor of the next file.
    fn insert(&mut self, file: &str, name: &str, info: TensorHeader) -> Result<(), LoadError> {
        let index = self.files.len();
        // Buffers such as position ids may have any type; only weights and biases are refused.
        if let StoredType::Other(dtype) = &info.dtype {
            let number = Number::named(dtype).filter(|_| info.strides.is_none());
            if is_weight(name) || name == FACTORS && number != Some(Number::F64) {
                let (what, more) =
                    (format!("tensor `{name}` of type {dtype}"), if name == FACTORS { "F64, " } else { "" });
                return Err(LoadError::unsupported(file, what, format!("{more}F32, F16, BF16")));
            }
            match number {
                Some(number) => drop(self.numbers.insert(name.to_owned(), StoredNumbers::new(index, number, info))),
                None => self.others.push(name.to_owned()),
            }
            return Ok(());
        }
        let TensorHeader { dtype: StoredType::Known(dtype), shape, strides, bytes } = info else { return Ok(()) };
        self.tensors.insert(name.to_owned(), StoredTensor { file: index, dtype, shape, strides, bytes });
        Ok(())
    }

    /// A tensor by its name, or by another spelling of it, with or without the first part or with another; or the matrix that adapters
    /// change.
    fn find(&self, name: &str) -> Option<&StoredTensor> {
        self.entry(name).map(|(_, tensor)| tensor)
    }

    /// The same with its name in the file.
    fn entry(&self, name: &str) -> Option<(&str, &StoredTensor)> {
        let without = OPTIONAL_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let spelled = |name: &str| {
            let other = || self.stored(&other_name(name)?);
            self.stored(name).or_else(other).or_else(|| self.adapted(name))
        };
        let renamed = || {
            let again = |(old, new): (&str, &str)| name.strip_prefix(old).map(|rest| format!("{new}{rest}"));
            RENAMED_PREFIXES.into_iter().filter_map(again).find_map(|name| spelled(&name))
        };
        [Some(name), without].into_iter().flatten().find_map(spelled).or_else(renamed)
    }

    /// A tensor by its name in the file.
    fn stored(&self, name: &str) -> Option<(&str, &StoredTensor)> {
        self.tensors.get_key_value(name).map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// A matrix whose weight torch computes from it and from adapters; other functions of it are not known.
    fn adapted(&self, name: &str) -> Option<(&str, &StoredTensor)> {
        let name = name.strip_suffix(".weight")?;
        self.tensors.contains_key(&first_factor(name)).then(|| self.stored(&parametrized(name))).flatten()
    }

    /// Names in the files of the tensors that no name of `read` finds.
    pub(crate) fn unread(&self, read: &[String]) -> Vec<&str> {
        let found: HashSet<&str> = read.iter().filter_map(|name| self.entry(name)).map(|(name, _)| name).collect();
        let all = self.names().chain(self.numbers.keys().chain(&self.others).map(String::as_str));
        all.filter(|name| !found.contains(name)).collect()
    }

    /// The error about a missing tensor.
    fn missing(&self, name: &str) -> LoadError {
        let file = self.description.clone();
        match with_prefix(|| self.names(), name) {
            None => LoadError::MissingTensor { file, name: name.to_owned() },
            Some(problem) => LoadError::invalid(file, problem),
        }
    }

    /// Names of all tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// `true` if there is such a tensor.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Name of the files together, for messages.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// The shape of a tensor, if there is such a one.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|tensor| tensor.shape.as_slice())
    }

    /// The same of a tensor of integers.
    pub(super) fn integer_shape(&self, name: &str) -> Option<&[usize]> {
        self.numbers.get(name).filter(|numbers| numbers.are_integers()).map(|numbers| numbers.shape.as_slice())
    }

    /// The same of a tensor of floats of any size.
    pub(super) fn float_shape(&self, name: &str) -> Option<&[usize]> {
        let numbers = || self.numbers.get(name).filter(|numbers| !numbers.are_integers());
        self.shape(name).or_else(|| numbers().map(|numbers| numbers.shape.as_slice()))
    }

    /// `false` if the headers alone are there.
    pub(super) fn has_values(&self) -> bool {
        self.tensors.values().all(|tensor| tensor.bytes.end <= self.files[tensor.file].bytes.len())
    }

    /// The values of a tensor of integers, which must be from 0 to `limit - 1`.
    ///
    /// # Errors
    /// It is missing, or a value is out of range.
    pub(super) fn integers(&self, name: &str, limit: usize) -> Result<Vec<u32>, LoadError> {
        let Some(numbers) = self.numbers.get(name) else {
            return Err(LoadError::MissingTensor { file: self.description.clone(), name: name.to_owned() });
        };
        numbers.integers(&self.files[numbers.file], name, limit)
    }

    /// The values of a tensor of floats of any size, whose shape was checked.
    ///
    /// # Errors
    /// It is missing.
    pub(super) fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        match self.numbers.get(name) {
            Some(numbers) => numbers.floats(&self.files[numbers.file]),
            None => self.read(name, shape),
        }
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
        let (file, tensor) = self.readable(name, shape)?;
        file.reading(|| decode(tensor.dtype, &tensor.in_rows(file)?))?
    }

    /// Rows of a matrix, converted; `rows` must be below `shape[0]`.
    pub(super) fn read_rows<T: Element>(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: &[u32],
    ) -> Result<Vec<T>, LoadError> {
        let (file, tensor) = self.readable(name, &shape)?;
        let mut values = reserved(rows.len().saturating_mul(shape[1]))?;
        file.reading(|| {
            let bytes = tensor.in_rows(file)?;
            let row_bytes = bytes.len() / shape[0];
            for &row in rows {
                values.append(&mut decode(tensor.dtype, &bytes[row as usize * row_bytes..][..row_bytes])?);
            }
            Ok(values)
        })?
    }

    /// Checks the presence and shape of a tensor.
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        self.checked(name, shape).map(drop)
    }

    /// The same of a tensor whose values are there.
    fn readable(&self, name: &str, shape: &[usize]) -> Result<(&NamedFile, &StoredTensor), LoadError> {
        let (file, tensor) = self.checked(name, shape)?;
        if tensor.bytes.end <= file.bytes.len() {
            Ok((file, tensor))
        } else {
            Err(LoadError::invalid(&file.name, "has only been read up to the end of its header"))
        }
    }

    fn checked(&self, name: &str, shape: &[usize]) -> Result<(&NamedFile, &StoredTensor), LoadError> {
        let Some(tensor) = self.find(name) else { return Err(self.missing(name)) };
        let file = &self.files[tensor.file];
        check_shape(&file.name, name, shape, &tensor.shape)?;
        Ok((file, tensor))
    }
}

/// Tensors in the order of the file, so that an error names the first one.
fn in_order(tensors: HashMap<String, TensorHeader>) -> Vec<(String, TensorHeader)> {
    let mut tensors: Vec<_> = tensors.into_iter().collect();
    tensors.sort_by(|(name, info), (other, its)| (info.bytes.start, name).cmp(&(its.bytes.start, other)));
    tensors
}

impl StoredTensor {
    /// Its elements in its file, row by row.
    fn in_rows<'a>(&self, file: &'a NamedFile) -> Result<Cow<'a, [u8]>, LoadError> {
        in_rows(&file.bytes[self.bytes.clone()], self.dtype, &self.shape, self.strides.as_deref())
    }
}
