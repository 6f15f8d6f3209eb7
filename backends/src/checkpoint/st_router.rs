//! sentence-transformers' Router: modules that a text goes through by its task, such as `query` and `document`.

use super::st_modules::class_name;
use crate::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;

const CONFIG: &str = "router_config.json";
/// Routes of a router at most, and modules of a route.
const MAX_ROUTES: usize = 16;
const MAX_MODULES: usize = 16;

/// The routes behind a model's pooling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Router {
    pub(crate) routes: Vec<Route>,
    /// Index of the route of texts without a task.
    pub(crate) default: usize,
}

/// Dense modules for the texts of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) task: String,
    /// Folders, in order.
    pub(crate) dense: Vec<String>,
}

/// Reads the router in a folder.
///
/// # Errors
/// The config is missing or malformed, a route has other modules than Dense and then Normalize, or texts without a task have no route.
pub(crate) fn read(files: &ModelFiles, folder: &str) -> Result<Router, LoadError> {
    let folder = folder.trim_end_matches('/');
    let file = format!("{folder}/{CONFIG}");
    let config = files.json(&file)?.ok_or_else(|| files.missing(&file, ""))?;
    let fields = Fields::new(&file, &config)?;
    let missing = |name: &str| fields.problem(name, "is missing");
    let types = fields.object("types")?.ok_or_else(|| missing("types"))?;
    let structure = fields.object("structure")?.ok_or_else(|| missing("structure"))?;
    let mut routes = Vec::new();
    for (task, _) in structure.entries() {
        let modules: Vec<String> = structure.required(task)?;
        if routes.len() == MAX_ROUTES || modules.len() > MAX_MODULES {
            let supported = format!("{MAX_ROUTES} routes of {MAX_MODULES} modules");
            return Err(fields.unsupported("structure", "with more routes or modules", supported));
        }
        let mut route = Route { task: task.clone(), dense: vec![] };
        for (index, module) in modules.iter().enumerate() {
            let class: String = types.required(module)?;
            match class_name(&class) {
                Some("Dense") => route.dense.push(format!("{folder}/{module}")),
                // The engine scales to unit length.
                Some("Normalize") if index + 1 == modules.len() => {}
                _ => {
                    let what = format!("{class} in the route \"{task}\" of a Router");
                    let supported = "Dense modules, then Normalize, behind one Transformer and its Pooling";
                    return Err(LoadError::unsupported(&file, what, supported));
                }
            }
        }
        routes.push(route);
    }
    let parameters = fields.object("parameters")?;
    let default: Option<String> = parameters.map(|it| it.optional("default_route")).transpose()?.flatten();
    let Some(default) = default else {
        return Err(fields.unsupported("default_route", "null", "the name of a route, for texts without a task"));
    };
    match routes.iter().position(|route| route.task == default) {
        Some(default) => Ok(Router { routes, default }),
        None => Err(fields.problem("default_route", &format!("\"{default}\" is not among the routes"))),
    }
}
