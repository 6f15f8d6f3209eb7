//! The header of a GGUF file, whose size bounds the memory to read it; an error names the entry at fault.

use super::blocks::BlockType;
use crate::memory_budget;
use candle_core::quantized::gguf_file::Value;
use std::collections::HashMap;

/// Maximum values in all arrays together. A vocabulary of 256,000 tokens with types, scores and merges has a million.
const MAX_ARRAY_VALUES: u64 = 1 << 23;

/// Bytes of memory for a value of an array: a slot of a list, and an allocation.
const VALUE_BYTES: u64 = 72;

/// Maximum bytes of the header. The largest known, with 262,000 tokens, have about 10 MB.
const MAX_BYTES: usize = 64 << 20;

/// Maximum tensors and metadata entries. The largest models have a few thousand tensors and a few dozen entries.
const MAX_TENSORS: u64 = 100_000;
const MAX_ENTRIES: u64 = 100_000;

/// Maximum depth of nested arrays; real files have none.
const MAX_DEPTH: usize = 4;

/// Values of arrays whose memory is checked together.
const CHECKED_TOGETHER: u64 = 1 << 16;

/// Values for which a nested array counts, for the memory of its list.
const NESTED: u64 = 4;

/// Maximum bytes of a key or tensor name; the format's limit for keys.
const MAX_NAME_BYTES: u64 = (1 << 16) - 1;

const MAX_DIMENSIONS: u32 = 4;

/// Types of values without a fixed size.
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The key of the alignment of the tensors' data, and its default.
const ALIGNMENT: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u32 = 32;

/// Content of a header.
pub(super) struct Content {
    pub(super) metadata: HashMap<String, Value>,
    pub(super) tensors: HashMap<String, TensorInfo>,
    /// Offset of the tensors' data in the file.
    pub(super) data_offset: u64,
}

/// Type, shape and place of a tensor.
pub(crate) struct TensorInfo {
    pub(super) kind: BlockType,
    /// Of a matrix: rows, then values of a row.
    pub(super) shape: Vec<usize>,
    /// From the start of the tensors' data.
    pub(super) offset: u64,
}

/// Reads a header.
///
/// # Errors
/// Describes the fault and names its entry.
pub(super) fn read(bytes: &[u8]) -> Result<Content, String> {
    let Some(rest) = bytes.strip_prefix(b"GGUF") else {
        return Err("it does not begin with \"GGUF\"".to_owned());
    };
    let mut header =
        Header { rest: &rest[..rest.len().min(MAX_BYTES)], version: 0, array_values: 0, checked_values: 0 };
    header.version = header.u32().ok_or("it ends within its first fields")?;
    if !(1..=3).contains(&header.version) {
        return Err(format!("version {} of the format is not known (1, 2, 3)", header.version));
    }
    let counts = header.length().zip(header.length());
    let (tensors, entries) = counts.ok_or("it ends within its first fields")?;
    // The minimum of an entry: lengths of names, types, places, a value.
    let least = entries.saturating_mul(4 + 4 + 1).saturating_add(tensors.saturating_mul(4 + 4 + 4 + 8));
    if least > header.rest.len() as u64 {
        return Err(format!(
            "it is too short for the {entries} entries of metadata and {tensors} tensors that it announces"
        ));
    }
    for (what, count, limit) in [("entries of metadata", entries, MAX_ENTRIES), ("tensors", tensors, MAX_TENSORS)] {
        if count > limit {
            return Err(format!("it announces {count} {what}, the limit is {limit}"));
        }
    }
    let (metadata, tensors) = (header.entries(entries)?, header.tensors(tensors)?);
    let alignment = match metadata.get(ALIGNMENT) {
        Some(&Value::U32(alignment)) => alignment,
        _ => DEFAULT_ALIGNMENT,
    };
    let end = (bytes.len().min(MAX_BYTES + b"GGUF".len()) - header.rest.len()) as u64;
    Ok(Content { metadata, tensors, data_offset: end.next_multiple_of(alignment.into()) })
}

/// Description of an entry that is cut off.
const ENDS: &str = "extends beyond the end of the file, or beyond 64 MiB, the limit of a header";

/// The unread rest of a header.
struct Header<'a> {
    rest: &'a [u8],
    version: u32,
    /// Values in all arrays so far, and those for which memory was checked.
    array_values: u64,
    checked_values: u64,
}

impl<'a> Header<'a> {
    fn entries(&mut self, count: u64) -> Result<HashMap<String, Value>, String> {
        let mut entries = HashMap::new();
        for i in 0..count {
            let key = self.name().map_err(|problem| format!("key {i} of {count} of the metadata {problem}"))?;
            if entries.contains_key(&key) {
                return Err(format!("metadata `{key}` occurs twice"));
            }
            let value = self.entry(&key);
            let value = value.map_err(|problem| format!("metadata `{key}` (entry {i} of {count}) {problem}"))?;
            entries.insert(key, value);
        }
        Ok(entries)
    }

