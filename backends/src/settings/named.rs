//! Fields of a model's files that have no effect here and may have one in the libraries.

use super::list::find;
use super::row::{File, Mark};
use crate::error::LoadError;
use crate::json::{Fields, shown};
use crate::source::ModelFiles;
use crate::source::modules::router::Router;
use crate::source::modules::ways::Ways;
use crate::source::modules::{MODULES, Module};
use crate::source::names::SENTENCE_CONFIGS;
use serde_json::Value;
use std::borrow::Borrow;

/// Maximum fields in a warning.
const MAX_NAMED: usize = 8;

/// Files at the top whose fields are named.
const TOP: [File; 5] = [File::Config, File::TokenizerConfig, File::SpecialTokens, File::Prompts, File::AdapterConfig];

/// A warning for each file that has such fields. With `is_gguf`, only the files of sentence-transformers apply among
/// the files in the GGUF file's folder.
///
/// # Errors
/// A file is malformed.
pub(crate) fn named(files: &ModelFiles, is_gguf: bool) -> Result<Vec<String>, LoadError> {
    let mut warnings = Vec::new();
    for file in TOP.into_iter().filter(|&file| !is_gguf || file == File::Prompts) {
        let json = match file {
            File::Prompts => files.json_at(file.name())?,
            // A malformed file is reported where it is read, which a list of added tokens makes unnecessary.
            File::SpecialTokens => files.json(file.name()).unwrap_or_default(),
            _ => files.json(file.name())?,
        };
        warnings.extend(json.and_then(|json| warning(file, file.name(), &json)));
    }
    for name in SENTENCE_CONFIGS {
        if let Some(json @ Value::Object(_)) = files.json(name)?
            && json.as_object().is_some_and(|fields| !fields.is_empty())
        {
            warnings.extend(warning(File::Transformer, name, &json));
            break;
        }
    }
    // A malformed list is reported where the model is read, unless options overrule it.
    warnings.extend(of_module_lists(files));
    let ways = match Ways::read(files) {
        Ok(None) if !is_gguf => {
            warnings.extend(followed_without_list(files)?);
            None
        }
        ways => ways.unwrap_or_default(),
    };
    let mut seen: Vec<&Module> = Vec::new();
    for module in ways.iter().flat_map(|Ways(ways)| ways).flat_map(|way| &way.modules) {
        if module.path.is_empty() || seen.contains(&module) {
            continue;
        }
        seen.push(module);
        let Some(file) = File::of_module(module.short_class()) else { continue };
        let name = format!("{}/config.json", module.path);
        warnings.extend(files.json(&name)?.and_then(|json| warning(file, &name, &json)));
    }
    Ok(warnings)
}

/// The warnings about fields that sentence-transformers does not read where `modules.json` is missing.
fn followed_without_list(files: &ModelFiles) -> Result<Vec<String>, LoadError> {
    let transformer = SENTENCE_CONFIGS.map(|name| (File::Transformer, name));
    let mut warnings = Vec::new();
    for (file, name) in transformer.into_iter().chain([(File::Prompts, File::Prompts.name())]) {
        let Some(json) = files.json(name)? else { continue };
        let Ok(fields) = Fields::new(name, &json) else { continue };
        let has_effect = |field: &str, value: &Value| {
            let is_empty = |value: &Value| value.as_object().is_some_and(|items| items.values().all(|it| it == ""));
            matches!(find(file, field), Some((Mark::Followed, _))) && !is_default(value, "") && !is_empty(value)
        };
        let followed = listed(fields.entries().filter(|(field, value)| has_effect(field, value)));
        warnings.extend(followed.map(|(fields, verb)| {
            format!("{name}: {fields} {verb} followed; sentence-transformers does not read this file without {MODULES}")
        }));
    }
    Ok(warnings)
}

/// The warnings about the entries of `modules.json` and the configs of Routers.
fn of_module_lists(files: &ModelFiles) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Ok(Some(Value::Array(entries))) = files.json(MODULES) {
        let entries = entries.iter().enumerate();
        let fields =
            entries.flat_map(|(index, entry)| named_fields(File::Modules, MODULES, &format!("[{index}]."), entry));
        warnings.extend(ignored(MODULES, fields));
    }
    for router in Module::list(files).ok().flatten().iter().flatten().filter(|module| module.is_router()) {
        let mut configs = Router::configs(&router.path);
        let found = configs.find_map(|name| Some((files.json_at(&name).ok()??, name)));
        warnings.extend(found.and_then(|(json, name)| warning(File::Router, &name, &json)));
    }
    warnings
}

