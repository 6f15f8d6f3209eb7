//! Files of sentence-transformers beside a model: modules, pooling, dense layers, prompts.

use super::st_module::{LIBRARY, MODULES, Module};
use super::st_transformer::{self, TextOutput};
use super::ways::{Way, Ways};
use crate::LoadError;
use crate::config::HeadActivation;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::{Pooling, Prompts};
use prefold_kernels::Activation;
use serde_json::Value;
use std::collections::BTreeMap;

const PROMPTS: &str = "config_sentence_transformers.json";
/// Limit of dense layers after pooling; each is kept in memory. No model has as many.
const MAX_DENSE: usize = 16;
/// Prompts of a model at most, and bytes of a prompt's name and text.
const MAX_PROMPTS: usize = 256;
const MAX_PROMPT_NAME: usize = 128;
const MAX_PROMPT_TEXT: usize = 16 << 10;
/// The class that takes the place of Transformer in jina-embeddings-v3: the same, with a task that chooses the adapter.
const WITH_ADAPTERS: &str = "custom_st.Transformer";
/// Input of a LogitScore module.
const LOGITS: &str = "causal_logits";
/// Usual folder of a dense module behind the pooling.
const DEFAULT_DENSE: &str = "2_Dense";
/// Folder of the pooling config if there is no `modules.json`.
const DEFAULT_POOLING: &str = "1_Pooling";

/// A dense layer after pooling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DenseModule {
    pub(crate) in_features: usize,
    pub(crate) out_features: usize,
    /// `[out_features, in_features]`
    pub(crate) weight: Vec<f32>,
    /// `[out_features]`
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) activation: HeadActivation,
}

/// The modules between the final states and the embedding, most of them as folders: those of a [part](super::ways) of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModuleList {
    pub(crate) pooling: Option<String>,
    /// The model's own pooler takes the place of a pooling module.
    pub(crate) pooler: bool,
    /// The folder of a table of vectors, which takes the place of the transformer and of pooling.
    pub(crate) table: Option<String>,
    /// Makes a language model a reranker; excludes pooling.
    pub(crate) logit_score: Option<String>,
    pub(crate) dense: Vec<String>,
    /// Dense modules behind them, for texts of different tasks; none where those of all tasks are the same.
    pub(crate) routes: Vec<Vec<String>>,
    /// The route of texts by the number of their task, first that of texts without one; 0 for tasks of other parts.
    pub(crate) route_of: Vec<usize>,
    /// The tasks of the model, and the index of the part that takes the texts of each.
    pub(crate) tasks: Vec<(String, usize)>,
}

impl ModuleList {
    /// Reads `modules.json`, or without one the pooling config in its usual place.
    ///
    /// # Errors
    /// The file is malformed, or a module or the order of modules is not supported.
    pub(crate) fn read(files: &ModelFiles) -> Result<Self, LoadError> {
        if let Some(ways) = Ways::read(files)? {
            return Self::of_part(&ways, files);
        }
        let pooling = files.read(&config_of(DEFAULT_POOLING))?.map(|_| DEFAULT_POOLING.to_owned());
        // An interrupted copy: the vectors would be others.
        if pooling.is_some() && files.exists(DEFAULT_DENSE)? {
            return Err(files.missing(MODULES, &format!(", which says what {DEFAULT_DENSE} is for")));
        }
        Ok(Self { pooling, ..Self::default() })
    }

    /// The modules of the ways that go through the part of the model whose files these are.
    fn of_part(Ways(ways): &Ways, files: &ModelFiles) -> Result<Self, LoadError> {
        let pooler = st_transformer::output(files)? == TextOutput::Pooler;
        let adapters = has_adapters(files)?;
        let mut lists = Vec::new();
        for (number, way) in ways.iter().enumerate().filter(|(_, way)| way.part == files.part()) {
            lists.push((number, Self::parse(way, files.folder(), pooler, adapters, ways.len() == 1)?));
        }
        let mut list = lists.first().map(|(_, list)| list.clone()).unwrap_or_default();
        for (_, Self { dense, .. }) in &lists {
            let common = list.dense.iter().zip(dense).take_while(|(one, other)| one == other).count();
            list.dense.truncate(common);
        }
        list.route_of = vec![0; ways.len()];
        for (number, Self { dense, .. }) in lists {
            let rest = &dense[list.dense.len()..];
            let known = list.routes.iter().position(|route| route == rest);
            list.route_of[number] = known.unwrap_or(list.routes.len());
            if known.is_none() {
                list.routes.push(rest.to_vec());
            }
        }
        if list.routes.len() < 2 {
            (list.routes, list.route_of) = (vec![], vec![]);
        }
        list.tasks = ways.iter().skip(1).map(|way| (way.task.clone(), way.part)).collect();
        Ok(list)
    }

