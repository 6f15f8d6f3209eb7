//! Check of a GGUF file's header before it is read: the library's reader trusts the header, and its errors name no entry.

use std::collections::HashSet;

/// Maximum values in all arrays together. A vocabulary of 256,000 tokens with types, scores and merges has a million.
const MAX_ARRAY_VALUES: u64 = 1 << 23;

/// Bytes of memory that the reader takes for a value of an array: a slot of a list with spare capacity, and an allocation.
const VALUE_BYTES: u64 = 72;

/// Maximum bytes of the header, which the reader copies. The largest known, with 262,000 tokens, have about 10 MB.
const MAX_BYTES: usize = 64 << 20;

/// Maximum tensors and metadata entries. The largest models have a few thousand tensors and a few dozen entries.
const MAX_TENSORS: u64 = 100_000;
const MAX_ENTRIES: u64 = 100_000;

/// Maximum depth of nested arrays; real files have none.
const MAX_DEPTH: usize = 4;

/// Values for which a nested array counts: a list has memory for four at least.
const NESTED: u64 = 4;

/// Maximum bytes of a key or tensor name; the format's limit for keys.
const MAX_NAME_BYTES: u64 = (1 << 16) - 1;

const MAX_DIMENSIONS: u32 = 4;

/// Types of values without a fixed size.
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The key whose value the reader uses as a divisor.
const ALIGNMENT: &[u8] = b"general.alignment";

/// Checks that a header is complete and that its size bounds the memory to read it, and returns the bytes of its arrays in memory.
///
/// # Errors
/// Describes the fault and names its entry.
pub(crate) fn check(bytes: &[u8]) -> Result<u64, String> {
    let Some(rest) = bytes.strip_prefix(b"GGUF") else {
        return Err("it does not begin with \"GGUF\"".to_owned());
    };
    let mut header = Header { rest: &rest[..rest.len().min(MAX_BYTES)], version: 0, array_values: 0 };
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
    let mut keys = HashSet::new();
    for i in 0..entries {
        let key = header.name().map_err(|problem| format!("key {i} of {entries} of the metadata {problem}"))?;
        let shown = String::from_utf8_lossy(key);
        if !keys.insert(key) {
            return Err(format!("metadata `{shown}` occurs twice"));
        }
        let value = header.entry(key);
        value.map_err(|problem| format!("metadata `{shown}` (entry {i} of {entries}) {problem}"))?;
    }
    let mut names = HashSet::new();
    for i in 0..tensors {
        let name = header.name().map_err(|problem| format!("the name of tensor {i} of {tensors} {problem}"))?;
        let shown = String::from_utf8_lossy(name);
        if !names.insert(name) {
            return Err(format!("tensor `{shown}` occurs twice"));
        }
        header.tensor().map_err(|problem| format!("tensor `{shown}` (entry {i} of {tensors}) {problem}"))?;
    }
    Ok(header.array_values * VALUE_BYTES)
}

/// Description of an entry that is cut off.
const ENDS: &str = "extends beyond the end of the file, or beyond 64 MiB, the limit of a header";

/// The unchecked rest of a header.
struct Header<'a> {
    rest: &'a [u8],
    version: u32,
    /// Values in all arrays so far.
    array_values: u64,
}

impl<'a> Header<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().map(u32::from_le_bytes).ok()
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().map(u64::from_le_bytes).ok()
    }

    /// A count, which has half as many bytes in version 1.
    fn length(&mut self) -> Option<u64> {
        if self.version == 1 { self.u32().map(u64::from) } else { self.u64() }
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// A key or tensor name without trailing zeros, as the reader takes it.
    fn name(&mut self) -> Result<&'a [u8], String> {
        let length = self.length().ok_or(ENDS)?;
        if length > MAX_NAME_BYTES {
            return Err(format!("has {length} bytes, more than {MAX_NAME_BYTES}"));
        }
        let name = self.take(length).ok_or(ENDS)?;
        Ok(name.iter().rposition(|&byte| byte != 0).map_or(&[], |last| &name[..=last]))
    }

    fn entry(&mut self, key: &[u8]) -> Result<(), String> {
        let kind = self.u32().ok_or(ENDS)?;
        if key != ALIGNMENT {
            return self.value(kind, 0);
        }

        /// The type that the format prescribes.
        const U32: u32 = 4;
        match (kind, self.u32()) {
            (U32, Some(alignment)) if alignment.is_power_of_two() => Ok(()),
            (U32, Some(alignment)) => Err(format!("must be a power of two, it is {alignment}")),
            (U32, None) => Err(ENDS.to_owned()),
            (kind, _) => Err(format!("must be a whole number of 32 bits, it is of type {kind}")),
        }
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<(), String> {
        if kind == STRING {
            return self.string().map(drop).ok_or_else(|| ENDS.to_owned());
        }
        if kind != ARRAY {
            let size = fixed_size(kind)?;
            return self.take(size).map(drop).ok_or_else(|| ENDS.to_owned());
        }
        if depth == MAX_DEPTH {
            return Err(format!("has arrays nested more than {MAX_DEPTH} deep"));
        }
        let (kind, length) = self.u32().zip(self.length()).ok_or(ENDS)?;
        let own = if depth > 0 { NESTED } else { 0 };
        self.array_values = self.array_values.saturating_add(own).saturating_add(length);
        if self.array_values > MAX_ARRAY_VALUES {
            return Err(format!("has {length} values; the limit is {MAX_ARRAY_VALUES} in all arrays together"));
        }
        match kind {
            STRING | ARRAY => (0..length).try_for_each(|_| self.value(kind, depth + 1)),
            // At most 8 bytes each, of a bounded number.
            kind => self.take(length * fixed_size(kind)?).map(drop).ok_or_else(|| ENDS.to_owned()),
        }
    }

    fn tensor(&mut self) -> Result<(), String> {
        let dimensions = self.u32().ok_or(ENDS)?;
        if dimensions > MAX_DIMENSIONS {
            return Err(format!("has {dimensions} dimensions, more than {MAX_DIMENSIONS}"));
        }
        for _ in 0..dimensions {
            self.length().ok_or(ENDS)?;
        }
        let kind = self.u32().ok_or(ENDS)?;
        if !is_known(kind) {
            return Err(format!("is of type {kind}, which is not known"));
        }
        self.u64().map(drop).ok_or_else(|| ENDS.to_owned())
    }
}

/// Bytes of a value of a type.
fn fixed_size(kind: u32) -> Result<u64, String> {
    match kind {
        // 8 bits and booleans.
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(format!("is of type {kind}, which is not known")),
    }
}

/// `true` if the reader knows this type of tensor.
fn is_known(kind: u32) -> bool {
    matches!(kind, 0..=3 | 6..=15 | 30)
}
