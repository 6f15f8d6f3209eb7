//! Sources of a model's files: a directory, a GGUF file, the hub, or the program itself.

pub(crate) mod hub;
pub(crate) mod licence;
pub(crate) mod names;
pub(crate) mod tokenizer_files;

use crate::LoadError;
use crate::disk::{self, FileBytes};
use crate::formats::gguf::{GgufFile, has_gguf_extension};
use crate::formats::{TensorFiles, TensorFormat, Weights};
use crate::json::parse_json;
use crate::options::{EmbeddedFile, LoadOptions, ModelSource};
use hub::FileSet;
use hub::inspect::{self, Remote};
use names::{check_inside, inside, max_bytes, named_by_a_file};
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one model.
#[derive(Debug)]
pub(crate) struct ModelFiles {
    location: Location,
    /// Present if the model is a GGUF file.
    gguf: Option<GgufFile>,
    /// What the hub told of a model whose weights were not downloaded.
    remote: Option<Remote>,
    /// A folder that is only checked, for which configuration alone is enough.
    may_be_bare: bool,
    display_name: String,
}

#[derive(Debug)]
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
            }),
            ModelSource::Path(path) => Self::open_path(path, path.display().to_string()),
            ModelSource::Hub(model) => {
                let snapshot = hub::download(model, options.dense_path.as_deref(), files)?;
                Self::open_path(&snapshot, format!("{} at {}", model.id, snapshot.display()))
            }
        }
    }

    /// The same without weights: of a model on the hub, the headers of its tensors take their place. A folder may have neither
    /// tensors nor a tokenizer.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
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
            let gguf = match path.join("config.json").exists() {
                true => None,
                false => only_gguf(path)?.map(|file| GgufFile::open(&file)).transpose()?,
            };
            return Ok(Self {
                location: Location::Directory(path.to_owned()),
                gguf,
                remote: None,
                may_be_bare: false,
                display_name,
            });
        }
        if !has_gguf_extension(path) {
            let problem = "is neither a directory nor a .gguf file";
            return Err(LoadError::invalid(path.display().to_string(), problem));
        }
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let gguf = Some(GgufFile::open(path)?);
        Ok(Self { location: Location::Directory(directory), gguf, remote: None, may_be_bare: false, display_name })
    }

    /// `true` for a model that is only checked and has configuration alone: neither a file of tensors nor one of a tokenizer where they
    /// would be, in a folder that is empty for the top. Not meant for a GGUF file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn is_bare(&self, folder: &str) -> Result<bool, LoadError> {
        // A folder that is not there is named wrongly: the files may be in another.
        if !folder.is_empty() && self.may_be_bare && !self.exists(folder)? {
            return Ok(false);
        }
        let tensors = TensorFormat::ALL.into_iter().flat_map(|format| [format.single(), format.index()]);
        for name in tensors.chain(tokenizer_files::all()).filter(|_| self.may_be_bare) {
            if self.exists(&inside(folder, name))? {
                return Ok(false);
            }
        }
        Ok(self.may_be_bare)
    }

    /// `true` if the model is a GGUF file that was not taken yet.
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
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        parse_json(name, &bytes).map(Some)
    }

    /// An error about a missing file.
    pub(crate) fn missing(&self, file: &str, hint: &str) -> LoadError {
        LoadError::MissingFile { location: self.display_name(), file: file.to_owned(), hint: hint.to_owned() }
    }

    /// The tensors of the model's files; `None` where those of a model on the hub are not known before the download, or where
    /// there is configuration alone.
    ///
    /// # Errors
    /// They are missing or malformed.
    pub(crate) fn weights(&mut self) -> Result<Option<Weights>, LoadError> {
        Ok(self.tensors("")?.map(Weights::Files))
    }

    /// The same of a model whose files are in a folder, which is empty for those at the top.
    ///
    /// # Errors
    /// They are missing or malformed.
    pub(crate) fn tensors(&mut self, folder: &str) -> Result<Option<TensorFiles>, LoadError> {
        if let Some(remote) = self.remote.as_mut() {
            return Ok(remote.headers.take());
        }
        match folder {
            _ if self.is_bare(folder)? => Ok(None),
            "" => self.local_tensors().map(Some),
            folder => self.weights_in(folder).map(Some),
        }
    }

    fn local_tensors(&self) -> Result<TensorFiles, LoadError> {
        for format in TensorFormat::ALL {
            let (name, index) = (format.single(), format.index());
            if let Some(bytes) = self.bytes(name)? {
                return TensorFiles::single(format, name, bytes);
            }
            if let Some(json) = self.json(index)? {
                let open = |shard: &str| {
                    if let Location::Directory(directory) = &self.location {
                        named_by_a_file(directory, shard)?;
                    }
                    self.bytes(shard)?.ok_or_else(|| self.missing(shard, &format!(", which {index} names")))
                };
                return TensorFiles::sharded(format, &format.weight_map(&json)?, open);
            }
        }
        Err(self.no_weights(""))
    }

    /// `true` if the tensors are here: the model is neither checked on the hub nor configuration alone. Not meant for a GGUF file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn has_tensors(&self) -> Result<bool, LoadError> {
        Ok(self.remote.is_none() && !self.is_bare("")?)
    }

    /// The tensors of one file in a folder of the model.
    ///
    /// # Errors
    /// It is missing or malformed.
    pub(crate) fn weights_in(&self, folder: &str) -> Result<TensorFiles, LoadError> {
        for format in TensorFormat::ALL {
            let name = format!("{folder}/{}", format.single());
            if let Some(bytes) = self.bytes(&name)? {
                return TensorFiles::single(format, &name, bytes);
            }
        }
        Err(self.no_weights(&format!("{folder}/")))
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
        Ok(match &self.location {
            Location::Embedded(files) => files.iter().any(|file| file.name == name),
            Location::Directory(directory) => {
                let path = path_of(directory, name)?;
                path.try_exists().map_err(|error| LoadError::io(path.display().to_string(), error))?
            }
        })
    }

    /// Content of a large file, mapped if it is on disk.
    fn bytes(&self, name: &str) -> Result<Option<FileBytes>, LoadError> {
        match &self.location {
            Location::Embedded(files) => {
                Ok(files.iter().find(|file| file.name == name).map(|file| FileBytes::Static(file.bytes)))
            }
            Location::Directory(directory) => FileBytes::map(&path_of(directory, name)?),
        }
    }
}

/// Path of a file in the model's folder. Folders in it come from the model's own files; at the top of the folder are the files
/// that every model has, which the operator may link to where they are kept.
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
