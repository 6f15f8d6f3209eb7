//! Files of `torch.save`: `pytorch_model.bin`, in the zip archive of PyTorch 1.6 and later or the plain format before it.

mod archive;
mod global;
mod pickle;
mod state_dict;
#[cfg(test)]
pub(crate) mod testing;

use super::tensor::TensorHeader;
use crate::error::LoadError;
use archive::Archive;
use pickle::{Pickle, Value};
use state_dict::{storages, tensors};
use std::collections::HashMap;
use std::ops::Range;

/// Maximum bytes of a pickle. A tensor has about two hundred.
const MAX_PICKLE: usize = 2 << 20;

/// Maximum bytes of all tensors, as a multiple of the file's: some share a storage, such as tied embeddings.
const MAX_SHARING: usize = 4;

/// The pickle of PyTorch's magic number, with which files of the older format begin.
const MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// The version of the older format, the only one.
const PROTOCOL: i64 = 1001;

/// Reads the places of a file's tensors; nothing of the file is executed.
///
/// # Errors
/// The file is not whole, holds something else than a dict of tensors, or its pickle asks for more than tensors need.
pub(super) fn read_header(file: &str, bytes: &[u8]) -> Result<HashMap<String, TensorHeader>, LoadError> {
    let header = match bytes {
        _ if bytes.starts_with(b"PK\x03\x04") => of_archive(bytes),
        _ if bytes.starts_with(MAGIC) => of_older_format(bytes),
        _ => Err(format!("its {} bytes are neither a zip archive nor an older file of torch.save", bytes.len())),
    };
    let header =
        header.and_then(|header| match header.values().map(|tensor| tensor.bytes.len() as u128).sum::<u128>() {
            sum if sum <= (MAX_SHARING * bytes.len()) as u128 => Ok(header),
            sum => Err(format!("its tensors take {sum} bytes, the limit is {MAX_SHARING} times the file")),
        });
    header.map_err(|problem| LoadError::invalid(file, format!("not a readable file of tensors: {problem}")))
}

fn of_archive(bytes: &[u8]) -> Result<HashMap<String, TensorHeader>, String> {
    let archive = Archive::read(bytes)?;
    let folder = archive.folder().ok_or("it has no data.pkl, or several")?;
    let content = |name: &str| archive.entry(&format!("{folder}/{name}")).map(|range| &bytes[range]);
    if content("byteorder").is_some_and(|order| order != b"little") {
        return Err("its numbers are big-endian".to_owned());
    }
    let pickle = content("data.pkl").unwrap_or_default();
    if pickle.len() > MAX_PICKLE {
        return Err(format!("its data.pkl has {} bytes, at most {MAX_PICKLE} are read", pickle.len()));
    }
    tensors(&Pickle::read(pickle)?, |key| archive.entry(&format!("{folder}/data/{key}")))
}

/// Pickles of the magic number, the version, the system, the dict and the storages' keys; then the storages.
fn of_older_format(bytes: &[u8]) -> Result<HashMap<String, TensorHeader>, String> {
    let mut at = MAGIC.len();
    let mut next = || -> Result<Pickle<'_>, String> {
        let pickle = Pickle::read(&bytes[at..bytes.len().min(at + MAX_PICKLE)])?;
        at += pickle.length;
        Ok(pickle)
    };
    let version = next()?.root;
    if version != Value::Int(PROTOCOL) {
        return Err(format!("it has version {version:?} of the older format, only {PROTOCOL} is known"));
    }
    let system = next()?;
    if state_dict::entry(&system, "little_endian") != Some(Value::Bool(true)) {
        return Err("its numbers are big-endian".to_owned());
    }
    let (dict, keys) = (next()?, next()?);
    let places = places(bytes, at, &dict, &keys)?;
    tensors(&dict, |key| places.get(key).cloned())
}

/// Places of the storages, which follow one another in the order of their keys, each after its number of elements.
fn places<'a>(
    bytes: &[u8],
    mut at: usize,
    dict: &Pickle<'a>,
    keys: &Pickle<'a>,
) -> Result<HashMap<&'a str, Range<usize>>, String> {
    let sizes = storages(dict)?;
    let mut places = HashMap::new();
    for &key in keys.items(keys.root).ok_or("it has no list of storages")? {
        let Value::Text(key) = key else { return Err("the key of a storage is not a string".to_owned()) };
        let size = *sizes.get(key).ok_or_else(|| format!("no tensor says the type of storage {key:?}"))?;
        let count = bytes.get(at..).and_then(<[u8]>::first_chunk).map(|count| u64::from_le_bytes(*count));
        let start = at + size_of::<u64>();
        let length = count.and_then(|count| usize::try_from(count).ok()?.checked_mul(size));
        let end = length.and_then(|length| start.checked_add(length)).filter(|&end| end <= bytes.len());
        at = end.ok_or_else(|| format!("it ends within storage {key:?}: is it whole?"))?;
        places.insert(key, start..at);
    }
    Ok(places)
}

#[cfg(test)]
mod tests;
