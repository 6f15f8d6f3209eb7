//! Modules of sentence-transformers after a model.

use super::dense::VectorKind;
use super::transformer::{self, TextOutput};
use super::{config_of, dense_uses};
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use crate::source::modules::router::RouteName;
use crate::source::modules::ways::{Way, Ways};
use crate::source::modules::{LIBRARY, MODULES, Module};

/// Maximum number of modules with tensors after pooling, far above any model; each is kept in memory.
const MAX_DENSE: usize = 16;
/// Class of Transformer in jina-embeddings-v3 and v5; it selects an adapter by the task. In v5 it pools the last token and normalises.
const WITH_ADAPTERS: &str = "custom_st.Transformer";
/// Class of pplx-embed's last module. It rounds each value to a whole number, without tensors and without a config.
const QUANTIZER: &str = "st_quantize.FlexibleQuantizer";
/// Usual folder of a dense module after pooling.
const DEFAULT_DENSE: &str = "2_Dense";
/// Folder of the pooling config if there is no `modules.json`.
const DEFAULT_POOLING: &str = "1_Pooling";

/// A module after pooling, in a folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VectorFolder {
    pub(crate) kind: VectorKind,
    pub(crate) path: String,
}

/// Modules with tensors of a route, after those that all routes share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DenseRoute {
    pub(crate) name: RouteName,
    pub(crate) dense: Vec<VectorFolder>,
}

/// Modules between the final states and the embedding of a [sub-model](crate::source::modules::ways), most of them as folders.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModuleList {
    pub(crate) pooling: Option<String>,
    /// The model's own pooler replaces a pooling module.
    pub(crate) pooler: bool,
    /// The Transformer pools the last token and normalises.
    pub(crate) pools_last: bool,
    /// Folder of a static embedding, which replaces the transformer and pooling.
    pub(crate) table: Option<String>,
    /// Makes a language model a reranker; excludes pooling.
    pub(crate) logit_score: Option<String>,
    /// Dense, LayerNorm and quantizer modules.
    pub(crate) dense: Vec<VectorFolder>,
    /// Further such modules by route; empty if all tasks have the same.
    pub(crate) routes: Vec<DenseRoute>,
    /// Index in `routes` by task number, 0 being no task; 0 for tasks of other sub-models.
    pub(crate) route_of: Vec<usize>,
    /// Tasks of the model, each with the index of its sub-model.
    pub(crate) tasks: Vec<(String, usize)>,
    /// `true` if the modules end with Normalize, by task number, 0 being no task; empty without `modules.json`.
    pub(crate) normalized: Vec<bool>,
}

impl ModuleList {
    /// Reads `modules.json`, or without it the pooling config in its usual folder.
    ///
    /// # Errors
    /// The file is malformed, or a module or the order of modules is not supported.
    pub(crate) fn read(files: &ModelFiles) -> Result<Self, LoadError> {
        if let Some(ways) = Ways::read(files)? {
            return Self::of_sub_model(&ways, files);
        }
        let pooling = files.read(&config_of(DEFAULT_POOLING))?.map(|_| DEFAULT_POOLING.to_owned());
        // An interrupted copy would give other vectors.
        if pooling.is_some() && files.exists(DEFAULT_DENSE)? {
            return Err(files.missing(MODULES, &format!(", which describes {DEFAULT_DENSE}")));
        }
        Ok(Self { pooling, ..Self::default() })
    }

    /// The modules of the ways through the sub-model of these files.
    fn of_sub_model(Ways(ways): &Ways, files: &ModelFiles) -> Result<Self, LoadError> {
        let pooler = transformer::output(files)? == TextOutput::Pooler;
        let adapters = adapters_of_tasks(files)?;
        let mut lists = Vec::new();
        for (number, way) in ways.iter().enumerate().filter(|(_, way)| way.sub_model == files.sub_model()) {
            way.modules.iter().try_for_each(|module| check_normalize(files, module))?;
            lists.push((number, way, Self::parse(way, files.folder(), pooler, adapters)?));
        }
        let mut list = lists.first().map(|(_, _, list)| list.clone()).unwrap_or_default();
        for (_, _, Self { dense, .. }) in &lists {
            let common = list.dense.iter().zip(dense).take_while(|(one, other)| one == other).count();
            list.dense.truncate(common);
        }
        list.route_of = vec![0; ways.len()];
        for (number, way, Self { dense, .. }) in lists {
            let (rest, Some(name)) = (&dense[list.dense.len()..], &way.route) else { continue };
            let known = list.routes.iter().position(|route| route.dense == rest);
            list.route_of[number] = known.unwrap_or(list.routes.len());
            if known.is_none() {
                list.routes.push(DenseRoute { name: name.clone(), dense: rest.to_vec() });
            }
        }
        if list.routes.len() < 2 {
            (list.routes, list.route_of) = (vec![], vec![]);
        }
        dense_uses::check(files, list.dense_folders())?;
        list.tasks = ways.iter().skip(1).map(|way| (way.task.clone(), way.sub_model)).collect();
        list.normalized = ways.iter().map(|way| list.pools_last || way.normalizes()).collect();
        Ok(list)
    }

