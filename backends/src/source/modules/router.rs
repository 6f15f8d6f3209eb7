//! sentence-transformers' Router: modules that a text goes through by its task, such as `query` and `document`. Older versions call it
//! Asym.

use super::{ListFiles, Module};
use crate::error::LoadError;
use crate::json::{Fields, names_in_order, parse_json};
use crate::source::names::inside;

/// Names of the config: of a Router, and of an Asym.
const CONFIGS: [&str; 2] = ["router_config.json", "config.json"];
/// Maximum routes of a router, modules of a route, and mappings.
const MAX_ROUTES: usize = 16;
const MAX_MODULES: usize = 16;
const MAX_MAPPINGS: usize = 64;
/// Maximum bytes of the name of a route or task; messages and answers repeat it.
const MAX_NAME: usize = 128;
/// The modality of all texts.
const TEXT: &str = "text";

/// The routes of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Router {
    /// The file of its config.
    file: String,
    routes: Vec<Route>,
    /// Mappings of texts; of one task, mappings for texts come before mappings for any modality.
    mappings: Vec<Mapping>,
    /// The default route, for texts without a task.
    default: Option<String>,
}

/// A list of modules.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    name: String,
    modules: Vec<Module>,
}

/// A route's name and its file, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteName {
    pub(crate) file: String,
    pub(crate) name: String,
}

/// A task and the route of its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    /// `None` for any task.
    task: Option<String>,
    route: String,
}

impl Router {
    /// Paths of the config of a router in a folder, which is empty for the top; the first that exists is read.
    pub(crate) fn configs(folder: &str) -> impl Iterator<Item = String> {
        // At the top, `config.json` is the config of a transformer.
        let files = CONFIGS.into_iter().take(if folder.is_empty() { 1 } else { CONFIGS.len() });
        files.map(|file| inside(folder, file))
    }

    /// Reads the router in a folder.
    ///
    /// # Errors
    /// The config is missing or malformed, or texts without a task have no route.
    pub(super) fn read(files: &dyn ListFiles, folder: &str) -> Result<Self, LoadError> {
        let mut found = None;
        for file in Self::configs(folder) {
            if let Some(bytes) = files.bytes(&file)? {
                found = Some((file, bytes));
                break;
            }
        }
        let (file, bytes) = found.ok_or_else(|| files.not_there(&inside(folder, CONFIGS[0])))?;
        let config = parse_json(&file, &bytes)?;
        let fields = Fields::new(&file, &config)?;
        let names = names_in_order(&file, &bytes, "structure")?;
        let routes = routes((&file, &fields), names, folder)?;
        if routes.is_empty() {
            return Err(fields.problem("structure", "has no routes"));
        }
        let parameters = fields.object("parameters")?;
        let (mut default, mut takes_first, mut mappings) = (None, true, Vec::new());
        if let Some(parameters) = &parameters {
            default = parameters.optional::<String>("default_route")?;
            takes_first = parameters.or("allow_empty_key", true)?;
            mappings = mappings_of(parameters)?;
        }
        let is_known = |name: &String| routes.iter().any(|route| route.name == *name);
        let named = default.iter().map(|route| ("default_route", route));
        let mut named = named.chain(mappings.iter().map(|mapping| ("route_mappings", &mapping.route)));
        if let Some((field, route)) = named.find(|(_, route)| !is_known(route)) {
            return Err(fields.problem(field, &format!("\"{route}\" is not among the routes")));
        }
        let first = routes.first().map(|route| route.name.clone());
        let router = Self { file: file.clone(), routes, mappings, default: default.or(first.filter(|_| takes_first)) };
        match router.route(None) {
            Some(_) => Ok(router),
            None => {
                let supported = "the name of a route, for texts without a task";
                Err(fields.unsupported("default_route", "null with `allow_empty_key` false", supported))
            }
        }
    }

    /// The tasks that a text may have: the names of the routes and the tasks of the mappings.
    pub(super) fn tasks(&self) -> Vec<&str> {
        let mut tasks: Vec<&str> = self.routes.iter().map(|route| route.name.as_str()).collect();
        for task in self.mappings.iter().filter_map(|mapping| mapping.task.as_deref()) {
            if !tasks.contains(&task) {
                tasks.push(task);
            }
        }
        tasks
    }

    /// The route of texts of a task and its modules, with the priorities of sentence-transformers: a mapping of the task, a mapping of any
    /// task, the route of the task's name, a route for texts, and without a task the default route.
    pub(super) fn route(&self, task: Option<&str>) -> Option<(RouteName, &[Module])> {
        let mapped = |task: Option<&str>| self.mappings.iter().find(|mapping| mapping.task.as_deref() == task);
        let mapped = mapped(task).or_else(|| mapped(None)).map(|mapping| mapping.route.as_str());
        let route = |name: &str| self.routes.iter().find(|route| route.name == name);
        let default = self.default.as_deref().filter(|_| task.is_none());
        let mut names = mapped.into_iter().chain(task).chain([TEXT]).chain(default);
        let Route { name, modules } = names.find_map(route)?;
        Some((RouteName { file: self.file.clone(), name: name.clone() }, modules))
    }
}

