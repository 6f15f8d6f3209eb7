//! A model's files, wherever they are.

use crate::LoadError;
use crate::disk::{self, FileBytes};
use crate::gguf::GgufFile;
use crate::hub::{self, Parts};
use crate::json::{Fields, FromField};
use crate::model::weights::{SafetensorsFiles, Weights};
use crate::options::{EmbeddedFile, LoadOptions, ModelSource};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The name of the single weights file.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// The name of the index of sharded weights.
pub(crate) const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// The files of one model.
#[derive(Debug)]
pub(crate) struct ModelFiles {
    place: Place,
    /// Present when the model is a GGUF file.
    gguf: Option<GgufFile>,
    description: String,
}

#[derive(Debug)]
enum Place {
    Directory(PathBuf),
    Embedded(&'static [EmbeddedFile]),
}

impl ModelFiles {
    /// Finds the files, downloading them if they are on the hub.
    ///
    /// # Errors
    /// They cannot be reached, or there is no model among them.
    pub(crate) fn open(options: &LoadOptions, parts: Parts) -> Result<Self, LoadError> {
        match &options.source {
            ModelSource::Embedded(files) => {
                Ok(Self { place: Place::Embedded(files), gguf: None, description: "the built-in model".to_owned() })
            }
            ModelSource::Path(path) => Self::open_path(path, path.display().to_string()),
            ModelSource::Hub(model) => {
                let snapshot = hub::download(model, options.dense_path.as_deref(), parts)?;
                Self::open_path(&snapshot, format!("{} at {}", model.id, snapshot.display()))
            }
        }
    }

    fn open_path(path: &Path, description: String) -> Result<Self, LoadError> {
        let metadata = fs::metadata(path).map_err(|error| LoadError::io(path.display().to_string(), error))?;
        if metadata.is_dir() {
            let gguf = match path.join("config.json").exists() {
                true => None,
                false => only_gguf(path)?.map(|file| GgufFile::open(&file)).transpose()?,
            };
            return Ok(Self { place: Place::Directory(path.to_owned()), gguf, description });
        }
        if !has_gguf_extension(path) {
            let problem = "is neither a directory nor a .gguf file";
            return Err(LoadError::invalid(path.display().to_string(), problem));
        }
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { place: Place::Directory(directory), gguf: Some(GgufFile::open(path)?), description })
    }

    /// What to call the model in messages.
    pub(crate) fn description(&self) -> String {
        self.description.clone()
    }

    /// Gives the GGUF file away.
    pub(crate) fn take_gguf(&mut self) -> Option<GgufFile> {
        self.gguf.take()
    }