    /// The modules of a way behind a Transformer in a folder that gives the states of tokens, or of its pooler; with adapters, it may be a
    /// class of its own. `--pooling` takes the place of the list of the only way.
    fn parse(
        Way { task, modules, .. }: &Way,
        folder: &str,
        pooler: bool,
        adapters: bool,
        is_only: bool,
    ) -> Result<Self, LoadError> {
        let mut list = Self { pooler, ..Self::default() };
        // The first module that Dense and Normalize may be.
        let mut behind = if pooler { 1 } else { 2 };
        let mut normalize = false;
        for (index, module) in modules.iter().enumerate() {
            let Module { class: kind, path } = module;
            if !(kind.starts_with(LIBRARY) || adapters && kind == WITH_ADAPTERS) {
                let supported = "the checkpoint brings Python code of its own, which is not run";
                return Err(LoadError::unsupported(MODULES, format!("the class {kind}"), supported));
            }
            let name = kind.rsplit('.').next().unwrap_or_default();
            if normalize && name != "Normalize" {
                let what = format!("{kind} after Normalize");
                return Err(LoadError::unsupported(MODULES, what, "Normalize as the last module"));
            }
            match (name, index) {
                ("Transformer", 0) if path == folder => {}
                ("Transformer", 0) => {
                    let what = format!("Transformer in the folder \"{path}\"");
                    return Err(LoadError::unsupported(MODULES, what, "the model's files at the top"));
                }
                ("StaticEmbedding", 0) => {
                    behind = 1;
                    list.table = Some(path.clone());
                }
                ("Pooling", 1) if behind == 2 => list.pooling = Some(path.clone()),
                ("LogitScore", 1) if behind == 2 => list.logit_score = Some(path.clone()),
                (_, 2..) if list.logit_score.is_some() => {
                    let what = format!("{kind} after LogitScore");
                    return Err(LoadError::unsupported(MODULES, what, "LogitScore as the last module"));
                }
                ("Dense", _) if index >= behind && list.dense.len() == MAX_DENSE => {
                    let what = format!("more than {MAX_DENSE} Dense modules");
                    return Err(LoadError::unsupported(MODULES, what, "one or a few"));
                }
                ("Dense", _) if index >= behind => list.dense.push(path.clone()),
                ("Normalize", _) if index >= behind => normalize = true,
                _ if module.is_router() => {
                    let supported = "one, whose routes have all the modules of their texts";
                    return Err(LoadError::unsupported(MODULES, "a Router behind another", supported));
                }
                _ => {
                    const ORDER: &str = "Transformer, then Pooling, then any number of Dense, then Normalize, \
                                         or Transformer, then LogitScore, or StaticEmbedding in the place of Transformer \
                                         and Pooling, or a Router in the place of any of these";
                    let of = if task.is_empty() { String::new() } else { format!(" of the task \"{task}\"") };
                    // The list alone names the folder of a table.
                    let can_leave_out = is_only && list.table.is_none();
                    let hint = if can_leave_out { "; --pooling leaves the modules out" } else { "" };
                    let what = format!("{kind} as module {index}{of}");
                    return Err(LoadError::unsupported(MODULES, what, format!("{ORDER}{hint}")));
                }
            }
        }
        match list.pooling.is_some() || list.logit_score.is_some() || behind == 1 {
            true => Ok(list),
            false => Err(LoadError::invalid(MODULES, "has no Pooling or LogitScore module")),
        }
    }

    /// Replaces the dense layer of the file by the one in `folder`.
    ///
    /// # Errors
    /// The file has several dense layers.
    pub(crate) fn replace_dense(&mut self, folder: &str) -> Result<(), LoadError> {
        if self.dense.len() > 1 {
            let folders = self.dense.join(", ");
            let problem = format!("--dense-path {folder} cannot replace one of several dense layers ({folders})");
            return Err(LoadError::Options(problem));
        }
        self.dense = vec![folder.to_owned()];
        Ok(())
    }
}

