//! Limits of what is downloaded for one model: of each file, and of all together.

use super::failure::Failure;
use crate::formats::TensorFormat;
use crate::formats::gguf::has_gguf_extension;
use crate::source::names::max_bytes;
use std::cell::Cell;
use std::path::Path;

/// Maximum number of downloaded files of one model; sharded models have up to some hundred.
const MAX_FILES: u64 = 2_000;
/// Maximum bytes of all files of one model except weights; the largest known total is about 50 MB.
const MAX_SMALL_BYTES: u64 = 256 << 20;
/// Maximum bytes of all tensor headers of one model, if only headers are read; a model with 10,000 tensors has a megabyte.
const MAX_HEADER_BYTES: u64 = 128 << 20;

/// Files and bytes that have been downloaded of one model.
#[derive(Default)]
pub(super) struct Spent {
    files: Cell<u64>,
    /// Bytes of the files that are not weights.
    small: Cell<u64>,
    /// Bytes of the headers of tensors.
    headers: Cell<u64>,
}

impl Spent {
    /// Counts a tensor header before it is read.
    ///
    /// # Errors
    /// The headers exceed the limit.
    pub(super) fn add_header(&self, bytes: u64) -> Result<(), Failure> {
        self.headers.set(self.headers.get().saturating_add(bytes));
        if self.headers.get() > MAX_HEADER_BYTES {
            let problem =
                format!("the tensor headers of the model exceed the limit of {MAX_HEADER_BYTES} bytes in all");
            return Err(Failure::Answer(problem));
        }
        self.add_file()
    }

    /// Counts a file before it is asked for.
    ///
    /// # Errors
    /// The files exceed the limit.
    pub(super) fn add_file(&self) -> Result<(), Failure> {
        self.files.set(self.files.get() + 1);
        if self.files.get() > MAX_FILES {
            Err(Failure::Answer(format!("the model needs more files than the limit of {MAX_FILES}")))
        } else {
            Ok(())
        }
    }

    /// Bytes that a file may have, by its kind, its stated size and the rest of the total limit.
    ///
    /// # Errors
    /// The stated size is larger, or weights have no stated size.
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

    /// Counts the bytes of a downloaded file.
    pub(super) fn add_bytes(&self, file: &str, bytes: u64) {
        if !is_weights(file) {
            self.small.set(self.small.get().saturating_add(bytes));
        }
    }
}

fn is_weights(file: &str) -> bool {
    TensorFormat::of_file(file).is_some() || has_gguf_extension(Path::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_files_and_small_files_have_sums() {
        let spent = Spent::default();
        (0..16).for_each(|_| spent.add_header(8 << 20).unwrap());
        let refused = spent.add_header(1).unwrap_err().to_string();
        assert_eq!(refused, "the tensor headers of the model exceed the limit of 134217728 bytes in all");
        let spent = Spent::default();
        (0..MAX_FILES).for_each(|_| spent.add_header(0).unwrap());
        assert!(spent.add_header(0).is_err() && spent.add_file().is_err());
        let spent = Spent::default();
        assert_eq!(spent.limit("config.json", None).unwrap(), 8 << 20);
        spent.add_bytes("model.safetensors", MAX_SMALL_BYTES);
        spent.add_bytes("config.json", MAX_SMALL_BYTES - 10);
        assert_eq!(spent.limit("config.json", None).unwrap(), 10);
        assert_eq!(spent.limit("config.json", Some(10)).unwrap(), 10);
        assert!(spent.limit("config.json", Some(11)).is_err());
    }
}
