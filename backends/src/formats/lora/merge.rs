//! Tensors of a model with the changes of an adapter.

use super::config::LoraConfig;
use super::files::CONFIG;
use super::names::{Role, has_adapters_name, parse};
use crate::config::names::bare;
use crate::error::{LoadError, printable};
use crate::formats::TensorFiles;
use crate::formats::tensor::{reserved, zeros};
use crate::json::first_names;
use prefold_kernels::Element;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum modules, far above any model, bytes of a name, and time to compare all names with the config's patterns.
const MAX_MODULES: usize = 1 << 16;
const MAX_NAME: usize = 1024;
const MAX_COST: u64 = 1 << 32;
/// Maximum rank of a layer, as a multiple of the smaller side of its weight; any layer may have [`SMALL_RANK`].
const MAX_RANKS: usize = 4;
const SMALL_RANK: usize = 64;

/// A model's tensor files and an adapter's, which are read as one model.
#[derive(Debug)]
pub(crate) struct AdaptedFiles {
    base: TensorFiles,
    adapter: TensorFiles,
    /// Names of the model's tensors by their bare name.
    spelled: HashMap<String, String>,
    /// Modules with LoRA by their bare name.
    modules: HashMap<String, Module>,
    /// Names in the adapter of the tensors that replace the model's own, by their bare name.
    own: HashMap<String, String>,
    /// Modules of the adapter that change nothing.
    unused: Vec<String>,
    has_classifier: bool,
}

/// LoRA of one module.
#[derive(Debug, Default)]
struct Module {
    /// Name in the adapter's file.
    name: String,
    /// Names of `A` and `B`, and of the bias of `B`.
    a: Option<String>,
    b: Option<String>,
    bias: Option<String>,
    is_embedding: bool,
    /// Shape of the weight.
    rows: usize,
    columns: usize,
    rank: usize,
    scale: f32,
    /// The factors of a table of embeddings once they were needed, because a table is read some rows at a time.
    kept: Mutex<Option<Arc<Factors>>>,
}

/// The change of a weight: `scale * left * right`.
#[derive(Debug)]
struct Factors {
    /// `[rows, rank]`
    left: Vec<f32>,
    /// `[rank, columns]`
    right: Vec<f32>,
}

impl Module {
    /// Sets the tensor of a part; returns the one that it had before.
    fn set(&mut self, role: Role, tensor: &str) -> Option<String> {
        self.is_embedding |= matches!(role, Role::EmbeddingA | Role::EmbeddingB);
        let part = match role {
            Role::A | Role::EmbeddingA => &mut self.a,
            Role::B | Role::EmbeddingB => &mut self.b,
            Role::BBias | Role::Own | Role::Original | Role::Other => &mut self.bias,
        };
        part.replace(tensor.to_owned())
    }
}

impl AdaptedFiles {
    /// Matches the adapter's tensors with the model's.
    ///
    /// # Errors
    /// The adapter has no part for this model, a part of another method, or a tensor that does not fit the model or the config.
    pub(crate) fn new(base: TensorFiles, adapter: TensorFiles, config: &LoraConfig) -> Result<Self, LoadError> {
        let (mut spelled, mut twice) = (HashMap::new(), HashSet::new());
        for name in base.names() {
            if spelled.insert(bare(name).to_owned(), name.to_owned()).is_some() {
                twice.insert(bare(name).to_owned());
            }
        }
        let (modules, own) = (HashMap::new(), HashMap::new());
        let has_classifier = config.has_classifier;
        let mut files = Self { base, adapter, spelled, modules, own, unused: vec![], has_classifier };
        let (mut used, mut unused) = (HashMap::new(), Vec::new());
        for (inner, mut module) in files.parts(config)? {
            let weight = format!("{}.weight", bare(&inner));
            if !config.targets.contain(&[&inner, bare(&inner)]) {
                unused.push(inner);
            } else if files.spelled.contains_key(&weight) || files.own.contains_key(&weight) {
                let bias = format!("{}.bias", bare(&inner));
                if twice.contains(&weight) || twice.contains(&bias) {
                    return Err(files.problem(format!("has LoRA of `{inner}`, of which the model has two spellings")));
                }
                (module.rank, module.scale) = config.rank_and_scale(&[&inner, bare(&inner)]);
                files.check_module(&mut module, config)?;
                if used.insert(bare(&inner).to_owned(), module).is_some() {
                    return Err(files.problem(format!("has LoRA of `{inner}` in two spellings")));
                }
            } else if inner.split('.').any(|part| part.parse::<usize>().is_ok()) {
                let what = format!("LoRA of `{inner}`, which the model's files do not have");
                let supported = "modules with the names of the model's tensors; or the adapter merged into the weights";
                return Err(LoadError::unsupported(files.adapter.description(), what, supported));
            } else {
                unused.push(inner);
            }
        }
        if used.is_empty() && files.own.is_empty() {
            return Err(files.problem(format!("has no tensors for the `target_modules` of {CONFIG}")));
        }
        (files.modules, files.unused) = (used, unused);
        Ok(files)
    }

