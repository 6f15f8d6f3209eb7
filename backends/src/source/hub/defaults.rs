//! Settings shared with Hugging Face's tools: the hub's URL, the cache folder and the token.

use crate::options::HubModel;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// URL of the hub if none is given.
const ENDPOINT: &str = "https://huggingface.co";

/// URL of the hub, without a slash at its end.
pub(super) fn endpoint(model: &HubModel) -> String {
    let endpoint = model.endpoint.clone().or_else(|| env::var("HF_ENDPOINT").ok());
    endpoint
        .filter(|endpoint| !endpoint.trim().is_empty())
        .unwrap_or_else(|| ENDPOINT.to_owned())
        .trim_end_matches('/')
        .to_owned()
}

/// Folder of downloads: the given one, else `HF_HUB_CACHE`, else `HUGGINGFACE_HUB_CACHE`, else `hub` in the folder of Hugging Face's tools.
pub(super) fn cache_dir(model: &HubModel) -> PathBuf {
    Environment::of_process().cache_dir(model.cache_dir.as_deref())
}

/// False if `HF_HUB_DISABLE_XET` is set: files then come from the hub itself instead of its Xet storage.
pub(super) fn uses_xet() -> bool {
    !is_true("HF_HUB_DISABLE_XET")
}

/// Token for the hub: the given one, else `HF_TOKEN`, else the content of the file `HF_TOKEN_PATH`, else the content of the file that
/// `hf auth login` writes. With `HF_HUB_DISABLE_IMPLICIT_TOKEN` only the given one.
pub(super) fn token(model: &HubModel) -> Option<String> {
    if model.token.is_some() || is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
        return model.token.clone();
    }
    let environment = Environment::of_process();
    let file = |path: PathBuf| Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|token| !token.is_empty());
    (env::var("HF_TOKEN").ok().filter(|token| !token.trim().is_empty()))
        .or_else(|| environment.folder("HF_TOKEN_PATH").and_then(file))
        .or_else(|| file(environment.home().join("token")))
}

/// True if a variable has one of the values that Hugging Face's tools take as true.
fn is_true(variable: &str) -> bool {
    env::var(variable).is_ok_and(|value| matches!(value.to_lowercase().as_str(), "1" | "on" | "yes" | "true"))
}

/// The user's variables and home folder, from which paths are derived like in Hugging Face's tools.
struct Environment<F> {
    variable: F,
    user_home: PathBuf,
}

impl Environment<fn(&str) -> Option<OsString>> {
    fn of_process() -> Self {
        Self { variable: |name| env::var_os(name), user_home: env::home_dir().unwrap_or_default() }
    }
}

impl<F: Fn(&str) -> Option<OsString>> Environment<F> {
    /// The folder of downloads; `given` has priority.
    fn cache_dir(&self, given: Option<&Path>) -> PathBuf {
        given
            .map(|path| self.expanded(path))
            .or_else(|| self.folder("HF_HUB_CACHE"))
            .or_else(|| self.folder("HUGGINGFACE_HUB_CACHE"))
            .unwrap_or_else(|| self.home().join("hub"))
    }

    /// Folder of Hugging Face's tools: `HF_HOME`, else `huggingface` in `XDG_CACHE_HOME`, else in `~/.cache`.
    fn home(&self) -> PathBuf {
        let cache = || self.folder("XDG_CACHE_HOME").unwrap_or_else(|| self.user_home.join(".cache"));
        self.folder("HF_HOME").unwrap_or_else(|| cache().join("huggingface"))
    }

    /// Path that a variable names; an empty one names none.
    fn folder(&self, variable: &str) -> Option<PathBuf> {
        let path = (self.variable)(variable).filter(|path| !path.is_empty())?;
        Some(self.expanded(Path::new(&path)))
    }