/// `true` if `config.json` has adapters beside the weights.
///
/// # Errors
/// The file is malformed.
fn has_adapters(files: &ModelFiles) -> Result<bool, LoadError> {
    const CONFIG: &str = "config.json";
    let config = files.json(CONFIG)?;
    let names =
        config.map(|config| Fields::new(CONFIG, &config).map(|fields| fields.get("lora_adaptations").is_some()));
    names.unwrap_or(Ok(false))
}

/// Pooling in a folder's `config.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolingConfig {
    /// Modes, in the order of their vectors.
    pub(crate) pooling: Vec<Pooling>,
    /// The tokens of a prompt are pooled too.
    pub(crate) include_prompt: bool,
}

/// Reads a pooling module.
///
/// # Errors
/// The config is missing or malformed, has an unsupported mode of pooling, or another width.
pub(crate) fn pooling(files: &ModelFiles, folder: &str, hidden_size: usize) -> Result<PoolingConfig, LoadError> {
    let file = config_of(folder);
    let config = files.json(&file)?.ok_or_else(|| files.missing(&file, ""))?;
    let fields = Fields::new(&file, &config)?;
    for width in ["word_embedding_dimension", "embedding_dimension"] {
        if let Some(found) = fields.optional::<usize>(width)?.filter(|&found| found != hidden_size) {
            return Err(fields.problem(width, &format!("is {found}, but the model's `hidden_size` is {hidden_size}")));
        }
    }
    let supported = || MODES.map(|mode| mode.name).join(", ");
    let pooling: Vec<Pooling> = match fields.get("pooling_mode") {
        None => flagged_modes(&fields)?,
        Some(given) => {
            let names: Vec<String> = match given {
                Value::Array(_) => fields.required("pooling_mode")?,
                _ => vec![fields.required("pooling_mode")?],
            };
            if names.len() > MODES.len() {
                let problem = format!("has {} modes, the limit is {}", names.len(), MODES.len());
                return Err(fields.problem("pooling_mode", &problem));
            }
            let mode = |name: &String| match MODES.iter().find(|mode| mode.name == name) {
                Some(mode) => Ok(mode.pooling),
                None => Err(LoadError::unsupported(&file, format!("pooling mode {name}"), supported())),
            };
            names.iter().map(mode).collect::<Result<_, _>>()?
        }
    };
    if pooling.is_empty() {
        return Err(LoadError::unsupported(&file, "no pooling mode", supported()));
    }
    Ok(PoolingConfig { pooling, include_prompt: fields.or("include_prompt", true)? })
}

/// A mode of pooling in sentence-transformers.
struct Mode {
    /// In `pooling_mode`.
    name: &'static str,
    /// The older spelling: one boolean for each mode.
    flag: &'static str,
    pooling: Pooling,
}

const fn mode(name: &'static str, flag: &'static str, pooling: Pooling) -> Mode {
    Mode { name, flag, pooling }
}