    /// The parts of the adapter's modules by name; its own tensors are added to `own`.
    fn parts(&mut self, config: &LoraConfig) -> Result<BTreeMap<String, Module>, LoadError> {
        let mut modules: BTreeMap<String, Module> = BTreeMap::new();
        let mut names: Vec<&str> = self.adapter.names().collect();
        names.sort_unstable();
        for name in names {
            if name.len() > MAX_NAME {
                let problem = format!("has a tensor whose name has {} bytes, the limit is {MAX_NAME}", name.len());
                return Err(self.problem(problem));
            }
            let (inner, role) = parse(name);
            match role {
                Role::Original => {}
                Role::Own => {
                    if self.own.insert(bare(&inner).to_owned(), name.to_owned()).is_some() {
                        return Err(self.problem(format!("has the tensor `{inner}` in two spellings")));
                    }
                }
                Role::Other => {
                    let what = format!("the tensor `{name}`");
                    return Err(LoadError::unsupported(self.adapter.description(), what, "`lora_A` and `lora_B`"));
                }
                Role::A | Role::B | Role::BBias | Role::EmbeddingA | Role::EmbeddingB => {
                    let new = || Module { name: inner.clone(), ..Module::default() };
                    if let Some(other) = modules.entry(inner.clone()).or_insert_with(new).set(role, name) {
                        return Err(self.problem(format!("has the same part of a module twice: `{other}`, `{name}`")));
                    }
                }
            }
        }
        // Each name is compared with and without its prefix.
        let bytes: u64 = modules.keys().map(|name| 2 * name.len() as u64).sum();
        if modules.len() > MAX_MODULES || bytes.saturating_mul(config.cost()) > MAX_COST {
            let count = modules.len();
            let problem = format!(
                "has {count} modules, whose names have {bytes} bytes; the limit is {MAX_MODULES}, and less for many or large patterns of {CONFIG}"
            );
            return Err(self.problem(problem));
        }
        Ok(modules)
    }

    /// An error about the adapter's tensors.
    fn problem(&self, problem: String) -> LoadError {
        LoadError::invalid(self.adapter.description(), problem)
    }

    /// Checks the shapes of a module's parts.
    fn check_module(&self, module: &mut Module, config: &LoraConfig) -> Result<(), LoadError> {
        let (Some(a), Some(b)) = (&module.a, &module.b) else {
            return Err(self.problem(format!("has only one of `lora_A` and `lora_B` of `{}`", module.name)));
        };
        let weight = format!("{}.weight", bare(&module.name));
        let (rows, columns) = match self.shape(&weight) {
            Some(&[rows, columns]) if rows > 0 && columns > 0 => (rows, columns),
            _ => return Err(self.problem(format!("has LoRA of `{}`, whose weight is no matrix", module.name))),
        };
        (module.rows, module.columns) = (rows, columns);
        let limit = rows.min(columns).saturating_mul(MAX_RANKS).max(SMALL_RANK);
        if module.rank > limit {
            let problem = format!("has LoRA of `{}` of rank {}, the limit is {limit}", module.name, module.rank);
            return Err(self.problem(problem));
        }
        let (inputs, outputs) = if module.is_embedding { (rows, columns) } else { (columns, rows) };
        self.adapter.check(a, &[module.rank, inputs])?;
        self.adapter.check(b, &[outputs, module.rank])?;
        match (&module.bias, config.lora_bias) {
            (Some(_), true) if self.shape(&format!("{}.bias", bare(&module.name))).is_none() => {
                // As peft's own merge.
                let what = format!("a bias of the LoRA of `{}`, which has none in the model", module.name);
                Err(LoadError::unsupported(self.adapter.description(), what, "biases of layers that have one"))
            }
            (Some(bias), true) => self.adapter.check(bias, &[outputs]),
            (None, true) => Err(LoadError::MissingTensor {
                file: self.adapter.description().to_owned(),
                name: format!("{}.lora_B.bias", module.name),
            }),
            (Some(bias), false) => Err(self.problem(format!("has `{bias}`, but `lora_bias` of {CONFIG} is false"))),
            (None, false) => Ok(()),
        }
    }

