//! Tasks of a model that embeds: its adapters, the routes of a Router, or lengths of texts.

use super::capabilities::Evidence;
use super::head::Routes;
use super::st_modules::{DenseModule, ModuleList};
use crate::LoadError;
use crate::config::AdapterTask;
use prefold_core::TaskAdapter;

impl Evidence<'_> {
    /// The tasks, the routes of their texts and the width of the vectors behind these; without routes vectors of `width` values stay what
    /// they are.
    ///
    /// # Errors
    /// A dense module is malformed, the vectors of two routes have different widths, or the model has adapters too.
    pub(super) fn tasks(
        &self,
        list: &ModuleList,
        width: usize,
    ) -> Result<(Vec<TaskAdapter>, Routes, usize), LoadError> {
        let adapters = self.adapters();
        if list.tasks.is_empty() {
            let tasks = if adapters.is_empty() { self.tasks_with_lengths() } else { adapters };
            return Ok((tasks, Routes::default(), width));
        }
        if !adapters.is_empty() {
            let problem = "a Router in a model with adapters";
            return Err(LoadError::unsupported("modules.json", problem, "one of the two"));
        }
        let tasks = list.tasks.iter().map(|(task, part)| {
            let instruction = self.instruction(task).to_owned();
            let max_input_length = self.metadata.texts.length_of(task);
            TaskAdapter { task: task.clone(), instruction, max_input_length, part: *part }
        });
        let (routes, width) = self.routes(list, width)?;
        Ok((tasks.collect(), routes, width))
    }

    /// The adapters of the config, by their tasks.
    fn adapters(&self) -> Vec<TaskAdapter> {
        let tasks = self.metadata.config.adapters.iter().flat_map(|adapters| &adapters.tasks);
        let adapter = |AdapterTask { name, instruction }: &AdapterTask| TaskAdapter {
            task: name.clone(),
            instruction: instruction.clone(),
            ..TaskAdapter::default()
        };
        tasks.map(adapter).collect()
    }

    /// The tasks of a model with lengths for texts of a task, and neither adapters nor routes; none without lengths.
    fn tasks_with_lengths(&self) -> Vec<TaskAdapter> {
        let tasks = ["query", "document"].into_iter().filter(|_| self.metadata.texts.has_lengths());
        let with_length = |task: &str| TaskAdapter {
            task: task.to_owned(),
            instruction: self.instruction(task).to_owned(),
            max_input_length: self.metadata.texts.length_of(task),
            ..TaskAdapter::default()
        };
        tasks.map(with_length).collect()
    }

    /// The prompt that sentence-transformers takes for a task: for documents also one of another name.
    fn instruction(&self, task: &str) -> &str {
        let names: &[&str] = if task == "document" { &["document", "passage", "corpus"] } else { &[task] };
        let prompts = &self.metadata.prompts.by_name;
        names.iter().find_map(|&name| prompts.get(name)).map_or("", String::as_str)
    }

    /// The dense modules of the routes behind vectors of `width` values, and the width of their vectors.
    ///
    /// # Errors
    /// One is malformed, or two have vectors of different widths.
    fn routes(&self, list: &ModuleList, width: usize) -> Result<(Routes, usize), LoadError> {
        let mut modules = Vec::with_capacity(list.routes.len());
        for folders in &list.routes {
            let mut route: Vec<DenseModule> = Vec::with_capacity(folders.len());
            for folder in folders {
                let in_features = route.last().map_or(width, |module| module.out_features);
                route.push(self.dense(folder, in_features)?);
            }
            modules.push(route);
        }
        let out = |route: &Vec<DenseModule>| route.last().map_or(width, |module| module.out_features);
        let widths: Vec<usize> = modules.iter().map(out).collect();
        if let Some(&other) = widths.iter().find(|&&other| other != widths[0]) {
            return Err(different_widths(widths[0], other));
        }
        Ok((Routes { modules, of: list.route_of.clone() }, widths.first().copied().unwrap_or(width)))
    }
}

/// A refusal of routes whose vectors could not be compared.
pub(super) fn different_widths(one: usize, other: usize) -> LoadError {
    let what = format!("a Router whose routes make vectors of different widths ({one} and {other} values)");
    LoadError::unsupported("modules.json", what, "one width")
}
