//! The source of the model and its rerank recipe, from the flags.

use super::error::ConfigError;
use crate::cli::args::{FilesArgs, LoadArgs, SourceArgs};
#[cfg(feature = "builtin-model")]
use crate::cli::builtin;
use prefold_backends::{DefaultPrompt, Dtype, HubModel, LoadOptions, ModelSource, check_options};
use prefold_core::RerankRecipe;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The model's id and source. `show_progress` draws a progress bar of the download if standard error is a terminal.
pub(crate) fn model_source(args: &SourceArgs, show_progress: bool) -> Result<(String, ModelSource), ConfigError> {
    let Some(id) = &args.model_id else { return builtin_model(args.revision.is_some()) };
    if exists(id)? {
        if args.revision.is_some() {
            return Err(ConfigError::RevisionOfPath(id.clone()));
        }
        return Ok((id.clone(), ModelSource::Path(PathBuf::from(id))));
    }
    if is_builtin(id) {
        return builtin_model(args.revision.is_some());
    }
    if let Some(named) = id_in_url(id) {
        return Err(ConfigError::Url { given: id.clone(), id: named });
    }
    if looks_like_a_path(id) {
        return Err(ConfigError::NoSuchPath(id.clone()));
    }
    if !is_hub_id(id) {
        return Err(ConfigError::NotAModel(id.clone()));
    }
    Ok((id.clone(), ModelSource::Hub(hub_model(args, id, show_progress))))
}

/// True for a path of a file or folder.
///
/// # Errors
/// A folder of the path may not be read. A hub id is no path, unless its first word is a folder here.
fn exists(id: &str) -> Result<bool, ConfigError> {
    let path = Path::new(id);
    match path.try_exists() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let starts_here = || path.components().next().is_some_and(|first| Path::new(&first).exists());
            if looks_like_a_path(id) || starts_here() {
                Err(ConfigError::Path(id.to_owned(), error))
            } else {
                Ok(false)
            }
        }
        exists => Ok(exists.unwrap_or(false)),
    }
}

/// A repository on the hub, with the access that the flags give.
fn hub_model(args: &SourceArgs, id: &str, show_progress: bool) -> HubModel {
    HubModel {
        id: id.to_owned(),
        revision: args.revision.clone(),
        token: args.hf_token.as_ref().map(|token| token.expose().to_owned()).filter(|token| !token.is_empty()),
        cache_dir: args.huggingface_hub_cache.clone(),
        endpoint: args.hf_endpoint.clone(),
        offline: args.offline,
        timeout: Duration::from_secs(args.download_timeout),
        user_agent: concat!("prefold/", env!("CARGO_PKG_VERSION")).to_owned(),
        show_progress: show_progress && std::io::stderr().is_terminal(),
    }
}

/// Access to the hub for the base of a LoRA adapter in a folder; `None` for other sources.
pub(crate) fn adapter_base(args: &SourceArgs, source: &ModelSource) -> Option<HubModel> {
    matches!(source, ModelSource::Path(_)).then(|| hub_model(args, "", true))
}

#[cfg(feature = "builtin-model")]
fn builtin_model(has_revision: bool) -> Result<(String, ModelSource), ConfigError> {
    if has_revision {
        return Err(ConfigError::RevisionOfNoModel);
    }
    Ok((builtin::NAME.to_owned(), ModelSource::Embedded(builtin::FILES)))
}

/// True for the name that logs and answers give the built-in model.
#[cfg(feature = "builtin-model")]
fn is_builtin(id: &str) -> bool {
    id == builtin::NAME
}

#[cfg(not(feature = "builtin-model"))]
fn is_builtin(_: &str) -> bool {
    false
}

#[cfg(not(feature = "builtin-model"))]
fn builtin_model(_: bool) -> Result<(String, ModelSource), ConfigError> {
    Err(ConfigError::NoModel)
}

fn looks_like_a_path(id: &str) -> bool {
    id.starts_with(['/', '.', '~']) || id.ends_with('/') || id.ends_with(".gguf") || id.matches('/').count() > 1
}

/// The id in the address of a model's page or file on the hub.
fn id_in_url(id: &str) -> Option<String> {
    let (_, rest) = id.split_once("://")?;
    let mut parts = rest.split(['/', '?', '#']).skip(1);
    let named = format!("{}/{}", parts.next()?, parts.next()?);
    is_hub_id(&named).then_some(named)
}

/// True for `organisation/name` in the characters that the hub allows.
fn is_hub_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = |name: &str| (1..=96).contains(&name.len()) && name.chars().all(allowed);
    id.split_once('/').is_some_and(|(organisation, name)| is_name(organisation) && is_name(name))
}

/// Options of loading the model in a dtype; `None` is the device's default.
pub(crate) fn load_options(
    source: ModelSource,
    args: LoadArgs,
    dtype: Option<Dtype>,
) -> Result<LoadOptions, ConfigError> {
    let options = LoadOptions {
        device: args.device,
        dtype,
        cpu_kernels: Some(args.cpu_kernels).filter(|name| name != "auto"),
        cpu_replicas: args.cpu_replicas,
        int8_skip: args.int8_skip.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect(),
        attention: args.attention,
        ..files_options(source, args.files)?
    };
    check_options(&options)?;
    Ok(options)
}

/// Options that override the model's files; the other options are defaults.
pub(crate) fn files_options(source: ModelSource, args: FilesArgs) -> Result<LoadOptions, ConfigError> {
    Ok(LoadOptions {
        source,
        rerank_recipe: args.rerank_recipe.map(rerank_recipe).transpose()?,
        pooling: args.pooling,
        task: args.task,
        default_prompt: match (args.default_prompt_name, args.default_prompt) {
            (Some(name), _) => Some(DefaultPrompt::Named(name)),
            (None, text) => text.map(DefaultPrompt::Text),
        },
        rerank_instruction: args.rerank_instruction,
        dense_path: args.dense_path,
        ..LoadOptions::default()
    })
}

/// A built-in recipe by its name, or one from a file.
fn rerank_recipe(name: String) -> Result<RerankRecipe, ConfigError> {
    let recipe = match Path::new(&name) {
        path if name.ends_with(".json") || path.exists() => std::fs::read_to_string(path)
            .map_err(|error| error.to_string())
            .and_then(|json| RerankRecipe::from_json(&json)),
        _ => RerankRecipe::builtin(&name),
    };
    recipe.map_err(|problem| ConfigError::Recipe(name, problem))
}
