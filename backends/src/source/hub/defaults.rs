//! Settings that Hugging Face's own tools share: where the hub is, where its files are kept, and the token.

use crate::options::HubModel;
use std::env;
use std::fs;
use std::path::PathBuf;

/// Address of the hub if none is given.
const ENDPOINT: &str = "https://huggingface.co";

/// Address of the hub, without a slash at its end.
pub(super) fn endpoint(model: &HubModel) -> String {
    let endpoint = model.endpoint.clone().or_else(|| env::var("HF_ENDPOINT").ok());
    endpoint
        .filter(|endpoint| !endpoint.trim().is_empty())
        .unwrap_or_else(|| ENDPOINT.to_owned())
        .trim_end_matches('/')
        .to_owned()
}

/// Folder of downloads: the given one, else `HF_HUB_CACHE`, else `HUGGINGFACE_HUB_CACHE`, else that in [`home`].
pub(super) fn cache_dir(model: &HubModel) -> PathBuf {
    let set = || folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
    model.cache_dir.clone().or_else(set).unwrap_or_else(|| home().join("hub"))
}

/// Folder of Hugging Face's tools: `HF_HOME`, else `huggingface` in `XDG_CACHE_HOME`, else in `~/.cache`.
fn home() -> PathBuf {
    let cache = || folder("XDG_CACHE_HOME").unwrap_or_else(|| env::home_dir().unwrap_or_default().join(".cache"));
    folder("HF_HOME").unwrap_or_else(|| cache().join("huggingface"))
}

/// Folder that a variable names.
fn folder(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// False where `HF_HUB_DISABLE_XET` says that files come from the hub itself instead of its Xet storage.
pub(super) fn uses_xet() -> bool {
    let is_true = |value: String| matches!(value.to_lowercase().as_str(), "1" | "on" | "yes" | "true");
    !env::var("HF_HUB_DISABLE_XET").is_ok_and(is_true)
}

/// Token for the hub: the given one, else `HF_TOKEN`, else the content of the file `HF_TOKEN_PATH`, else that of the file where
/// `hf auth login` keeps it. With `HF_HUB_DISABLE_IMPLICIT_TOKEN` the given one alone.
pub(super) fn token(model: &HubModel) -> Option<String> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    if model.token.is_some() || is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
        return model.token.clone();
    }
    let file = |path: PathBuf| Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|token| !token.is_empty());
    (env::var("HF_TOKEN").ok().filter(|token| !token.trim().is_empty()))
        .or_else(|| env::var_os("HF_TOKEN_PATH").and_then(|path| file(path.into())))
        .or_else(|| file(home().join("token")))
}