    /// A file's content; `None` when there is no such file. `name` may have folders in it, but not leave the model's.
    ///
    /// # Errors
    /// It is there and cannot be read, or is larger than such a file may be.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        match &self.place {
            Place::Embedded(files) => {
                Ok(files.iter().find(|file| file.name == name).map(|file| Cow::Borrowed(file.bytes)))
            }
            Place::Directory(directory) => {
                let bytes = disk::read(&directory.join(check_inside(name)?), max_bytes(name))?;
                Ok(bytes.map(Cow::Owned))
            }
        }
    }

    /// A JSON file; `None` when there is no such file.
    ///
    /// # Errors
    /// It is there and cannot be read, or is not JSON.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Value>, LoadError> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        parse_json(name, &bytes).map(Some)
    }

    /// An error that says that a file is missing.
    pub(crate) fn missing(&self, file: &str, hint: &str) -> LoadError {
        LoadError::MissingFile { place: self.description(), file: file.to_owned(), hint: hint.to_owned() }
    }

    /// The tensors of the model's safetensors files.
    ///
    /// # Errors
    /// There are none, or they are malformed.
    pub(crate) fn weights(&self) -> Result<Weights, LoadError> {
        if let Some(bytes) = self.bytes(WEIGHTS)? {
            return Ok(Weights::Safetensors(SafetensorsFiles::single(WEIGHTS, bytes)?));
        }
        if let Some(index) = self.json(WEIGHTS_INDEX)? {
            let weight_map = weight_map(&index)?;
            let open = |shard: &str| {
                let hint = format!(", which {WEIGHTS_INDEX} names");
                self.bytes(shard)?.ok_or_else(|| self.missing(shard, &hint))
            };
            return Ok(Weights::Safetensors(SafetensorsFiles::sharded(WEIGHTS_INDEX, &weight_map, open)?));
        }
        Err(self.missing(WEIGHTS, self.pickle_hint("")?))
    }

    /// The tensors of one safetensors file in a folder of the model.
    ///
    /// # Errors
    /// It is not there, or malformed.
    pub(crate) fn weights_in(&self, folder: &str) -> Result<SafetensorsFiles, LoadError> {
        let name = format!("{folder}/{WEIGHTS}");
        match self.bytes(&name)? {
            Some(bytes) => SafetensorsFiles::single(&name, bytes),
            None => Err(self.missing(&name, self.pickle_hint(&format!("{folder}/"))?)),
        }
    }

    /// What to add when weights are missing and there are some in Python's own format.
    fn pickle_hint(&self, folder: &str) -> Result<&'static str, LoadError> {
        let hint = ", and pytorch_model.bin is not supported: convert it to safetensors";
        for name in ["pytorch_model.bin", "pytorch_model.bin.index.json"] {
            if self.exists(&format!("{folder}{name}"))? {
                return Ok(hint);
            }
        }
        Ok("")
    }

    fn exists(&self, name: &str) -> Result<bool, LoadError> {
        Ok(match &self.place {
            Place::Embedded(files) => files.iter().any(|file| file.name == name),
            Place::Directory(directory) => {
                let path = directory.join(check_inside(name)?);
                path.try_exists().map_err(|error| LoadError::io(path.display().to_string(), error))?
            }
        })
    }

    /// A big file's content, mapped where it is on disk.
    fn bytes(&self, name: &str) -> Result<Option<FileBytes>, LoadError> {
        match &self.place {
            Place::Embedded(files) => {
                Ok(files.iter().find(|file| file.name == name).map(|file| FileBytes::Static(file.bytes)))
            }
            Place::Directory(directory) => FileBytes::map(&directory.join(check_inside(name)?)),
        }
    }
}

/// Bytes that a file may have that is read whole.
pub(crate) fn max_bytes(name: &str) -> u64 {
    /// The largest tokenizers that there are have some 35 MB; read, a byte takes up to thirty.
    const TOKENIZER: u64 = 64 << 20;
    /// The index of a large model's tensors has a megabyte, other files some kilobytes; parsed, a byte takes up to thirty.
    const OTHER: u64 = 8 << 20;
    if name.ends_with("tokenizer.json") { TOKENIZER } else { OTHER }
}

/// Parses a JSON file.
///
/// # Errors
/// It is not JSON.
pub(crate) fn parse_json(name: &str, bytes: &[u8]) -> Result<Value, LoadError> {
    serde_json::from_slice(bytes).map_err(|error| LoadError::invalid(name, format!("is not JSON: {error}")))
}

/// The file of each tensor, from an index. Files are plain names, so that an index cannot lead elsewhere.
///
/// # Errors
/// The index is malformed, or a name has folders in it.
pub(crate) fn weight_map(index: &Value) -> Result<BTreeMap<String, String>, LoadError> {
    let fields = Fields::new(WEIGHTS_INDEX, index)?;
    let map = fields.object("weight_map")?.ok_or_else(|| fields.problem("weight_map", "is missing"))?;
    let entries = map.entries().map(|(tensor, file)| {
        let file = String::from_field(file).ok_or_else(|| map.problem(tensor, "must be a file name"))?;
        let plain = file.ends_with(".safetensors") && !file.contains(['/', '\\', ':']) && !file.starts_with('.');
        match plain {
            true => Ok((tensor.clone(), file)),
            false => {
                Err(map.problem(tensor, &format!("must name a .safetensors file beside the index, not \"{file}\"")))
            }
        }
    });
    entries.collect()
}

/// Checks that a path from a file of the model stays inside the model's folder.
///
/// # Errors
/// It is absolute or has `..` in it.
pub(crate) fn check_inside(name: &str) -> Result<&str, LoadError> {
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match inside && !name.contains('\\') {
        true => Ok(name),
        false => Err(LoadError::invalid(name, "is a path that leaves the model's folder")),
    }
}

/// Whether the file name ends in `.gguf`.
pub(crate) fn has_gguf_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// The one GGUF file of a directory, `None` when there is none.
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
