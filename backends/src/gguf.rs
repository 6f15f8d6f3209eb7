//! GGUF files: metadata and tensors.

use crate::LoadError;
use crate::disk::{FileBytes, NamedFile};
use crate::gguf_header;
use crate::gguf_names::gguf_name;
use crate::model::config::DecoderConfig;
use crate::model::weights::{Element, check_shape, decode_bf16, decode_f16, decode_f32};
use candle_core::CpuStorage;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value};
use half::bf16;
use rayon::prelude::*;
use std::borrow::Cow;
use std::io::{Cursor, ErrorKind};
use std::ops::Range;
use std::path::Path;

/// Architectures (`general.architecture`) that are read. Mistral's files say `llama`.
const ARCHITECTURES: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// The rows of the head that a converter keeps of a reranker, one for each of `classifier.output_labels`.
pub(crate) const CLASS_ROWS: &str = "cls.output.weight";

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
    /// The file cannot be read, its header is malformed, or a tensor's type or place is impossible.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.display().to_string());
        let not_found = || LoadError::io(path.display().to_string(), ErrorKind::NotFound.into());
        let bytes = FileBytes::map(path)?.ok_or_else(not_found)?;
        let failed =
            |problem: String| LoadError::invalid(&name, format!("not a GGUF file that can be read: {problem}"));
        gguf_header::check(&bytes).map_err(failed)?;
        let content = Content::read(&mut Cursor::new(&*bytes)).map_err(|error| failed(error.to_string()))?;
        let file = Self { file: NamedFile { name, bytes }, content };
        file.check_places()?;
        Ok(file)
    }

    /// Checks that each tensor's type and place are possible, and that none lies on another: what is read from a file
    /// takes no more room than the file's size lets expect.
    fn check_places(&self) -> Result<(), LoadError> {
        let tensors = self.content.tensor_infos.iter();
        let places = tensors.map(|(name, info)| Ok((self.place(name, info)?, name.as_str())));
        let mut places: Vec<(Range<usize>, &str)> = places.collect::<Result<_, LoadError>>()?;
        places.sort_by_key(|(place, _)| (place.start, place.end));
        match places.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
            Some(pair) => {
                let problem = format!("tensor `{}` lies on tensor `{}`", pair[1].1, pair[0].1);
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
        self.content.metadata.get(key)
    }

    /// A whole number, whatever its width.
    ///
    /// # Errors
    /// The value is something else.
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
    /// The value is something else.
    pub(crate) fn f64(&self, key: &str) -> Result<Option<f64>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::F32(v)) if v.is_finite() => Ok(Some(v.into())),
            Some(&Value::F64(v)) if v.is_finite() => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "a finite number")),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// The value is something else.
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
    /// The value is something else.
    pub(crate) fn str(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(v)) => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// An error about a value of the wrong type.
    pub(crate) fn wrong(&self, key: &str, what: &str) -> LoadError {
        LoadError::invalid(self.name(), format!("metadata `{key}` must be {what}"))
    }

    /// An error about a value that is not there.
    pub(crate) fn lacks(&self, key: &str) -> LoadError {
        LoadError::invalid(self.name(), format!("metadata `{key}` is missing"))
    }

    /// `general.architecture`, if it is one of those supported.
    ///
    /// # Errors
    /// It is missing or not supported.
    pub(crate) fn architecture(&self) -> Result<&str, LoadError> {
        let key = "general.architecture";
        let architecture = self.str(key)?.ok_or_else(|| self.lacks(key))?;
        match ARCHITECTURES.contains(&architecture) {
            true => Ok(architecture),
            false => {
                let what = format!("`{key}` \"{architecture}\"");
                Err(LoadError::unsupported(self.name(), what, ARCHITECTURES.join(", ")))
            }
        }
    }

    /// A tensor's description.
    pub(crate) fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.content.tensor_infos.get(name)
    }

    /// The names of all tensors.
    pub(crate) fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.content.tensor_infos.keys().map(String::as_str)
    }

    /// A whole tensor by the name it has in the file; `shown` is the name for messages.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn read<T: Element>(&self, name: &str, shown: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let info = self.check(name, shown, shape)?;
        let place = self.place(name, info)?;
        self.file.reading(|| decode(info.ggml_dtype, &self.file.bytes[place]))?
    }

    /// Some rows of a matrix, which must be below `shape[0]`; the others are not converted.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    fn read_rows(&self, name: &str, shown: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        let info = self.check(name, shown, &shape)?;
        let bytes = &self.file.bytes[self.place(name, info)?];
        // A row is whole blocks.
        let row_bytes = bytes.len().checked_div(shape[0]).unwrap_or(0);
        let row = |row: u32| decode(info.ggml_dtype, &bytes[row as usize * row_bytes..][..row_bytes]);
        let rows = self.file.reading(|| rows.iter().map(|&i| row(i)).collect::<Result<Vec<Vec<f32>>, _>>())??;
        Ok(rows.concat())
    }

    /// What the rows of [`CLASS_ROWS`] stand for; none when the file does not say.
    ///
    /// # Errors
    /// They are not strings.
    fn class_labels(&self) -> Result<Vec<&str>, LoadError> {
        let key = format!("{}.classifier.output_labels", self.architecture()?);
        let wrong = || self.wrong(&key, "a list of strings");
        let Some(value) = self.get(&key) else { return Ok(vec![]) };
        let Value::Array(labels) = value else { return Err(wrong()) };
        labels.iter().map(|label| if let Value::String(label) = label { Ok(&**label) } else { Err(wrong()) }).collect()
    }

    /// A tensor's description, if it has this shape.
    fn check(&self, name: &str, shown: &str, shape: &[usize]) -> Result<&TensorInfo, LoadError> {
        let missing = || LoadError::MissingTensor { file: self.name().to_owned(), name: shown.to_owned() };
        let info = self.tensor(name).ok_or_else(missing)?;
        check_shape(self.name(), shown, shape, info.shape.dims())?;
        Ok(info)
    }

    /// Where a tensor's blocks are: inside the file.
    fn place(&self, name: &str, info: &TensorInfo) -> Result<Range<usize>, LoadError> {
        let (dtype, shape) = (info.ggml_dtype, info.shape.dims());
        if dtype_name(dtype).is_none() {
            let what = format!("tensor `{name}` of type {dtype:?}");
            let supported = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K, Q6_K";
            return Err(LoadError::unsupported(self.name(), what, supported));
        }
        let problem = |problem: &str| LoadError::invalid(self.name(), format!("tensor `{name}` {problem}"));
        let block = dtype.block_size();
        if !shape.last().is_none_or(|row| row.is_multiple_of(block)) {
            return Err(problem(&format!(
                "has the shape {shape:?}, whose rows are not whole blocks of {block} values"
            )));
        }
        let elements = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let length = elements.and_then(|elements| (elements / block).checked_mul(dtype.type_size()));
        let length = length.ok_or_else(|| problem(&format!("has the impossible shape {shape:?}")))?;
        let start = self.content.tensor_data_offset.checked_add(info.offset);
        let start = start.and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
        // Blocks are read in place, and hold numbers of up to four bytes.
        if !start.is_multiple_of(4) {
            return Err(problem("is not aligned"));
        }
        let end = start.saturating_add(length);
        match end <= self.file.bytes.len() {
            true => Ok(start..end),
            false => Err(problem("lies outside the file; is the file truncated?")),
        }
    }

    /// The tensors, by Hugging Face's names.
    pub(crate) fn into_weights(self, config: &DecoderConfig) -> GgufWeights {
        // Converters reorder the rows of Llama's q and k for a rotation of neighbours (2i, 2i + 1); the rotation
        // here, as in Hugging Face's files, is of halves (i, i + head_dim / 2).
        let interleaved = config.model_type == "llama";
        GgufWeights { file: self, interleaved_head_dim: interleaved.then_some(config.head_dim) }
    }
}

