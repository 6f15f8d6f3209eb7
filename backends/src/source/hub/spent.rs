//! Limits of what is downloaded for one model: of each file, and of all together.

use super::failure::Failure;
use crate::formats::TensorFormat;
use crate::formats::gguf::has_gguf_extension;
use crate::source::names::max_bytes;
use std::cell::Cell;
use std::path::Path;

/// Files of one model that are downloaded; those in shards have up to some hundred.
const MAX_FILES: u64 = 2_000;
/// Bytes of all files of one model that are not weights; the largest known have about 50 MB together.
const MAX_SMALL_BYTES: u64 = 256 << 20;
/// Bytes of all headers of one model's tensors, where those alone are read; a model with 10,000 tensors has a megabyte.
const MAX_HEADER_BYTES: u64 = 128 << 20;

/// What has been downloaded of one model.
#[derive(Default)]
pub(super) struct Spent {
    files: Cell<u64>,
    /// Bytes of the files that are not weights.
    small: Cell<u64>,
    /// Bytes of the headers of tensors.
    headers: Cell<u64>,
}

impl Spent {
    /// Counts a header of tensors before it is read.
    ///
    /// # Errors
    /// It is too much with those before.
    pub(super) fn add_header(&self, bytes: u64) -> Result<(), Failure> {
        self.headers.set(self.headers.get().saturating_add(bytes));
        match self.headers.get() > MAX_HEADER_BYTES {
            true => Err(Failure::Answer(format!(
                "the tensor headers of the model exceed the limit of {MAX_HEADER_BYTES} bytes in all"
            ))),
            false => self.add_file(),
        }
    }

    /// Counts a file before it is asked for.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn add_file(&self) -> Result<(), Failure> {
        self.files.set(self.files.get() + 1);
        match self.files.get() > MAX_FILES {
            true => Err(Failure::Answer(format!("the model needs more files than the limit of {MAX_FILES}"))),
            false => Ok(()),
        }
    }

    /// Bytes that a file may have, by its kind, its stated size and what is left of the sum.
    ///
    /// # Errors
    /// It is stated to have more, or those of weights are not stated.
    pub(super) fn limit(&self, file: &str, size: Option<u64>) -> Result<u64, Failure> {
        if is_weights(file) {
            return size.ok_or_else(|| {
                Failure::Answer(
                    "the hub does not state its size, so nothing would limit the download; make the mirror send Content-Length, or download \
                     the model with another tool and start with --offline".to_owned(),
                )
            });
        }
        let (most, left) = (max_bytes(file), MAX_SMALL_BYTES.saturating_sub(self.small.get()));
        match size {
            Some(size) if size > most => Err(Failure::TooLong(most)),
            Some(size) if size > left => Err(Failure::Answer(format!(
                "with its {size} bytes, the files other than weights exceed the limit of {MAX_SMALL_BYTES} bytes in all"
            ))),
            Some(size) => Ok(size),
            None => Ok(most.min(left)),
        }
    }

    /// Counts the bytes of a file that came.
    pub(super) fn add_bytes(&self, file: &str, bytes: u64) {
        if !is_weights(file) {
            self.small.set(self.small.get().saturating_add(bytes));
        }
    }
}

fn is_weights(file: &str) -> bool {
    TensorFormat::of_file(file).is_some() || has_gguf_extension(Path::new(file))
}
