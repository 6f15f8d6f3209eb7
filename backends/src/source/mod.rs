//! Sources of a model's files: a directory, a GGUF file, the hub, or the program itself.

pub(crate) mod hub;
pub(crate) mod licence;
pub(crate) mod modules;
pub(crate) mod names;
pub(crate) mod tokenizer_files;

use crate::disk::{self, FileBytes};
use crate::error::LoadError;
use crate::formats::gguf::{GgufFile, has_gguf_extension};
use crate::formats::{TensorFiles, TensorFormat, Weights};
use crate::json::parse_json;
use crate::options::{EmbeddedFile, LoadOptions, ModelSource};
use hub::FileSet;
use hub::inspect::{self, Remote};
use modules::ListFiles;
use names::{check_inside, inside, max_bytes, named_by_a_file};
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of one model.
#[derive(Debug)]
pub(crate) struct ModelFiles {
    location: Location,
    /// Present if the model is a GGUF file.
    gguf: Option<GgufFile>,
    /// Facts from the hub about a model whose weights were not downloaded.
    remote: Option<Remote>,
    /// The files are only checked, for which the configuration alone is enough.
    may_be_bare: bool,
    display_name: String,
    sub_model: SubFolder,
}

/// The sub-model whose files these are; most models have only one, with its files at the top.
#[derive(Debug, Clone, Default)]
struct SubFolder {
    index: usize,
    /// The folder that replaces the top folder; empty for the top itself.
    folder: String,
}

#[derive(Debug, Clone)]
enum Location {
    Directory(PathBuf),
    Embedded(&'static [EmbeddedFile]),
}

impl ModelFiles {
    /// Finds the files, and downloads those on the hub.
    ///
    /// # Errors
    /// They cannot be read, or contain no model.
    pub(crate) fn open(options: &LoadOptions, files: FileSet) -> Result<Self, LoadError> {
        match &options.source {
            ModelSource::Embedded(files) => Ok(Self {
                location: Location::Embedded(files),
                gguf: None,
                remote: None,
                may_be_bare: false,
                display_name: "the built-in model".to_owned(),
                sub_model: SubFolder::default(),
            }),
            ModelSource::Path(path) => Self::open_path(path, path.display().to_string()),
            ModelSource::Hub(model) => {
                let snapshot = hub::download(model, options.dense_path.as_deref(), files)?;
                Self::open_path(&snapshot, format!("{} at {}", model.id, snapshot.display()))
            }
        }
    }

    /// Finds the files for a check. Of a model on the hub, only tensor headers are downloaded instead of weights. A local folder may
    /// have neither tensors nor a tokenizer.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub(crate) fn inspect(options: &LoadOptions) -> Result<Self, LoadError> {
        let ModelSource::Hub(model) = &options.source else {
            return Ok(Self { may_be_bare: true, ..Self::open(options, FileSet::All)? });
        };
        let (snapshot, remote) = inspect::inspect(model, options.dense_path.as_deref())?;
        let files = Self::open_path(&snapshot, format!("{} at {}", model.id, snapshot.display()))?;
        Ok(Self { remote, ..files })
    }

    /// The licence that the hub names.
    pub(crate) fn licence(&self) -> Option<&str> {
        self.remote.as_ref()?.licence.as_deref()
    }

    fn open_path(path: &Path, display_name: String) -> Result<Self, LoadError> {
        let metadata = fs::metadata(path).map_err(|error| LoadError::io(path.display().to_string(), error))?;
        if metadata.is_dir() {
            let gguf = if path.join("config.json").exists() {
                None
            } else {
                only_gguf(path)?.map(|file| GgufFile::open(&file)).transpose()?
            };
            return Ok(Self {
                location: Location::Directory(path.to_owned()),
                gguf,
                remote: None,
                may_be_bare: false,
                display_name,
                sub_model: SubFolder::default(),
            });
        }
        if !has_gguf_extension(path) {
            let problem = "is neither a directory nor a .gguf file";
            return Err(LoadError::invalid(path.display().to_string(), problem));
        }
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let gguf = Some(GgufFile::open(path)?);
        Ok(Self {
            location: Location::Directory(directory),
            gguf,
            remote: None,
            may_be_bare: false,
            display_name,
            sub_model: SubFolder::default(),
        })
    }

    /// The files of a sub-model; `folder` replaces the top folder. Several sub-models may have the same folder.
    pub(crate) fn of_sub_model(&self, index: usize, folder: &str) -> Self {
        Self {
            location: self.location.clone(),
            gguf: None,
            remote: self.remote.clone(),
            may_be_bare: self.may_be_bare,
            display_name: self.display_name.clone(),
            sub_model: SubFolder { index, folder: folder.to_owned() },
        }
    }

    /// The folder that replaces the top folder; empty for the top itself.
    pub(crate) fn folder(&self) -> &str {
        &self.sub_model.folder
    }

    /// Index of the sub-model whose files these are.
    pub(crate) fn sub_model(&self) -> usize {
        self.sub_model.index
    }

    /// Path of a file relative to the model's folder. A name that contains a folder is already relative to it.
    fn path(&self, name: &str) -> String {
        if name.contains('/') { name.to_owned() } else { inside(&self.sub_model.folder, name) }
    }

