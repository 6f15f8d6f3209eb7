//! The zip archive that `torch.save` writes: its entries are stored as they are, so an entry is a range of the file, and nothing
//! is ever decompressed.
//!
//! The format is PKWARE's APPNOTE.TXT 6.3, sections 4.3.7 to 4.3.16 and 4.5.3.

use std::collections::HashMap;
use std::ops::Range;

/// Maximum bytes of the directory. An entry has about a hundred, and a model an entry for each tensor.
const MAX_DIRECTORY: usize = 8 << 20;

/// A length or offset that is in the extra field for large files.
const IN_EXTRA: u64 = u32::MAX as u64;

/// Entries of an archive by name.
pub(super) struct Archive<'a> {
    entries: HashMap<&'a str, Range<usize>>,
}

impl<'a> Archive<'a> {
    /// Reads the directory at the end of a file.
    ///
    /// # Errors
    /// It is malformed or too large, or an entry is compressed, encrypted or not within the file.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let directory = directory(bytes)?;
        if directory.len() > MAX_DIRECTORY {
            return Err(format!("its directory has {} bytes, at most {MAX_DIRECTORY} are read", directory.len()));
        }
        let mut entries = HashMap::new();
        let mut rest = directory;
        while !rest.is_empty() {
            let entry = Entry::read(rest).ok_or("an entry of its directory is malformed")?;
            let name = entry.name;
            if entry.is_encrypted || entry.method != 0 {
                return Err(format!(
                    "its entry {name:?} is compressed or encrypted; torch.save stores entries as they are"
                ));
            }
            let range = entry.range(bytes).ok_or_else(|| format!("its entry {name:?} is not within the file"))?;
            if entries.insert(name, range).is_some() {
                return Err(format!("its entry {name:?} occurs twice"));
            }
            rest = &rest[entry.length..];
        }
        Ok(Self { entries })
    }

    /// Place of an entry in the file.
    pub(super) fn entry(&self, name: &str) -> Option<Range<usize>> {
        self.entries.get(name).cloned()
    }

    /// The folder of the only entry `FOLDER/data.pkl`.
    pub(super) fn folder(&self) -> Option<&'a str> {
        let mut folders = self.entries.keys().filter_map(|name| name.strip_suffix("/data.pkl"));
        folders.next().filter(|_| folders.next().is_none())
    }
}

/// The bytes of the directory.
fn directory(bytes: &[u8]) -> Result<&[u8], String> {
    /// Bytes of the record at the end without its comment, and below the most that a comment has.
    const END: usize = 22;
    const COMMENT: usize = 0xFFFF;
    /// Bytes of the record that says where the one for large files is; it is before the one at the end.
    const LOCATOR: usize = 20;
    let first = bytes.len().saturating_sub(END + COMMENT);
    let last = bytes.len().checked_sub(END).ok_or("it is too short")?;
    let end = (first..=last)
        .rev()
        .find(|&at| bytes[at..].starts_with(b"PK\x05\x06"))
        .ok_or("it has no directory at its end")?;
    let (mut length, mut start) = (number(bytes, end + 12, 4), number(bytes, end + 16, 4));
    let locator = end.checked_sub(LOCATOR).filter(|&at| bytes[at..].starts_with(b"PK\x06\x07"));
    if let Some(large) = locator.and_then(|at| number(bytes, at + 8, 8)).and_then(|at| usize::try_from(at).ok())
        && bytes.get(large..).is_some_and(|record| record.starts_with(b"PK\x06\x06"))
    {
        (length, start) = (number(bytes, large + 40, 8), number(bytes, large + 48, 8));
    }
    let range = range(start, length).ok_or("the place of its directory is malformed")?;
    bytes.get(range).ok_or_else(|| "its directory is not within the file: is it whole?".to_owned())
}

/// An entry of the directory.
struct Entry<'a> {
    name: &'a str,
    method: u64,
    is_encrypted: bool,
    size: u64,
    /// Offset of the entry's own header.
    header: u64,
    /// Bytes in the directory.
    length: usize,
}

impl<'a> Entry<'a> {
    fn read(directory: &'a [u8]) -> Option<Self> {
        /// Bytes before the name.
        const FIXED: usize = 46;
        if !directory.starts_with(b"PK\x01\x02") {
            return None;
        }
        let field = |at, width| number(directory, at, width);
        let [name, extra, comment] = [field(28, 2)? as usize, field(30, 2)? as usize, field(32, 2)? as usize];
        let (name_end, extra_end) = (FIXED + name, FIXED + name + extra);
        let mut large = large_numbers(directory.get(name_end..extra_end)?);
        // In the order of the extra field, which has those alone that do not fit.
        let mut sizes = [field(24, 4)?, field(20, 4)?, field(42, 4)?];
        for size in sizes.iter_mut().filter(|size| **size == IN_EXTRA) {
            let (number, rest) = large.split_first_chunk()?;
            (*size, large) = (u64::from_le_bytes(*number), rest);
        }
        directory.get(..extra_end + comment)?;
        Some(Self {
            name: str::from_utf8(&directory[FIXED..name_end]).ok()?,
            method: field(10, 2)?,
            is_encrypted: field(8, 2)? & 1 == 1,
            size: sizes[0],
            header: sizes[2],
            length: extra_end + comment,
        })
    }

    /// Place of the content, after the entry's own header, whose extra field may differ from the directory's.
    fn range(&self, bytes: &[u8]) -> Option<Range<usize>> {
        /// Bytes before the name.
        const FIXED: usize = 30;
        let start = usize::try_from(self.header).ok()?;
        let header = bytes.get(start..)?;
        if !header.starts_with(b"PK\x03\x04") {
            return None;
        }
        let names = number(header, 26, 2)? + number(header, 28, 2)?;
        let content = range(self.header.checked_add(FIXED as u64 + names), Some(self.size))?;
        bytes.get(content.clone()).map(|_| content)
    }
}

/// The numbers of the extra field for large files; empty if there is none.
fn large_numbers(mut extra: &[u8]) -> &[u8] {
    while let (Some(id), Some(length)) = (number(extra, 0, 2), number(extra, 2, 2)) {
        let Some((field, rest)) = extra[4..].split_at_checked(length as usize) else { break };
        if id == 1 {
            return field;
        }
        extra = rest;
    }
    &[]
}

/// A little-endian number of `width <= 8` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let found = bytes.get(at..)?.get(..width)?;
    Some(found.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn range(start: Option<u64>, length: Option<u64>) -> Option<Range<usize>> {
    let start = usize::try_from(start?).ok()?;
    Some(start..start.checked_add(usize::try_from(length?).ok()?)?)
}