    /// The folder of each module with tensors, once per use.
    pub(crate) fn dense_folders(&self) -> impl Iterator<Item = &str> {
        let all = self.dense.iter().chain(self.routes.iter().flat_map(|route| &route.dense));
        all.filter(|folder| folder.kind != VectorKind::Int8).map(|folder| folder.path.as_str())
    }

    /// `true` if vectors of the task with this number, 0 being no task, go through Normalize.
    pub(crate) fn normalizes(&self, task: usize) -> bool {
        self.normalized.get(task).is_some_and(|&normalizes| normalizes)
    }

    /// Parses the modules of a way after a Transformer in `folder`, whose output is the states of tokens, or with `pooler` the pooler's
    /// state. With `adapters` the Transformer may be a custom class.
    fn parse(
        Way { route, modules, .. }: &Way,
        folder: &str,
        pooler: bool,
        adapters: Option<OfTask>,
    ) -> Result<Self, LoadError> {
        let mut list = Self { pooler, ..Self::default() };
        // The first module that Dense and Normalize may be.
        let mut behind = if pooler { 1 } else { 2 };
        let mut normalize = false;
        for (index, module) in modules.iter().enumerate() {
            let Module { class: kind, path, file, .. } = module;
            if !(kind.starts_with(LIBRARY) || adapters.is_some() && kind == WITH_ADAPTERS || kind == QUANTIZER) {
                let supported = "the checkpoint brings Python code of its own, which is not run";
                return Err(LoadError::unsupported(file, format!("the class {kind}"), supported));
            }
            let name = module.short_class();
            if normalize && !matches!(name, "Normalize" | "Dropout") {
                let what = format!("{kind} after Normalize");
                return Err(LoadError::unsupported(file, what, "Normalize as the last module"));
            }
            if list.dense.last().is_some_and(|last| last.kind == VectorKind::Int8) {
                let what = format!("{kind} after {QUANTIZER}");
                return Err(LoadError::unsupported(file, what, format!("{QUANTIZER} as the last module")));
            }
            match (name, index) {
                ("Transformer", 0) if path == folder => {
                    list.pools_last = adapters == Some(OfTask::Folders) && kind == WITH_ADAPTERS;
                }
                _ if list.pools_last => {
                    let what = format!("{kind} after {WITH_ADAPTERS}, which pools");
                    return Err(LoadError::unsupported(file, what, "no other module"));
                }
                ("Transformer", 0) => {
                    let what = format!("Transformer in the folder \"{path}\"");
                    return Err(LoadError::unsupported(file, what, "Transformer at the top"));
                }
                ("StaticEmbedding", 0) => {
                    behind = 1;
                    list.table = Some(path.clone());
                }
                ("Pooling", 1) if behind == 2 => list.pooling = Some(path.clone()),
                ("LogitScore", 1) if behind == 2 => list.logit_score = Some(path.clone()),
                (_, 2..) if list.logit_score.is_some() => {
                    let what = format!("{kind} after LogitScore");
                    return Err(LoadError::unsupported(file, what, "LogitScore as the last module"));
                }
                ("Dense" | "LayerNorm", _) if index >= behind && list.dense.len() == MAX_DENSE => {
                    let what = format!("more than {MAX_DENSE} Dense and LayerNorm modules");
                    return Err(LoadError::unsupported(file, what, "one or a few"));
                }
                ("Dense", _) if index >= behind => {
                    list.dense.push(VectorFolder { kind: VectorKind::Dense, path: path.clone() });
                }
                ("LayerNorm", _) if index >= behind => {
                    list.dense.push(VectorFolder { kind: VectorKind::LayerNorm, path: path.clone() });
                }
                (_, _) if index >= behind && kind == QUANTIZER => {
                    list.dense.push(VectorFolder { kind: VectorKind::Int8, path: String::new() });
                }
                // For training.
                ("Dropout", _) if index >= behind => {}
                ("Normalize", _) if index >= behind => normalize = true,
                _ if module.is_router() => {
                    let supported = "one Router, whose routes have all modules of their texts";
                    return Err(LoadError::unsupported(file, "a Router after another Router", supported));
                }
                _ => return Err(misplaced(module, route.as_ref(), list.table.is_none())),
            }
        }
        let is_complete = list.pooling.is_some() || list.logit_score.is_some() || list.pools_last || behind == 1;
        match (is_complete, route) {
            (true, _) => Ok(list),
            (false, None) => Err(LoadError::invalid(MODULES, "has no Pooling or LogitScore module")),
            (false, Some(RouteName { file, name })) => {
                let problem = format!("the route \"{name}\" has no Pooling or LogitScore module");
                Err(LoadError::invalid(file, problem))
            }
        }
    }