    fn tensors(&mut self, count: u64) -> Result<HashMap<String, TensorInfo>, String> {
        let mut tensors = HashMap::new();
        for i in 0..count {
            let name = self.name().map_err(|problem| format!("the name of tensor {i} of {count} {problem}"))?;
            if tensors.contains_key(&name) {
                return Err(format!("tensor `{name}` occurs twice"));
            }
            let info = self.tensor();
            let info = info.map_err(|problem| format!("tensor `{name}` (entry {i} of {count}) {problem}"))?;
            tensors.insert(name, info);
        }
        Ok(tensors)
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N as u64)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number().map(u64::from_le_bytes)
    }

    /// A count, which has half as many bytes in version 1.
    fn length(&mut self) -> Option<u64> {
        if self.version == 1 { self.u32().map(u64::from) } else { self.u64() }
    }

    /// A text without trailing zeros, which some files have. Files with invalid UTF-8 exist.
    fn text(&mut self, length: u64) -> Option<String> {
        let bytes = self.take(length)?;
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// A key or tensor name.
    fn name(&mut self) -> Result<String, String> {
        let length = self.length().ok_or(ENDS)?;
        if length > MAX_NAME_BYTES {
            return Err(format!("has {length} bytes, more than {MAX_NAME_BYTES}"));
        }
        self.text(length).ok_or_else(|| ENDS.to_owned())
    }

    fn entry(&mut self, key: &str) -> Result<Value, String> {
        let kind = self.u32().ok_or(ENDS)?;
        if key != ALIGNMENT {
            return self.value(kind, 0);
        }

        /// The type that the format prescribes.
        const U32: u32 = 4;
        match (kind, self.u32()) {
            (U32, Some(alignment)) if alignment.is_power_of_two() => Ok(Value::U32(alignment)),
            (U32, Some(alignment)) => Err(format!("must be a power of two, it is {alignment}")),
            (U32, None) => Err(ENDS.to_owned()),
            (kind, _) => Err(format!("must be a whole number of 32 bits, it is of type {kind}")),
        }
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, String> {
        match kind {
            STRING => {
                let text = self.length().and_then(|length| self.text(length));
                text.map(Value::String).ok_or_else(|| ENDS.to_owned())
            }
            ARRAY => self.array(depth),
            kind => self.scalar(kind)?.ok_or_else(|| ENDS.to_owned()),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        if depth == MAX_DEPTH {
            return Err(format!("has arrays nested more than {MAX_DEPTH} deep"));
        }
        let (kind, length) = self.u32().zip(self.length()).ok_or(ENDS)?;
        let own = if depth > 0 { NESTED } else { 0 };
        self.array_values = self.array_values.saturating_add(own).saturating_add(length);
        if self.array_values > MAX_ARRAY_VALUES {
            return Err(format!("has {length} values; the limit is {MAX_ARRAY_VALUES} in all arrays together"));
        }
        // The check asks the system, which takes longer than reading a small array.
        if self.array_values - self.checked_values >= CHECKED_TOGETHER {
            memory_budget::check(self.array_values * VALUE_BYTES)
                .map_err(|problem| format!("is in arrays that all together {problem}"))?;
            self.checked_values = self.array_values;
        }
        (0..length).map(|_| self.value(kind, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
    }

    /// A value of a fixed size; `None` if the header ends in it.
    fn scalar(&mut self, kind: u32) -> Result<Option<Value>, String> {
        let value = match kind {
            0 => self.number().map(u8::from_le_bytes).map(Value::U8),
            1 => self.number().map(i8::from_le_bytes).map(Value::I8),
            2 => self.number().map(u16::from_le_bytes).map(Value::U16),
            3 => self.number().map(i16::from_le_bytes).map(Value::I16),
            4 => self.u32().map(Value::U32),
            5 => self.number().map(i32::from_le_bytes).map(Value::I32),
            6 => self.number().map(f32::from_le_bytes).map(Value::F32),
            BOOL => match self.number::<1>() {
                Some([byte @ 0..=1]) => Some(Value::Bool(byte == 1)),
                Some([byte]) => return Err(format!("has the boolean {byte}, it must be 0 or 1")),
                None => None,
            },
            10 => self.u64().map(Value::U64),
            11 => self.number().map(i64::from_le_bytes).map(Value::I64),
            12 => self.number().map(f64::from_le_bytes).map(Value::F64),
            _ => return Err(format!("is of type {kind}, which is not known")),
        };
        Ok(value)
    }

    fn tensor(&mut self) -> Result<TensorInfo, String> {
        let dimensions = self.u32().ok_or(ENDS)?;
        if dimensions > MAX_DIMENSIONS {
            return Err(format!("has {dimensions} dimensions, more than {MAX_DIMENSIONS}"));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(usize::try_from(self.length().ok_or(ENDS)?).unwrap_or(usize::MAX));
        }
        // The format has the length of a row first.
        shape.reverse();
        let kind = BlockType::of(self.u32().ok_or(ENDS)?)?;
        Ok(TensorInfo { kind, shape, offset: self.u64().ok_or(ENDS)? })
    }
}

/// Type of a boolean.
const BOOL: u32 = 7;