    /// `true` for a model that is only checked and has configuration alone: neither tensors nor a tokenizer in `folder`, which is empty
    /// for the top. Not for GGUF files.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn is_bare(&self, folder: &str) -> Result<bool, LoadError> {
        // A missing folder is not bare: its name may be wrong.
        let folder = if folder.is_empty() { &self.sub_model.folder } else { folder };
        if !folder.is_empty() && self.may_be_bare && !self.has(folder)? {
            return Ok(false);
        }
        let tensors = TensorFormat::ALL.into_iter().flat_map(|format| [format.single(), format.index()]);
        for name in tensors.chain(tokenizer_files::all()).filter(|_| self.may_be_bare) {
            if self.has(&inside(folder, name))? {
                return Ok(false);
            }
        }
        Ok(self.may_be_bare)
    }

    /// `true` if the model is a GGUF file that has not been taken.
    pub(crate) fn has_gguf(&self) -> bool {
        self.gguf.is_some()
    }

    /// Name of the model in messages.
    pub(crate) fn display_name(&self) -> String {
        self.display_name.clone()
    }

    /// Takes the GGUF file out.
    pub(crate) fn take_gguf(&mut self) -> Option<GgufFile> {
        self.gguf.take()
    }

    /// A file's content; `None` if there is no such file. `name` may contain folders inside the model's folder.
    ///
    /// # Errors
    /// It cannot be read, or is above its size limit.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        self.read_at(&self.path(name))
    }

    /// The content of a file by its path from the model's folder.
    fn read_at(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        match &self.location {
            Location::Embedded(files) => {
                Ok(files.iter().find(|file| file.name == name).map(|file| Cow::Borrowed(file.bytes)))
            }
            Location::Directory(directory) => {
                let bytes = disk::read(&path_of(directory, name)?, max_bytes(name))?;
                Ok(bytes.map(Cow::Owned))
            }
        }
    }

    /// A JSON file; `None` if there is no such file.
    ///
    /// # Errors
    /// It cannot be read, or is not JSON.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Value>, LoadError> {
        self.json_at(&self.path(name))
    }

    /// A JSON file by its path from the model's folder, which all sub-models share.
    ///
    /// # Errors
    /// It cannot be read, or is not JSON.
    pub(crate) fn json_at(&self, path: &str) -> Result<Option<Value>, LoadError> {
        let Some(bytes) = self.read_at(path)? else { return Ok(None) };
        parse_json(path, &bytes).map(Some)
    }

    /// An error about a missing file.
    pub(crate) fn missing(&self, file: &str, hint: &str) -> LoadError {
        LoadError::MissingFile { location: self.display_name(), file: self.path(file), hint: hint.to_owned() }
    }

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
                        named_by_a_file(directory, shard)?;
                    }
                    self.bytes_at(shard)?.ok_or_else(|| self.missing(shard, &format!(", which {index} names")))
                };
                return TensorFiles::sharded(format, &format.weight_map(&json)?, open);
            }
        }
        Err(self.no_weights(""))
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
        self.missing(&format!("{folder}{preferred}"), &format!(" nor {other}"))
    }

    /// `true` if there is such a file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn exists(&self, name: &str) -> Result<bool, LoadError> {
        self.has(&self.path(name))
    }

    /// `true` if there is a file at this path from the model's folder.
    fn has(&self, path: &str) -> Result<bool, LoadError> {
        Ok(match &self.location {
            Location::Embedded(files) => files.iter().any(|file| file.name == path),
            Location::Directory(directory) => {
                let path = path_of(directory, path)?;
                path.try_exists().map_err(|error| LoadError::io(path.display().to_string(), error))?
            }
        })
    }

    /// Content of a large file by its path from the model's folder, mapped if it is on disk.
    fn bytes_at(&self, name: &str) -> Result<Option<FileBytes>, LoadError> {
        match &self.location {
            Location::Embedded(files) => {
                Ok(files.iter().find(|file| file.name == name).map(|file| FileBytes::Static(file.bytes)))
            }
            Location::Directory(directory) => FileBytes::map(&path_of(directory, name)?),
        }
    }
}

impl ListFiles for ModelFiles {
    fn bytes(&self, path: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        self.read_at(path)
    }

    fn not_there(&self, path: &str) -> LoadError {
        LoadError::MissingFile { location: self.display_name(), file: path.to_owned(), hint: String::new() }
    }
}

/// Path of a file in the model's folder. The operator may link files at the top of the folder to another place; a path with folders comes
/// from the model's own files, and its links may not leave the folder.
fn path_of(directory: &Path, name: &str) -> Result<PathBuf, LoadError> {
    match Path::new(name).components().count() {
        0 | 1 => Ok(directory.join(check_inside(name)?)),
        _ => named_by_a_file(directory, name),
    }
}

/// The only GGUF file of a directory; `None` if there is none.
fn only_gguf(directory: &Path) -> Result<Option<PathBuf>, LoadError> {
    let failed = |error| LoadError::io(directory.display().to_string(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if has_gguf_extension(&path) {
            found.push(path);
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        n => {
            let problem = format!("has {n} .gguf files and no config.json; give the path of one of them");
            Err(LoadError::invalid(directory.display().to_string(), problem))
        }
    }
}
