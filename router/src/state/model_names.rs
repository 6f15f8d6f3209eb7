//! Names of a model in requests and responses.

use prefold_core::Error;
use std::collections::HashSet;

/// Maximum bytes of a model's name in a request, which the response repeats: any path is shorter.
const MAX_MODEL_NAME: usize = 4096;

/// Tag of Ollama's names that have none.
const DEFAULT_TAG: &str = ":latest";

/// The name without Ollama's default tag.
pub(crate) fn untagged(name: &str) -> &str {
    name.strip_suffix(DEFAULT_TAG).unwrap_or(name)
}

/// The name with a tag, as Ollama lists names.
pub(crate) fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') { name.to_owned() } else { format!("{name}{DEFAULT_TAG}") }
}

/// Names of the served model.
#[derive(Debug, Clone)]
pub(crate) struct ModelNames {
    /// The hub id, the path or the built-in model's name.
    pub(crate) id: String,
    /// The name in responses.
    pub(crate) served: String,
    /// Further names that requests may use.
    pub(crate) aliases: Vec<String>,
}

impl ModelNames {
    /// All names that requests may use, the served one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.served).chain(&self.aliases).map(String::as_str)
    }

    /// The name in a response: the client's own, or the served one.
    ///
    /// # Errors
    /// [`Error::Validation`] for a name that is too long to be repeated.
    pub(crate) fn answered<'a>(&'a self, asked: Option<&'a str>) -> Result<&'a str, Error> {
        match asked {
            Some(name) if name.len() > MAX_MODEL_NAME => {
                let problem =
                    format!("has {} bytes, the limit is {MAX_MODEL_NAME}: the response repeats it", name.len());
                Err(Error::invalid("model", problem))
            }
            asked => Ok(asked.unwrap_or(&self.served)),
        }
    }

    /// The first given name is the served one, and the model's id becomes an alias; without names the id is served.
    pub(crate) fn new(id: String, given: Vec<String>) -> Self {
        let given = given.into_iter().filter(|name| !name.is_empty());
        let mut names: Vec<String> = given.chain([id.clone()]).collect();
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let served = names.remove(0);
        Self { id, served, aliases: names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_gets_the_default_one() {
        for (name, expected) in [
            ("fake", "fake:latest"),
            ("org/fake", "org/fake:latest"),
            ("fake:33m", "fake:33m"),
            ("host:5000/fake", "host:5000/fake:latest"),
            ("fake:latest", "fake:latest"),
        ] {
            assert_eq!(tagged(name), expected);
        }
        assert_eq!((untagged("fake:latest"), untagged("fake:33m")), ("fake", "fake:33m"));
    }
}