    /// Replaces the dense layer of the file by the one in `folder`.
    ///
    /// # Errors
    /// The file has several dense layers.
    pub(crate) fn replace_dense(&mut self, folder: &str) -> Result<(), LoadError> {
        if self.dense.len() > 1 {
            let folders: Vec<&str> = self.dense.iter().map(|folder| folder.path.as_str()).collect();
            let folders = folders.join(", ");
            let problem = format!("--dense-path {folder} cannot replace one of several dense layers ({folders})");
            return Err(LoadError::Options(problem));
        }
        self.dense = vec![VectorFolder { kind: VectorKind::Dense, path: folder.to_owned() }];
        Ok(())
    }
}

/// Refusal of a module at the wrong place. It suggests `--pooling` if that can replace the list: without routes, and unless the list names
/// the folder of a static embedding.
fn misplaced(Module { class, file, name, .. }: &Module, route: Option<&RouteName>, has_transformer: bool) -> LoadError {
    const ORDER: &str = "Transformer, then Pooling, then any number of Dense, LayerNorm and Dropout, then Normalize, or Transformer, \
                         then LogitScore, or StaticEmbedding instead of Transformer and Pooling, or a Router instead of any of these";
    let hint = if route.is_none() && has_transformer { "; --pooling leaves the modules out" } else { "" };
    let on_the_way = match route {
        None => String::new(),
        Some(route) if route.file == *file => format!(" of the route \"{}\"", route.name),
        Some(route) => format!(" with the route \"{}\"", route.name),
    };
    LoadError::unsupported(file, format!("{class} as {name}{on_the_way}"), format!("{ORDER}{hint}"))
}

/// Checks that a Normalize scales the text's vector.
///
/// # Errors
/// Its config is malformed, or names the states of tokens.
fn check_normalize(files: &ModelFiles, module: &Module) -> Result<(), LoadError> {
    const VECTOR: &str = "sentence_embedding";
    if module.short_class() != "Normalize" || module.path.is_empty() {
        return Ok(());
    }
    let file = config_of(&module.path);
    let Some(config) = files.json(&file)? else { return Ok(()) };
    let fields = Fields::new(&file, &config)?;
    for name in ["module_input_name", "module_output_name"] {
        let value: String = fields.or(name, VECTOR.to_owned())?;
        if value != VECTOR {
            return Err(fields.unsupported(name, &format!("\"{value}\""), VECTOR));
        }
    }
    Ok(())
}

/// Adapters of tasks, which a custom class of Transformer selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfTask {
    /// As in jina-embeddings-v3.
    Stacked,
    /// As in jina-embeddings-v5.
    Folders,
}

/// The adapters that `config.json` declares.
///
/// # Errors
/// The file is malformed.
fn adapters_of_tasks(files: &ModelFiles) -> Result<Option<OfTask>, LoadError> {
    const CONFIG: &str = "config.json";
    let Some(config) = files.json(CONFIG)? else { return Ok(None) };
    let fields = Fields::new(CONFIG, &config)?;
    let kinds = [("lora_adaptations", OfTask::Stacked), ("task_names", OfTask::Folders)];
    Ok(kinds.into_iter().find(|(field, _)| fields.get(field).is_some()).map(|(_, kind)| kind))
}
