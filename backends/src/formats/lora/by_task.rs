//! An adapter of peft for each task, each in a file of its own, read as the stacked adapters of jina-embeddings-v3 are.

use super::names::{Role, parse};
use crate::config::adapters::{FIRST, SECOND};
use crate::config::names::bare;
use crate::error::LoadError;
use crate::formats::TensorFiles;
use prefold_kernels::Element;
use std::collections::HashMap;

/// The tensor files of a model and of its adapters.
#[derive(Debug)]
pub(crate) struct FilesByTask {
    base: TensorFiles,
    /// In the order of the config; empty if they could not be read, for a check of the rest.
    adapters: Vec<Adapter>,
}

#[derive(Debug)]
struct Adapter {
    files: TensorFiles,
    /// Names of `A` and `B` by the bare name of their module.
    a: HashMap<String, String>,
    b: HashMap<String, String>,
}

impl FilesByTask {
    /// # Errors
    /// An adapter has a tensor that is neither `A` nor `B` of a linear layer, or one in two spellings.
    pub(crate) fn new(base: TensorFiles, adapters: Vec<TensorFiles>) -> Result<Self, LoadError> {
        Ok(Self { base, adapters: adapters.into_iter().map(Adapter::new).collect::<Result<_, _>>()? })
    }

    pub(crate) fn base(&self) -> &TensorFiles {
        &self.base
    }

    /// Reads a tensor of the model, or a factor of all adapters, one after the other.
    ///
    /// # Errors
    /// As for [`TensorFiles::read`].
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let Some(factor) = Factor::named(name) else { return self.base.read(name, shape) };
        let mut all = Vec::new();
        for adapter in &self.adapters {
            all.extend(adapter.files.read::<T>(adapter.tensor(&factor)?, &shape[1..])?);
        }
        Ok(all)
    }

    /// Checks the presence and shape of a tensor.
    ///
    /// # Errors
    /// As for [`TensorFiles::check`].
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        let Some(factor) = Factor::named(name) else { return self.base.check(name, shape) };
        let mut adapters = self.adapters.iter();
        adapters.try_for_each(|adapter| adapter.files.check(adapter.tensor(&factor)?, &shape[1..]))
    }

    /// `true` if there is such a tensor.
    pub(crate) fn contains(&self, name: &str) -> bool {
        match Factor::named(name) {
            None => self.base.contains(name),
            Some(factor) => self.adapters.first().is_some_and(|adapter| adapter.tensor(&factor).is_ok()),
        }
    }

    /// Checks that each adapter has the `A` of no more than `count` layers.
    ///
    /// # Errors
    /// One changes a module that the model does not have, or whose adapters are not supported.
    pub(crate) fn check_count(&self, count: usize) -> Result<(), LoadError> {
        match self.adapters.iter().find(|adapter| adapter.a.len() > count || adapter.b.len() > count) {
            None => Ok(()),
            Some(adapter) => {
                let what = format!("LoRA of {} modules", adapter.a.len().max(adapter.b.len()));
                let supported = format!("up to {count}, the matrices of the model's layers");
                Err(LoadError::unsupported(adapter.files.description(), what, supported))
            }
        }
    }
}

/// A factor of a layer in all adapters.
struct Factor<'a> {
    /// Name of the layer's matrix, without `.weight`.
    module: &'a str,
    is_first: bool,
}

impl<'a> Factor<'a> {
    fn named(name: &'a str) -> Option<Self> {
        let first = name.strip_suffix(FIRST).map(|module| Self { module, is_first: true });
        first.or_else(|| name.strip_suffix(SECOND).map(|module| Self { module, is_first: false }))
    }
}

impl Adapter {
    fn new(files: TensorFiles) -> Result<Self, LoadError> {
        let (mut a, mut b) = (HashMap::new(), HashMap::new());
        for name in files.names() {
            let (module, role) = parse(name);
            let parts = match role {
                Role::A => &mut a,
                Role::B => &mut b,
                _ => {
                    let supported = "`lora_A` and `lora_B` of linear layers in the adapter of a task";
                    return Err(LoadError::unsupported(files.description(), format!("the tensor `{name}`"), supported));
                }
            };
            if parts.insert(bare(&module).to_owned(), name.to_owned()).is_some() {
                let problem = format!("has LoRA of `{module}` in two spellings");
                return Err(LoadError::invalid(files.description(), problem));
            }
        }
        Ok(Self { files, a, b })
    }

    /// Name of the tensor of a factor.
    fn tensor(&self, Factor { module, is_first }: &Factor<'_>) -> Result<&str, LoadError> {
        let (parts, part) = if *is_first { (&self.a, "lora_A") } else { (&self.b, "lora_B") };
        parts.get(bare(module)).map(String::as_str).ok_or_else(|| LoadError::MissingTensor {
            file: self.files.description().to_owned(),
            name: format!("{module}.{part}.weight"),
        })
    }
}