/// The tensors of a GGUF file by Hugging Face's names.
#[derive(Debug)]
pub(crate) struct GgufWeights {
    file: GgufFile,
    /// Set when the rows of q and k are in the order of interleaved RoPE.
    interleaved_head_dim: Option<usize>,
}

impl GgufWeights {
    /// As [`Weights::f32`](crate::model::weights::Weights::f32).
    pub(crate) fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        self.read(name, shape)
    }

    /// As [`Weights::bf16`](crate::model::weights::Weights::bf16).
    pub(crate) fn bf16(&self, name: &str, shape: &[usize]) -> Result<Vec<bf16>, LoadError> {
        self.read(name, shape)
    }

    /// As [`Weights::f32_rows`](crate::model::weights::Weights::f32_rows).
    pub(crate) fn f32_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        self.file.read_rows(&self.stored_name(name)?, name, shape, rows)
    }

    /// As [`Weights::class_rows`](crate::model::weights::Weights::class_rows).
    pub(crate) fn class_rows(&self, width: usize) -> Result<Option<ClassRows>, LoadError> {
        let Some(info) = self.file.tensor(CLASS_ROWS) else { return Ok(None) };
        let rows = info.shape.dims().first().copied().unwrap_or(0);
        let values = self.file.read(CLASS_ROWS, CLASS_ROWS, &[rows, width])?;
        let labels: Vec<String> = self.file.class_labels()?.into_iter().map(str::to_owned).collect();
        if !labels.is_empty() && labels.len() != rows {
            let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows for {} labels", labels.len());
            return Err(LoadError::invalid(self.file.name(), problem));
        }
        Ok(Some(ClassRows { labels, values }))
    }

    /// As [`Weights::contains`](crate::model::weights::Weights::contains).
    pub(crate) fn contains(&self, name: &str) -> bool {
        gguf_name(name).is_some_and(|name| self.file.tensor(&name).is_some())
    }

    /// The type of a tensor, with `gguf` in front.
    pub(crate) fn stored_dtype(&self, name: &str) -> &'static str {
        let info = gguf_name(name).and_then(|name| self.file.tensor(&name));
        info.and_then(|info| dtype_name(info.ggml_dtype)).unwrap_or("unknown")
    }

    /// As [`Weights::check`](crate::model::weights::Weights::check).
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        self.file.check(&self.stored_name(name)?, name, shape).map(drop)
    }

    /// The name in the file.
    fn stored_name(&self, name: &str) -> Result<String, LoadError> {
        let missing = || LoadError::MissingTensor { file: self.file.name().to_owned(), name: name.to_owned() };
        gguf_name(name).ok_or_else(missing)
    }

    fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let values = self.file.read(&self.stored_name(name)?, name, shape)?;
        let rotated = name.contains(".self_attn.q_proj.") || name.contains(".self_attn.k_proj.");
        match self.interleaved_head_dim.filter(|_| rotated) {
            Some(head_dim) => Ok(halves_from_neighbours(&values, head_dim, shape.iter().skip(1).product())),
            None => Ok(values),
        }
    }
}