/// All modes, in the order in which sentence-transformers joins the vectors of those whose flags are set.
const MODES: [Mode; 6] = [
    mode("cls", "pooling_mode_cls_token", Pooling::Cls),
    mode("max", "pooling_mode_max_tokens", Pooling::Max),
    mode("mean", "pooling_mode_mean_tokens", Pooling::Mean),
    mode("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
    mode("weightedmean", "pooling_mode_weightedmean_tokens", Pooling::WeightedMean),
    mode("lasttoken", "pooling_mode_lasttoken", Pooling::LastToken),
];

/// Modes of a file with flags; mean if none is set, as in sentence-transformers.
fn flagged_modes(fields: &Fields<'_>) -> Result<Vec<Pooling>, LoadError> {
    let known = |key: &str| MODES.iter().any(|mode| mode.flag == key);
    for (key, _) in fields.entries().filter(|(key, _)| key.starts_with("pooling_mode_") && !known(key)) {
        if fields.or(key, false)? {
            return Err(fields.unsupported(key, "true", MODES.map(|mode| mode.flag).join(", ")));
        }
    }
    let mut set = Vec::new();
    for mode in &MODES {
        if fields.or(mode.flag, false)? {
            set.push(mode.pooling);
        }
    }
    Ok(if set.is_empty() { vec![Pooling::Mean] } else { set })
}

/// Reads a LogitScore module.
///
/// # Errors
/// The config is missing or malformed, or its input is not logits.
pub(crate) fn score_tokens(files: &ModelFiles, folder: &str) -> Result<Vec<u32>, LoadError> {
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let input: String = fields.or("module_input_name", LOGITS.to_owned())?;
    if input != LOGITS {
        return Err(fields.unsupported("module_input_name", &format!("\"{input}\""), LOGITS));
    }
    let negative = fields.optional("false_token_id")?;
    Ok(negative.into_iter().chain([fields.required("true_token_id")?]).collect())
}

/// Reads a dense module whose input is `in_features` wide.
///
/// # Errors
/// The config or weights are missing or malformed, or the activation is not supported.
pub(crate) fn dense(
    files: &ModelFiles,
    folder: &str,
    in_features: usize,
    with_weights: bool,
) -> Result<DenseModule, LoadError> {
    let folder = folder.trim_end_matches('/');
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let found: usize = fields.required("in_features")?;
    if found != in_features {
        return Err(fields.problem("in_features", &format!("is {found}, but its input is {in_features} wide")));
    }
    let out_features = match fields.required("out_features")? {
        out_features @ 1..=0x10_0000 => out_features,
        other => return Err(fields.problem("out_features", &format!("must be from 1 to 1048576, it is {other}"))),
    };
    // sentence-transformers' own default is Tanh.
    let activation: String = fields.or("activation_function", "Tanh".to_owned())?;
    let activation = match activation.rsplit('.').next().unwrap_or_default() {
        "Identity" => HeadActivation::Identity,
        "Tanh" => HeadActivation::Tanh,
        "ReLU" => HeadActivation::Of(Activation::Relu),
        "GELU" => HeadActivation::Of(Activation::Gelu),
        "SiLU" => HeadActivation::Of(Activation::Silu),
        _ => {
            let supported = "Identity, Tanh, ReLU, GELU, SiLU";
            return Err(fields.unsupported("activation_function", &format!("\"{activation}\""), supported));
        }
    };
    for (key, usual) in [("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")] {
        let value: String = fields.or(key, usual.to_owned())?;
        if value != usual {
            return Err(fields.unsupported(key, &format!("\"{value}\""), usual));
        }
    }
    if fields.or("use_residual", false)? {
        return Err(fields.unsupported("use_residual", "true", "false"));
    }
    if !with_weights {
        return Ok(DenseModule { in_features, out_features, weight: vec![], bias: None, activation });
    }
    let weights = files.weights_in(folder)?;
    let bias = fields.or("bias", true)?.then(|| weights.read("linear.bias", &[out_features])).transpose()?;
    let weight = weights.read("linear.weight", &[out_features, in_features])?;
    Ok(DenseModule { in_features, out_features, weight, bias, activation })
}

/// The model's named prompts.
///
/// # Errors
/// The file is malformed, or the default prompt is not among the prompts.
pub(crate) fn prompts(files: &ModelFiles) -> Result<Prompts, LoadError> {
    let Some(config) = files.json_at(PROMPTS)? else { return Ok(Prompts::default()) };
    let fields = Fields::new(PROMPTS, &config)?;
    let mut by_name = BTreeMap::new();
    if let Some(prompts) = fields.object("prompts")? {
        let count = prompts.entries().count();
        if count > MAX_PROMPTS {
            return Err(fields.problem("prompts", &format!("has {count} prompts, the limit is {MAX_PROMPTS}")));
        }
        for (name, _) in prompts.entries() {
            let text: String = prompts.or(name, String::new())?;
            for (what, found, limit) in
                [("a name", name.len(), MAX_PROMPT_NAME), ("a text", text.len(), MAX_PROMPT_TEXT)]
            {
                if found > limit {
                    return Err(prompts.problem(name, &format!("has {what} of {found} bytes, the limit is {limit}")));
                }
            }
            by_name.insert(name.clone(), text);
        }
    }
    let default = match fields.optional::<String>("default_prompt_name")? {
        None => None,
        Some(name) => match by_name.get(&name) {
            Some(text) => Some(text.clone()),
            None => return Err(fields.problem("default_prompt_name", &format!("\"{name}\" is not among `prompts`"))),
        },
    };
    Ok(Prompts { by_name, default, excluded: false })
}

/// Path of a module's config.
pub(crate) fn config_of(folder: &str) -> String {
    format!("{}/config.json", folder.trim_end_matches('/'))
}
