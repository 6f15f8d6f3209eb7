//! Tasks of a model that embeds: its adapters, the routes of a Router, or lengths of texts.

use super::Evidence;
use super::head::Routes;
use crate::checkpoint::sentence_transformers::dense::{InputWidth, VectorModule};
use crate::checkpoint::sentence_transformers::module_list::ModuleList;
use crate::config::{AdapterTask, Instruction};
use crate::error::LoadError;
use crate::source::modules::router::RouteName;
use prefold_core::{Prompts, TaskProfile};

impl Evidence<'_> {
    /// The tasks, the routes of their texts and the width of the routes' vectors; without routes the width stays `width`.
    ///
    /// # Errors
    /// A dense module is malformed, the vectors of two routes have different widths, or the model has adapters too.
    pub(super) fn tasks(
        &self,
        list: &ModuleList,
        width: usize,
        prompts: &Prompts,
    ) -> Result<(Vec<TaskProfile>, Routes, usize), LoadError> {
        let adapters = self.adapters(prompts, list.normalizes(0));
        if list.tasks.is_empty() {
            let tasks =
                if adapters.is_empty() { self.tasks_with_lengths(prompts, list.normalizes(0)) } else { adapters };
            return Ok((tasks, Routes::default(), width));
        }
        if !adapters.is_empty() {
            let problem = "a Router in a model with adapters";
            return Err(LoadError::unsupported("modules.json", problem, "one of the two"));
        }
        let tasks = (1..).zip(&list.tasks).map(|(number, (task, sub_model))| TaskProfile {
            task: task.clone(),
            instruction: instruction(task, prompts).to_owned(),
            sub_model: *sub_model,
            excludes_prompts: prompts.excluded,
            normalizes: list.normalizes(number),
            max_input_length: self.metadata.texts.length_of(task),
        });
        let (routes, width) = self.routes(list, width)?;
        Ok((tasks.collect(), routes, width))
    }

    /// The tasks of the config's adapters.
    fn adapters(&self, prompts: &Prompts, normalizes: bool) -> Vec<TaskProfile> {
        let tasks = self.metadata.config.adapters.iter().flat_map(|adapters| &adapters.tasks);
        let profile = |AdapterTask { name, instruction, .. }: &AdapterTask| {
            let prompt = match instruction {
                Instruction::Text(text) => Some(text),
                Instruction::Prompt(name) => prompts.by_name.get(*name),
                Instruction::Default => prompts.default.as_ref(),
            };
            TaskProfile {
                task: name.clone(),
                instruction: prompt.cloned().unwrap_or_default(),
                excludes_prompts: prompts.excluded,
                normalizes,
                ..TaskProfile::default()
            }
        };
        tasks.map(profile).collect()
    }

    /// Tasks of a model with `query_length` or `document_length`, and neither adapters nor routes; empty without lengths.
    fn tasks_with_lengths(&self, prompts: &Prompts, normalizes: bool) -> Vec<TaskProfile> {
        let tasks = ["query", "document"].into_iter().filter(|_| self.metadata.texts.has_lengths());
        let with_length = |task: &str| TaskProfile {
            task: task.to_owned(),
            instruction: instruction(task, prompts).to_owned(),
            max_input_length: self.metadata.texts.length_of(task),
            excludes_prompts: prompts.excluded,
            normalizes,
            ..TaskProfile::default()
        };
        tasks.map(with_length).collect()
    }

    /// Dense modules of the routes for inputs of `width` values, and the width of their output.
    ///
    /// # Errors
    /// A module is malformed, or two routes have different widths.
    fn routes(&self, list: &ModuleList, width: usize) -> Result<(Routes, usize), LoadError> {
        let mut modules = Vec::with_capacity(list.routes.len());
        for route in &list.routes {
            let mut dense: Vec<VectorModule> = Vec::with_capacity(route.dense.len());
            for folder in &route.dense {
                let in_features = dense.last().map_or(width, |module| module.out_features());
                dense.push(self.vector_module(folder, InputWidth { values: in_features, reason: None })?);
            }
            modules.push(dense);
        }
        let out = |dense: &Vec<VectorModule>| dense.last().map_or(width, |module| module.out_features());
        let names = list.routes.iter().map(|route| &route.name);
        let width = same_width(names.zip(modules.iter().map(out)))?.unwrap_or(width);
        Ok((Routes { modules, of: list.route_of.clone() }, width))
    }
}

/// Default prompt of a task, as in sentence-transformers: `query` as in `encode_query`, `document` as documented for `encode_document` (two other
/// names too); other tasks have the default prompt, as in `encode`.
fn instruction<'a>(task: &str, Prompts { by_name, default, .. }: &'a Prompts) -> &'a str {
    let prompt = match task {
        "query" => by_name.get(task),
        "document" => ["document", "passage", "corpus"].iter().find_map(|&name| by_name.get(name)),
        _ => default.as_ref(),
    };
    prompt.map_or("", String::as_str)
}

/// Common width of the vectors of all routes; `None` without routes.
///
/// # Errors
/// Two routes have different widths, so their vectors cannot be compared.
pub(crate) fn same_width<'a>(
    mut widths: impl Iterator<Item = (&'a RouteName, usize)>,
) -> Result<Option<usize>, LoadError> {
    let Some((first, width)) = widths.next() else { return Ok(None) };
    match widths.find(|(_, other)| *other != width) {
        None => Ok(Some(width)),
        Some((route, other)) => {
            let what = format!(
                "routes whose vectors have different widths (\"{}\" {width} values, \"{}\" {other})",
                first.name, route.name
            );
            Err(LoadError::unsupported(&first.file, what, "one width"))
        }
    }
}