/// Reorders the rows of each head from pairs (2i, 2i + 1) to pairs (i, i + head_dim / 2).
fn halves_from_neighbours<T: Copy>(values: &[T], head_dim: usize, row_len: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(values.len());
    for head in values.chunks(head_dim * row_len) {
        for half in 0..2 {
            for pair in 0..head_dim / 2 {
                out.extend_from_slice(&head[(2 * pair + half) * row_len..][..row_len]);
            }
        }
    }
    out
}

/// A reranker's rows of the head, apart from the head.
#[derive(Debug)]
pub(crate) struct ClassRows {
    /// One for each row; none when the file does not say.
    pub(crate) labels: Vec<String>,
    /// Row by row.
    pub(crate) values: Vec<f32>,
}

/// Converts whole blocks.
fn decode<T: Element>(dtype: GgmlDType, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
    match dtype {
        GgmlDType::F32 => Ok(decode_f32(bytes)),
        GgmlDType::F16 => Ok(decode_f16(bytes)),
        GgmlDType::BF16 => Ok(decode_bf16(bytes)),
        dtype => dequantize(dtype, bytes),
    }
}

/// Dequantises blocks, many at a time.
fn dequantize<T: Element>(dtype: GgmlDType, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
    /// Blocks that one task converts.
    const BLOCKS: usize = 256;
    let chunk = BLOCKS * dtype.block_size();
    let mut out = vec![T::default(); bytes.len() / dtype.type_size() * dtype.block_size()];
    let outputs = out.par_chunks_mut(chunk);
    outputs.zip(bytes.par_chunks(BLOCKS * dtype.type_size())).try_for_each(|(out, bytes)| {
        match dtype.from_data(Cow::Borrowed(bytes)).dequantize(out.len())? {
            CpuStorage::F32(values) => out.iter_mut().zip(values).for_each(|(out, value)| *out = T::from_f32(value)),
            _ => return Err(LoadError::Compute("dequantised values are not float32".to_owned())),
        }
        Ok(())
    })?;
    Ok(out)
}

/// The types that are read, as they are shown.
fn dtype_name(dtype: GgmlDType) -> Option<&'static str> {
    match dtype {
        GgmlDType::F32 => Some("gguf F32"),
        GgmlDType::F16 => Some("gguf F16"),
        GgmlDType::BF16 => Some("gguf BF16"),
        GgmlDType::Q8_0 => Some("gguf Q8_0"),
        GgmlDType::Q4_0 => Some("gguf Q4_0"),
        GgmlDType::Q4_1 => Some("gguf Q4_1"),
        GgmlDType::Q4K => Some("gguf Q4_K"),
        GgmlDType::Q5K => Some("gguf Q5_K"),
        GgmlDType::Q6K => Some("gguf Q6_K"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_each_head_are_put_back_into_halves() {
        // Two heads of four rows of two values; the row's number is the value.
        let values: Vec<u32> = (0..8).flat_map(|row| [row, row]).collect();
        let rows: Vec<u32> = halves_from_neighbours(&values, 4, 2).chunks(2).map(|row| row[0]).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
