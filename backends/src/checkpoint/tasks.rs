//! Tasks of a model that embeds: its adapters, or the routes of a Router.

use super::capabilities::Evidence;
use super::head::Routes;
use super::st_modules::DenseModule;
use super::st_router;
use crate::LoadError;
use crate::config::AdapterTask;
use prefold_core::TaskAdapter;

impl Evidence<'_> {
    /// The tasks, the routes of their texts and the width of the vectors behind these; without a router vectors of `width` values stay what
    /// they are.
    ///
    /// # Errors
    /// The router is malformed or has unsupported modules, or is one of a model with adapters.
    pub(super) fn tasks(
        &self,
        router: Option<&str>,
        width: usize,
    ) -> Result<(Vec<TaskAdapter>, Routes, usize), LoadError> {
        let adapters = self.adapters();
        match router {
            None => Ok((adapters, Routes::default(), width)),
            Some(_) if !adapters.is_empty() => {
                let problem = "a Router behind a model with adapters";
                Err(LoadError::unsupported("modules.json", problem, "one of the two"))
            }
            Some(folder) => self.routes(folder, width),
        }
    }

    /// The adapters of the config, by their tasks.
    fn adapters(&self) -> Vec<TaskAdapter> {
        let tasks = self.metadata.config.adapters.iter().flat_map(|adapters| &adapters.tasks);
        let adapter = |AdapterTask { name, instruction }: &AdapterTask| TaskAdapter {
            task: name.clone(),
            instruction: instruction.clone(),
        };
        tasks.map(adapter).collect()
    }

    /// The routes of the Router in a folder behind vectors of `width` values. A task's prompt is the one that sentence-transformers takes for
    /// it: for documents also one of another name.
    ///
    /// # Errors
    /// It is malformed or has unsupported modules, or its routes make vectors of different widths.
    fn routes(&self, folder: &str, width: usize) -> Result<(Vec<TaskAdapter>, Routes, usize), LoadError> {
        let router = st_router::read(self.files, folder)?;
        let (mut adapters, mut modules) = (Vec::new(), Vec::new());
        for st_router::Route { task, dense } in router.routes {
            let mut route: Vec<DenseModule> = Vec::with_capacity(dense.len());
            for folder in &dense {
                let in_features = route.last().map_or(width, |module| module.out_features);
                route.push(self.dense(folder, in_features)?);
            }
            let names: &[&str] = if task == "document" { &["document", "passage", "corpus"] } else { &[&task] };
            let prompts = &self.metadata.prompts.by_name;
            let instruction = names.iter().find_map(|&name| prompts.get(name)).cloned().unwrap_or_default();
            adapters.push(TaskAdapter { task, instruction });
            modules.push(route);
        }
        let out = |route: &Vec<DenseModule>| route.last().map_or(width, |module| module.out_features);
        let widths: Vec<usize> = modules.iter().map(out).collect();
        if widths.iter().any(|&other| other != widths[router.default]) {
            let what = "a Router whose routes make vectors of different widths";
            return Err(LoadError::unsupported("modules.json", what, "one width"));
        }
        Ok((adapters, Routes { modules, default: router.default }, widths[router.default]))
    }
}