/// The warning about a file's fields.
pub(crate) fn warning(file: File, name: &str, json: &Value) -> Option<String> {
    ignored(name, named_fields(file, name, "", json).into_iter())
}

/// The fields of an object that are named, and of the objects in it that have rows of their own; `path` is the object's place in the file.
fn named_fields<'a>(file: File, name: &'a str, path: &str, json: &'a Value) -> Vec<(String, &'a Value)> {
    let Ok(fields) = Fields::new(name, json) else { return vec![] };
    let mut found = Vec::new();
    for (field, value) in fields.entries() {
        match file.of_object(field).filter(|_| value.is_object()) {
            Some(inner) => found.extend(named_fields(inner, name, &format!("{path}{field}."), value)),
            None if is_named(file, field, value) => found.push((format!("{path}{field}"), value)),
            None => {}
        }
    }
    found
}

/// `true` for a field that has no effect, unless it has its default.
pub(super) fn is_named(file: File, field: &str, value: &Value) -> bool {
    match find(file, field) {
        Some((Mark::Named, default)) => !is_default(value, default),
        Some((Mark::Followed | Mark::Refused | Mark::NamedInSome | Mark::Inert, _)) => false,
        None => !is_default(value, ""),
    }
}

/// The warning about fields that have no effect; `None` without any.
pub(super) fn ignored<N: AsRef<str>, V: Borrow<Value>>(
    name: &str,
    fields: impl Iterator<Item = (N, V)>,
) -> Option<String> {
    listed(fields).map(|(fields, verb)| format!("{name}: {fields} {verb} ignored"))
}

/// Fields with their values, and the verb for as many; `None` without any.
fn listed<N: AsRef<str>, V: Borrow<Value>>(fields: impl Iterator<Item = (N, V)>) -> Option<(String, &'static str)> {
    let all: Vec<(N, V)> = fields.collect();
    let named = all.iter().take(MAX_NAMED);
    let mut named: Vec<String> = named
        .map(|(field, value)| format!("`{}`: {}", prefold_core::shown(field.as_ref()), shown(value.borrow())))
        .collect();
    if let Some(more) = all.len().checked_sub(MAX_NAMED).filter(|&more| more > 0) {
        named.push(format!("{more} more"));
    }
    let verb = if all.len() == 1 { "is" } else { "are" };
    (!named.is_empty()).then(|| (named.join(", "), verb))
}

/// `true` for the default, given as JSON, and for values that turn nothing on.
fn is_default(value: &Value, default: &str) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) if text.is_empty() => true,
        Value::Array(items) if items.is_empty() => true,
        Value::Object(items) if items.is_empty() => true,
        value => default.split(" or ").any(|default| serde_json::from_str(default).is_ok_and(|it: Value| it == *value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ignored_and_unknown_fields_are_named_with_their_values() {
        let of = |json: Value| warning(File::Prompts, "x.json", &json);
        assert_eq!(of(json!({"prompts": {}, "__version__": {"a": 1}, "similarity_fn_name": "cosine"})), None);
        assert_eq!(of(json!({"new_field": null, "another": false, "third": [], "fourth": ""})), None);
        let dot = of(json!({"similarity_fn_name": "dot"}));
        assert_eq!(dot.as_deref(), Some("x.json: `similarity_fn_name`: \"dot\" is ignored"));
        let both = of(json!({"new_field": 3, "similarity_fn_name": "dot"})).unwrap();
        assert!(
            both.contains("`new_field`: 3") && both.contains("`similarity_fn_name`") && both.ends_with("are ignored")
        );
        let many: serde_json::Map<String, Value> = (0..20).map(|i| (format!("field{i:02}"), json!(1))).collect();
        let many = of(Value::Object(many)).unwrap();
        assert!(many.contains("`field07`: 1, 12 more are ignored") && !many.contains("field08"), "{many}");
        let nested = warning(
            File::Config,
            "config.json",
            &json!({"rope_parameters": {"full_attention": {"rope_theta": 1.0, "new": 2}, "newer": 3}}),
        );
        assert_eq!(
            nested.as_deref(),
            Some("config.json: `rope_parameters.full_attention.new`: 2, `rope_parameters.newer`: 3 are ignored")
        );
        let long = of(json!({"x\n".repeat(1000): "y".repeat(5000)})).unwrap();
        assert!(long.len() < 1000 && !long.contains('\n'), "{long}");
    }
}