    /// A path with a leading `~` replaced by the home folder, and then `$NAME` and `${NAME}` by their values, as Python's
    /// `os.path.expandvars(os.path.expanduser(path))`. Names without a value stay, and so does `~user`.
    fn expanded(&self, path: &Path) -> PathBuf {
        let path = match path.strip_prefix("~") {
            Ok(rest) if rest.as_os_str().is_empty() => self.user_home.clone(),
            Ok(rest) => self.user_home.join(rest),
            Err(_) => path.to_owned(),
        };
        let mut rest = path.as_os_str().as_bytes();
        let mut expanded = Vec::new();
        while let Some(at) = rest.iter().position(|&byte| byte == b'$') {
            let (before, reference) = rest.split_at(at);
            expanded.extend_from_slice(before);
            let (name, length) = variable_name(reference);
            match str::from_utf8(name).ok().filter(|name| !name.is_empty()).and_then(&self.variable) {
                Some(value) => expanded.extend_from_slice(value.as_bytes()),
                None => expanded.extend_from_slice(&reference[..length]),
            }
            rest = &reference[length..];
        }
        expanded.extend_from_slice(rest);
        OsString::from_vec(expanded).into()
    }
}

/// The name in a reference to a variable that begins with `$`, empty if there is none, and the length of the reference.
fn variable_name(reference: &[u8]) -> (&[u8], usize) {
    let inner = &reference[1..];
    if let Some(braced) = inner.strip_prefix(b"{") {
        return match braced.iter().position(|&byte| byte == b'}') {
            Some(end) => (&braced[..end], end + 3),
            None => (&[], 1),
        };
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = inner.iter().position(|byte| !is_name(byte)).unwrap_or(inner.len());
    (&inner[..end], end + 1)
}

#[cfg(test)]
mod tests {
    use super::Environment;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    fn cache_dir(variables: &[(&str, &str)], given: Option<&str>) -> PathBuf {
        let variable = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some(OsString::from(value))
        };
        Environment { variable, user_home: "/home/me".into() }.cache_dir(given.map(Path::new))
    }

    #[test]
    fn the_cache_is_where_the_tools_of_the_hub_look_for_it() {
        let all = [
            ("HF_HUB_CACHE", "/new"),
            ("HUGGINGFACE_HUB_CACHE", "/old"),
            ("HF_HOME", "/hf"),
            ("XDG_CACHE_HOME", "/xdg"),
        ];
        for (from, folder) in [
            (0, "/new"),
            (1, "/old"),
            (2, "/hf/hub"),
            (3, "/xdg/huggingface/hub"),
            (4, "/home/me/.cache/huggingface/hub"),
        ] {
            assert_eq!(cache_dir(&all[from..], None), Path::new(folder), "{from}");
        }
        assert_eq!(cache_dir(&all, Some("/given")), Path::new("/given"));
        assert_eq!(cache_dir(&[("HF_HUB_CACHE", ""), ("HF_HOME", "/hf")], None), Path::new("/hf/hub"));
    }

    #[test]
    fn paths_are_expanded_as_python_does_it() {
        for (path, expanded) in [
            ("~", "/home/me"),
            ("~/x", "/home/me/x"),
            ("~other/x", "~other/x"),
            ("/a/~/x", "/a/~/x"),
            ("$DATA/x", "/data/x"),
            ("${DATA}/x", "/data/x"),
            ("/a$DATA", "/a/data"),
            ("~/$DATA-$DATA.$$DATA", "/home/me//data-/data.$/data"),
            ("$DATAx/${DATAx}", "$DATAx/${DATAx}"),
            ("$/${/a$", "$/${/a$"),
            ("${}/$TWICE", "${}/$DATA"),
        ] {
            let variables = [("DATA", "/data"), ("TWICE", "$DATA"), ("HF_HUB_CACHE", path)];
            assert_eq!(cache_dir(&variables, None), Path::new(expanded), "{path}");
            assert_eq!(cache_dir(&variables[..2], Some(path)), Path::new(expanded), "{path}");
        }
        let home = [("HF_HOME", "~/$USER"), ("USER", "you")];
        assert_eq!(cache_dir(&home, None), Path::new("/home/me/you/hub"));
        assert_eq!(cache_dir(&[("XDG_CACHE_HOME", "~/c")], None), Path::new("/home/me/c/huggingface/hub"));
    }
}