/// The routes with these names.
fn routes((file, fields): (&str, &Fields<'_>), names: Vec<String>, folder: &str) -> Result<Vec<Route>, LoadError> {
    let missing = |name: &str| fields.problem(name, "is missing");
    let types = fields.object("types")?.ok_or_else(|| missing("types"))?;
    let structure = fields.object("structure")?.ok_or_else(|| missing("structure"))?;
    let mut routes = Vec::new();
    for name in names {
        let modules: Vec<String> = structure.required(&name)?;
        if routes.len() == MAX_ROUTES || modules.len() > MAX_MODULES {
            let supported = format!("at most {MAX_ROUTES} routes of {MAX_MODULES} modules");
            return Err(fields.unsupported("structure", "with more routes or modules", supported));
        }
        check_name(fields, "structure", &name)?;
        let module = |id: &String| Module::new((file, format!("`{id}`")), types.required(id)?, folder, id);
        routes.push(Route { modules: modules.iter().map(module).collect::<Result<_, LoadError>>()?, name });
    }
    Ok(routes)
}

/// Checks the name of a route or task.
///
/// # Errors
/// The name is too long.
fn check_name(fields: &Fields<'_>, field: &str, name: &str) -> Result<(), LoadError> {
    match name.len() {
        ..=MAX_NAME => Ok(()),
        length => Err(fields.problem(field, &format!("has a name of {length} bytes, the limit is {MAX_NAME}"))),
    }
}

/// The mappings for texts. A key is a pair in Python's syntax.
///
/// # Errors
/// A key has another form.
fn mappings_of(parameters: &Fields<'_>) -> Result<Vec<Mapping>, LoadError> {
    let Some(mappings) = parameters.object("route_mappings")? else { return Ok(vec![]) };
    let (mut of_texts, mut of_all) = (Vec::new(), Vec::new());
    for (index, (key, _)) in mappings.entries().enumerate() {
        let route: String = mappings.required(key)?;
        if index == MAX_MAPPINGS {
            let supported = format!("at most {MAX_MAPPINGS}");
            return Err(parameters.unsupported("route_mappings", "with more mappings", supported));
        }
        let Some((task, modality)) = pair(key) else {
            let supported = "pairs of a task and a modality, such as ('query', 'text')";
            return Err(parameters.unsupported("route_mappings", &format!("with the key {key}"), supported));
        };
        check_name(parameters, "route_mappings", task.as_deref().unwrap_or_default())?;
        match modality {
            Modality::Named(modality) if modality == TEXT => of_texts.push(Mapping { task, route }),
            Modality::Any => of_all.push(Mapping { task, route }),
            Modality::Named(_) | Modality::Several => {}
        }
    }
    of_texts.extend(of_all);
    Ok(of_texts)
}

/// The modality in the key of a mapping.
#[derive(Debug, PartialEq, Eq)]
enum Modality {
    Any,
    Named(String),
    /// Several modalities, which no text has.
    Several,
}

/// Parses a pair of a task or `None`, and a modality, several of them or `None`.
fn pair(key: &str) -> Option<(Option<String>, Modality)> {
    let (task, modality) = key.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let modality = modality.trim();
    if modality.starts_with('(') && modality.ends_with(')') {
        return Some((name(task)?, Modality::Several));
    }
    let modality = name(modality)?.map_or(Modality::Any, Modality::Named);
    Some((name(task)?, modality))
}

/// Parses a quoted string without quotes inside, or `None`.
fn name(text: &str) -> Option<Option<String>> {
    let text = text.trim();
    if text == "None" {
        return Some(None);
    }
    let quoted = ['\'', '"'].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote))?;
    (!quoted.contains(['\'', '"', '\\', ','])).then(|| Some(quoted.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_mappings_are_pairs() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(pair("('query', 'text')"), Some((some("query"), Modality::Named("text".to_owned()))));
        assert_eq!(pair("(None, \"image\")"), Some((None, Modality::Named("image".to_owned()))));
        assert_eq!(pair("('a', None)"), Some((some("a"), Modality::Any)));
        assert_eq!(pair("(None, ('image', 'text'))"), Some((None, Modality::Several)));
        for key in ["query", "('a')", "(1, 'text')", "('a', text)", "('a'b', 'text')"] {
            assert_eq!(pair(key), None, "{key}");
        }
    }

    fn router(mappings: &[(Option<&str>, &str)], default: Option<&str>) -> Router {
        let module = |name: &str| Module::new(("x", name.to_owned()), name.to_owned(), "", name).unwrap();
        let route = |name: &str| Route { name: name.to_owned(), modules: vec![module(name)] };
        let mapping =
            |&(task, route): &(Option<&str>, &str)| Mapping { task: task.map(str::to_owned), route: route.to_owned() };
        Router {
            file: "x".to_owned(),
            routes: ["query", "document", "image"].map(route).into(),
            mappings: mappings.iter().map(mapping).collect(),
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn the_route_of_a_text_is_that_of_sentence_transformers() {
        let route =
            |router: &Router, task: Option<&str>| router.route(task).map(|(_, modules)| modules[0].path.clone());
        let some = |name: &str| Some(name.to_owned());
        let plain = router(&[], Some("document"));
        assert_eq!((route(&plain, None), route(&plain, Some("query"))), (some("document"), some("query")));
        assert_eq!(route(&plain, Some("other")), None);
        let mapped = router(&[(Some("search"), "query"), (Some("image"), "document")], None);
        assert_eq!((route(&mapped, Some("search")), route(&mapped, Some("image"))), (some("query"), some("document")));
        assert_eq!((route(&mapped, Some("query")), route(&mapped, None)), (some("query"), None));
        assert_eq!(mapped.tasks(), ["query", "document", "image", "search"]);
        let catching = router(&[(Some("search"), "query"), (None, "document")], Some("image"));
        assert_eq!((route(&catching, None), route(&catching, Some("image"))), (some("document"), some("document")));
        assert_eq!(route(&catching, Some("search")), some("query"));
    }
}
