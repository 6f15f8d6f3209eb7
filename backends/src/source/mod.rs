//! Sources of a model's files: a directory, a GGUF file, the hub, or the program itself.

mod adapter_base;
mod folder;
pub(crate) mod hub;
pub(crate) mod licence;
pub(crate) mod modules;
pub(crate) mod names;
mod other_formats;
mod tensors;
pub(crate) mod tokenizer_files;

use crate::disk::{self, FileBytes};
use crate::error::{LoadError, printable};
use crate::formats::TensorFormat;
use crate::formats::gguf::{GgufFile, has_gguf_extension};
use crate::json::{parse_json, shown};
use crate::options::{EmbeddedFile, LoadOptions, ModelSource};
use adapter_base::Base;
use hub::FileSet;
use hub::inspect::{self, Remote};
use licence::{CARD, Licence};
use modules::ListFiles;
use names::{check_inside, inside, max_bytes, named_by_a_file};
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one model.
#[derive(Debug)]
pub(crate) struct ModelFiles {
    location: Location,
    /// The base of a LoRA adapter, which has the files that the model's folder lacks.
    base: Option<Base>,
    /// Present if the model is a GGUF file.
    gguf: Option<GgufFile>,
    /// Facts from the hub about a model whose weights were not downloaded.
    remote: Option<Remote>,
    /// The files are only checked, for which the configuration alone is enough.
    may_be_bare: bool,
    /// Commit on the hub.
    commit: Option<String>,
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
                base: None,
                gguf: None,
                remote: None,
                may_be_bare: false,
                commit: None,
                display_name: "the built-in model".to_owned(),
                sub_model: SubFolder::default(),
            }),
            ModelSource::Path(path) => {
                Ok(Self { base: Base::of(path, options, files)?, ..Self::open_path(path, path.display().to_string())? })
            }
            ModelSource::Hub(model) => {
                let snapshot = hub::download(model, options.dense_path.as_deref(), files)?;
                let base = Base::of(&snapshot, options, files)?;
                let name = format!("{} at {}", model.id, snapshot.display());
                // The snapshot's folder is named after its commit.
                let commit = snapshot.file_name().map(|commit| commit.to_string_lossy().into_owned());
                Ok(Self { base, commit, ..Self::open_path(&snapshot, name)? })
            }
        }
    }

    /// Commit of a model on the hub.
    pub(crate) fn commit(&self) -> Option<String> {
        self.commit.clone()
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

    /// The licence in the model card: as the hub reads it, or in `README.md`.
    pub(crate) fn licence(&self) -> Licence {
        match &self.remote {
            Some(remote) => remote.licence.clone(),
            None => self.read(CARD).ok().flatten().map_or(Licence::Unread, |card| Licence::of_bytes(&card)),
        }
    }

    fn open_path(path: &Path, display_name: String) -> Result<Self, LoadError> {
        let metadata = fs::metadata(path).map_err(|error| LoadError::io(path.display().to_string(), error))?;
        if metadata.is_dir() {
            let gguf = if path.join("config.json").exists() {
                None
            } else {
                folder::only_gguf(path)?.map(|file| GgufFile::open(&file)).transpose()?
            };
            return Ok(Self {
                location: Location::Directory(path.to_owned()),
                base: None,
                gguf,
                remote: None,
                may_be_bare: false,
                commit: None,
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
            base: None,
            gguf,
            remote: None,
            may_be_bare: false,
            commit: None,
            display_name,
            sub_model: SubFolder::default(),
        })
    }

    /// The files of a sub-model; `folder` replaces the top folder. Several sub-models may have the same folder.
    pub(crate) fn of_sub_model(&self, index: usize, folder: &str) -> Self {
        Self {
            location: self.location.clone(),
            base: self.base.clone(),
            gguf: None,
            remote: self.remote.clone(),
            may_be_bare: self.may_be_bare,
            commit: self.commit.clone(),
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
                for directory in self.directories(directory, name) {
                    if let Some(bytes) = disk::read(&path_of(directory, name)?, max_bytes(name))? {
                        return Ok(Some(Cow::Owned(bytes)));
                    }
                }
                Ok(None)
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

    /// Names of the files in a folder and in the folders inside it.
    fn found(&self, folder: &str) -> Vec<String> {
        match &self.location {
            Location::Embedded(_) => vec![],
            Location::Directory(directory) => folder::files(&directory.join(folder)),
        }
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
                let mut found = false;
                for directory in self.directories(directory, path) {
                    let path = path_of(directory, path)?;
                    found |= path.try_exists().map_err(|error| LoadError::io(path.display().to_string(), error))?;
                }
                found
            }
        })
    }

    /// Content of a large file by its path from the model's folder, mapped if it is on disk.
    fn bytes_at(&self, name: &str) -> Result<Option<FileBytes>, LoadError> {
        match &self.location {
            Location::Embedded(files) => {
                Ok(files.iter().find(|file| file.name == name).map(|file| FileBytes::Static(file.bytes)))
            }
            Location::Directory(directory) => {
                for directory in self.directories(directory, name) {
                    if let Some(bytes) = FileBytes::map(&path_of(directory, name)?)? {
                        return Ok(Some(bytes));
                    }
                }
                Ok(None)
            }
        }
    }

    /// The directories that may have a file: the model's, and the one of the adapter's base.
    fn directories<'a>(&'a self, directory: &'a Path, name: &str) -> impl Iterator<Item = &'a Path> {
        let own = self.base.as_ref().is_none_or(|base| !base.has_instead(name)).then_some(directory);
        own.into_iter().chain(self.base.iter().map(|base| base.folder.as_path()))
    }

    /// A warning about the base of a LoRA adapter that is another model.
    pub(crate) fn adapter_base(&self) -> Option<String> {
        let Base { name, folder, replaces } = self.base.as_ref()?;
        let (name, folder) = (shown(&name.as_str().into()), printable(folder.display().to_string()));
        Some(match replaces {
            false => format!("the model's folder has only a LoRA adapter; its base {name} is read from {folder}"),
            true => format!(
                "the model is a LoRA adapter; its base {name} is read from {folder}, as transformers does, and not the repository's own \
                 config.json and weights"
            ),
        })
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