    /// Number of modules with LoRA and of replaced tensors.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.modules.len(), self.own.len())
    }

    /// `true` if the adapter changes a decoder's embeddings or its output layer.
    pub(crate) fn changes_embeddings(&self) -> bool {
        let is_tied = |name: &str| matches!(bare(name), "embed_tokens" | "lm_head");
        let has_lora = |module: &Module| module.is_embedding || is_tied(&module.name);
        let is_own = |name: &String| name.strip_suffix(".weight").is_some_and(is_tied);
        let is_unused = || self.unused.iter().any(|name| is_tied(name));
        self.modules.values().any(has_lora) || is_unused() || self.own.keys().any(is_own)
    }

    /// `true` if the adapter was trained with the head of a classifier.
    pub(crate) fn has_classifier(&self) -> bool {
        self.has_classifier
    }

    /// Warnings about LoRA that changes nothing, here or in peft.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let file = printable(self.adapter.description());
        let unused = first_names(&self.unused).map(|names| {
            format!(
                "{file}: LoRA of {names} is not used: not among the config's `target_modules` or the model's tensors"
            )
        });
        let mut parts = self.modules.values().flat_map(|module| [&module.a, &module.b, &module.bias]).flatten();
        let named = parts.any(|name| has_adapters_name(name)).then(|| {
            format!(
                "{file}: the names of tensors contain `default`; they are merged, while peft ignores them: save the \
                 adapter with peft's `save_pretrained`"
            )
        });
        unused.into_iter().chain(named)
    }

    /// Names of the model's tensors, and of the adapter's that replace some, which no name of `read` finds.
    pub(crate) fn unread(&self, read: &[String]) -> Vec<&str> {
        let known: HashSet<&str> = read.iter().map(|name| bare(name)).collect();
        let own = self.own.keys().map(String::as_str).filter(|name| !known.contains(name));
        let mut unread = self.base.unread(read);
        unread.retain(|name| !self.own.contains_key(bare(name)));
        unread.extend(own);
        unread
    }

    /// The model's own tensor files.
    pub(crate) fn base(&self) -> &TensorFiles {
        &self.base
    }

    /// The files that have a tensor, and its name there.
    fn source<'a>(&'a self, name: &'a str) -> (&'a TensorFiles, &'a str) {
        match self.own.get(bare(name)) {
            Some(own) => (&self.adapter, own),
            None => (&self.base, name),
        }
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        let bare_name = bare(name);
        if let Some(own) = self.own.get(bare_name) {
            return self.adapter.shape(own);
        }
        self.base.shape(self.spelled.get(bare_name)?)
    }

    /// `true` if there is such a tensor.
    pub(crate) fn contains(&self, name: &str) -> bool {
        let (files, name) = self.source(name);
        files.contains(name)
    }

    /// Checks the presence and shape of a tensor.
    ///
    /// # Errors
    /// It is missing, or its shape is not `shape`.
    pub(crate) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        let (files, name) = self.source(name);
        files.check(name, shape)
    }

    /// Type of a tensor in its file.
    pub(crate) fn stored_dtype(&self, name: &str) -> &'static str {
        let (files, name) = self.source(name);
        files.stored_dtype(name)
    }

    /// A whole tensor with the adapter's change.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub(crate) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let (files, own) = self.source(name);
        if let Some(module) = self.module(name, ".weight") {
            let &[rows, columns] = shape else { return files.read(own, shape) };
            let mut values: Vec<f32> = files.read(own, shape)?;
            let rows: Vec<u32> = (0..rows as u32).collect();
            self.change(module, &rows, columns, &mut values)?;
            return converted(&values);
        }
        match self.module(name, ".bias").and_then(|module| Some((module, module.bias.as_ref()?))) {
            Some((module, bias)) => {
                let mut values: Vec<f32> = files.read(own, shape)?;
                let change: Vec<f32> = self.adapter.read(bias, shape)?;
                values.iter_mut().zip(change).for_each(|(value, change)| *value += module.scale * change);
                converted(&values)
            }
            None => files.read(own, shape),
        }
    }

    /// Rows of a matrix with the adapter's change; `rows` must be below `shape[0]`.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub(crate) fn read_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        let (files, own) = self.source(name);
        let mut values = files.read_rows(own, shape, rows)?;
        if let Some(module) = self.module(name, ".weight") {
            self.change(module, rows, shape[1], &mut values)?;
        }
        Ok(values)
    }

    /// The module of a tensor with this ending.
    fn module(&self, name: &str, ending: &str) -> Option<&Module> {
        self.modules.get(bare(name).strip_suffix(ending)?)
    }

    /// Adds the change to rows of a matrix.
    fn change(&self, module: &Module, rows: &[u32], columns: usize, values: &mut [f32]) -> Result<(), LoadError> {
        if columns != module.columns || rows.iter().any(|&row| row as usize >= module.rows) {
            let Module { name, rows, columns, .. } = module;
            return Err(
                self.problem(format!("has LoRA of `{name}` of {rows} x {columns} values, the model has others"))
            );
        }
        let Some(factors) = self.factors(module)? else { return Ok(()) };
        let (Factors { left, right }, rank) = (&*factors, module.rank);
        values.par_chunks_mut(columns).zip(rows).for_each(|(values, &row)| {
            let mut change = vec![0.0; columns];
            let left = &left[row as usize * rank..][..rank];
            for (left, right) in left.iter().zip(right.chunks_exact(columns)) {
                change.iter_mut().zip(right).for_each(|(change, right)| *change += left * right);
            }
            values.iter_mut().zip(change).for_each(|(value, change)| *value += module.scale * change);
        });
        Ok(())
    }

    /// The factors of a module's change; `None` if it has none.
    fn factors(&self, module: &Module) -> Result<Option<Arc<Factors>>, LoadError> {
        let (Some(a), Some(b)) = (&module.a, &module.b) else { return Ok(None) };
        let &Module { rank, rows, columns, .. } = module;
        if !module.is_embedding {
            let (left, right) = (self.adapter.read(b, &[rows, rank])?, self.adapter.read(a, &[rank, columns])?);
            return Ok(Some(Arc::new(Factors { left, right })));
        }
        // Nothing panics under the lock.
        let mut kept = module.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            let left = transposed(&self.adapter.read(a, &[rank, rows])?, rank, rows)?;
            let right = transposed(&self.adapter.read(b, &[columns, rank])?, columns, rank)?;
            *kept = Some(Arc::new(Factors { left, right }));
        }
        Ok(kept.clone())
    }
}

/// A matrix `[rows, columns]` as `[columns, rows]`.
fn transposed(matrix: &[f32], rows: usize, columns: usize) -> Result<Vec<f32>, LoadError> {
    let mut out = zeros(matrix.len())?;
    for row in 0..rows {
        for column in 0..columns {
            out[column * rows + row] = matrix[row * columns + column];
        }
    }
    Ok(out)
}

/// The values as another type.
fn converted<T: Element>(values: &[f32]) -> Result<Vec<T>, LoadError> {
    let mut out = reserved(values.len())?;
    out.extend(values.iter().map(|&value| T::from_f32(value)));
    Ok(out)
}
