//! Tensors of a model's files.

use super::names::{inside, named_by_a_file};
use super::{Location, ModelFiles, other_formats, path_of};
use crate::error::LoadError;
use crate::formats::{TensorFiles, TensorFormat, Weights};
use std::fs;
use std::os::unix::fs::MetadataExt;

impl ModelFiles {
    /// The tensors of the model's files; `None` if they are on the hub and not known before the download, or if there is configuration
    /// alone.
    ///
    /// # Errors
    /// They are missing or malformed.
    pub(crate) fn weights(&self) -> Result<Option<Weights>, LoadError> {
        Ok(self.tensors("")?.map(Weights::Files))
    }

    /// The tensors of the files in a folder, which is empty for the top; `None` as for [`weights`](Self::weights).
    ///
    /// # Errors
    /// They are missing or malformed.
    pub(crate) fn tensors(&self, folder: &str) -> Result<Option<TensorFiles>, LoadError> {
        if let Some(remote) = &self.remote {
            let folder = if folder.is_empty() { &self.sub_model.folder } else { folder };
            return remote.heads.get(folder).map(|heads| TensorFiles::headers(heads)).transpose();
        }
        match folder {
            _ if self.is_bare(folder)? => Ok(None),
            "" => self.local_tensors().map(Some),
            folder => self.weights_in(folder).map(Some),
        }
    }

    fn local_tensors(&self) -> Result<TensorFiles, LoadError> {
        for format in TensorFormat::ALL {
            let (name, index) = (self.path(format.single()), format.index());
            if let Some(bytes) = self.bytes_at(&name)? {
                return TensorFiles::single(format, &name, bytes);
            }
            if let Some(json) = self.json(index)? {
                let open = |shard: &str| {
                    let shard = &inside(&self.sub_model.folder, shard);
                    if let Location::Directory(directory) = &self.location {
                        self.directories(directory, shard).try_for_each(|it| named_by_a_file(it, shard).map(drop))?;
                    }
                    self.bytes_at(shard)?.ok_or_else(|| self.missing(shard, &format!(", which {index} names")))
                };
                return TensorFiles::sharded(format, &format.weight_map(&json)?, open);
            }
        }
        Err(self.no_weights(""))
    }

    /// The tensors of a single file at the top, the first of these that exists.
    ///
    /// # Errors
    /// It is malformed.
    pub(crate) fn tensors_of(&self, names: &[(&str, TensorFormat)]) -> Result<Option<TensorFiles>, LoadError> {
        for (name, format) in names {
            let name = self.path(name);
            if let Some(bytes) = self.bytes_at(&name)? {
                return TensorFiles::single(*format, &name, bytes).map(Some);
            }
        }
        Ok(None)
    }

    /// `true` if the hub was asked for facts instead of the weights.
    pub(crate) fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// `true` if the tensors are on disk: the model is neither checked on the hub nor configuration alone. Not for GGUF files.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn has_tensors(&self) -> Result<bool, LoadError> {
        Ok(self.remote.is_none() && !self.is_bare("")?)
    }

    /// The tensors of the single file in a folder of the model.
    ///
    /// # Errors
    /// It is missing or malformed.
    pub(crate) fn weights_in(&self, folder: &str) -> Result<TensorFiles, LoadError> {
        for format in TensorFormat::ALL {
            let name = format!("{folder}/{}", format.single());
            if let Some(bytes) = self.bytes_at(&name)? {
                return TensorFiles::single(format, &name, bytes);
            }
        }
        Err(self.no_weights(&format!("{folder}/")))
    }

    /// Device and inode of the tensor file in a folder, which are equal for all links to it; `None` if it is not on disk.
    pub(crate) fn file_of_tensors(&self, folder: &str) -> Option<(u64, u64)> {
        let Location::Directory(directory) = &self.location else { return None };
        TensorFormat::ALL.into_iter().find_map(|format| {
            let file = fs::metadata(path_of(directory, &inside(folder, format.single())).ok()?).ok()?;
            Some((file.dev(), file.ino()))
        })
    }

    fn no_weights(&self, folder: &str) -> LoadError {
        let [preferred, other] = TensorFormat::ALL.map(TensorFormat::single);
        let inside = inside(&self.sub_model.folder, folder);
        let found = self.found(inside.trim_end_matches('/'));
        let hint = other_formats::hint(found.iter().map(String::as_str));
        self.missing(&format!("{folder}{preferred}"), &format!(" nor {other}{hint}"))
    }
}
