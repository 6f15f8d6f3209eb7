//! The modules of a sentence-transformers model, as listed by `modules.json` and a Router.

pub(crate) mod router;
pub(crate) mod ways;

use crate::error::LoadError;
use crate::json::{Fields, parse_json, shown};
use crate::source::names::{check_inside, inside, module_folder};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;

/// The list of a model's modules.
pub(crate) const MODULES: &str = "modules.json";

/// Maximum modules of a model; each is visited for every task.
const MAX_MODULES: usize = 64;
/// Maximum bytes of a module's class and of its path: each route and each task has a copy.
const MAX_NAME: usize = 256;
/// Prefix of the class names of sentence-transformers.
pub(crate) const LIBRARY: &str = "sentence_transformers.";

/// Files that list modules, by their path from the model's folder.
pub(crate) trait ListFiles {
    /// A file's content; `None` if there is no such file.
    ///
    /// # Errors
    /// It cannot be read.
    fn bytes(&self, path: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError>;

    /// An error about a missing file.
    fn not_there(&self, path: &str) -> LoadError;
}

/// A module as `modules.json` or a Router lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) class: String,
    /// Folder; empty for the top.
    pub(crate) path: String,
    /// The file that lists it.
    pub(crate) file: String,
    /// The module's name in that file, for messages.
    pub(crate) name: String,
}

impl Module {
    /// A module in the folder `path` inside `folder`, which is empty for the top.
    ///
    /// # Errors
    /// A name is too long, or the folder is outside the model's folder.
    fn new((file, name): (&str, String), class: String, folder: &str, path: &str) -> Result<Self, LoadError> {
        for (what, length) in [("class", class.len()), ("path", path.len())] {
            if length > MAX_NAME {
                let problem = format!("{name} has a {what} of {length} bytes, the limit is {MAX_NAME}");
                return Err(LoadError::invalid(file, problem));
            }
        }
        let outside =
            |_| LoadError::invalid(file, format!("{name} has the path \"{path}\", which leaves the model's folder"));
        let path = match module_folder(check_inside(path).map_err(outside)?) {
            path if path.is_empty() => folder.to_owned(),
            path => inside(folder, &path),
        };
        Ok(Self { class, path, file: file.to_owned(), name })
    }

    /// The modules of `modules.json`; `None` where there is none.
    ///
    /// # Errors
    /// The file is malformed.
    pub(crate) fn list(files: &dyn ListFiles) -> Result<Option<Vec<Self>>, LoadError> {
        let Some(bytes) = files.bytes(MODULES)? else { return Ok(None) };
        let Value::Array(modules) = parse_json(MODULES, &bytes)? else {
            return Err(LoadError::invalid(MODULES, "must be a list of modules"));
        };
        if modules.len() > MAX_MODULES {
            let problem = format!("has {} modules, the limit is {MAX_MODULES}", modules.len());
            return Err(LoadError::invalid(MODULES, problem));
        }
        let module = |(index, module): (usize, &Value)| {
            let fields = Fields::new(MODULES, module)?;
            let place = (MODULES, format!("module {index}"));
            Self::new(place, fields.required("type")?, "", &fields.or("path", String::new())?)
        };
        let mut names = HashSet::new();
        for name in modules.iter().filter_map(|module| module.get("name")) {
            // sentence-transformers keeps the last module of a name.
            if !names.insert(name.to_string()) {
                let problem = format!("has two modules with the `name` {}", shown(name));
                return Err(LoadError::invalid(MODULES, problem));
            }
        }
        modules.iter().enumerate().map(module).collect::<Result<_, _>>().map(Some)
    }

    /// The class name without its Python module, of any library.
    pub(crate) fn short_class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or_default()
    }

    /// The class name without its Python module; `None` unless it is a class of sentence-transformers.
    pub(crate) fn library_class(&self) -> Option<&str> {
        self.class.starts_with(LIBRARY).then(|| self.short_class())
    }

    /// `true` if the module sends texts through the modules of their task.
    pub(crate) fn is_router(&self) -> bool {
        matches!(self.library_class(), Some("Router" | "Asym"))
    }
}
