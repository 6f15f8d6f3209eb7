//! Sub-models of a Router, which serve texts of different tasks; each is read as a model of its own.

use super::capabilities::tasks::same_width;
use super::sentence_transformers::dense_uses;
use super::sentence_transformers::module_list::ModuleList;
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::source::ModelFiles;
use crate::source::modules::MODULES;
use crate::source::modules::router::RouteName;
use crate::source::modules::ways::{Way, Ways};
use prefold_core::{Capabilities, Task};

/// Maximum number of sub-models: each has a tokenizer and tables of its own. Published models have two.
const MAX_SUB_MODELS: usize = 8;

/// The files of a sub-model, and the options that it is read with.
#[derive(Debug)]
pub(super) struct SubModel {
    /// The folder of its tensors, for messages and the names of layers; empty for the only model.
    pub(super) name: String,
    /// A route through it; `None` without a Router of several models.
    pub(super) route: Option<RouteName>,
    pub(super) files: ModelFiles,
    pub(super) options: LoadOptions,
}

impl SubModel {
    /// The sub-models of a Router, the one for texts without a task first; for other models the model itself.
    ///
    /// # Errors
    /// There are too many sub-models, or an option applies only to a single model.
    pub(super) fn all(options: &LoadOptions, files: ModelFiles) -> Result<Vec<Self>, LoadError> {
        // A malformed list is refused where it is read, unless the options overrule it.
        let ways = if files.has_gguf() { None } else { Ways::read(&files).unwrap_or_default() };
        let sub_models: Vec<&Way> = ways.iter().filter(|ways| !ways.is_plain()).flat_map(Ways::sub_models).collect();
        if sub_models.len() < 2 {
            let files = match sub_models.first() {
                Some(way) => files.of_sub_model(0, way.folder()),
                None => files,
            };
            return Ok(vec![Self { name: String::new(), route: None, files, options: options.clone() }]);
        }
        if let Some(way) = sub_models.get(MAX_SUB_MODELS) {
            let what = format!("{} models behind one Router", sub_models.len());
            let file = way.route.as_ref().map_or(MODULES, |route| &route.file);
            return Err(LoadError::unsupported(file, what, format!("{MAX_SUB_MODELS} at most")));
        }
        let of_one_model = [
            ("--pooling", options.pooling.is_some()),
            ("--dense-path", options.dense_path.is_some()),
            ("--rerank-recipe", options.rerank_recipe.is_some()),
            ("--task", options.task.is_some_and(|task| task != Task::Embed)),
        ];
        if let Some((flag, _)) = of_one_model.iter().find(|(_, given)| *given) {
            let problem = format!("{flag} is for one model, and the Router of {} has several", files.display_name());
            return Err(LoadError::Options(problem));
        }
        let options = LoadOptions { task: Some(Task::Embed), ..options.clone() };
        let sub_model = |(index, way): (usize, &&Way)| Self {
            name: way.folder().to_owned(),
            route: way.route.clone(),
            files: files.of_sub_model(index, way.folder()),
            options: options.clone(),
        };
        let sub_models: Vec<Self> = sub_models.iter().enumerate().map(sub_model).collect();
        // As above.
        let lists: Vec<_> = sub_models.iter().filter_map(|it| ModuleList::read(&it.files).ok()).collect();
        dense_uses::check(&files, lists.iter().flat_map(ModuleList::dense_folders))?;
        Ok(sub_models)
    }

    /// Adds the sub-model's name to its error.
    pub(super) fn error(name: &str, error: LoadError) -> LoadError {
        if name.is_empty() {
            return error;
        }
        LoadError::SubModel { sub_model: name.to_owned(), source: Box::new(error) }
    }
}

/// Capabilities of a model with sub-models: the first one's, with the warnings of all.
pub(crate) fn joined<'a>(mut sub_models: impl Iterator<Item = &'a Capabilities>) -> Capabilities {
    let mut joined = sub_models.next().cloned().unwrap_or_default();
    for (index, sub_model) in (1..).zip(sub_models) {
        if let (Some(embed), Some(other)) = (&mut joined.embed, &sub_model.embed) {
            embed.token_dim = embed.token_dim.max(other.token_dim);
            let length_of = |task: &str| other.tasks.iter().find(|it| it.task == task)?.max_input_length;
            for task in embed.tasks.iter_mut().filter(|task| task.sub_model == index) {
                task.max_input_length = length_of(&task.task);
                task.excludes_prompts = other.prompts.excluded;
            }
        }
        let new: Vec<String> = sub_model.warnings.iter().filter(|it| !joined.warnings.contains(it)).cloned().collect();
        joined.warnings.extend(new);
    }
    joined
}

/// Checks that the vectors of all sub-models can be compared; each comes with a route through it.
///
/// # Errors
/// They have different widths.
pub(super) fn check_widths<'a>(
    sub_models: impl Iterator<Item = (&'a RouteName, &'a Capabilities)>,
) -> Result<(), LoadError> {
    same_width(sub_models.filter_map(|(route, it)| Some((route, it.embed.as_ref()?.dim)))).map(drop)
}
