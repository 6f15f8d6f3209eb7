//! Modules that an adapter changes, as peft finds them (`check_target_module_exists`).

use super::files::CONFIG;
use crate::error::LoadError;
use crate::json::Fields;
use fancy_regex::{Regex, RegexBuilder};

/// Maximum bytes of a regular expression, its steps back on one name, and the bytes of its compiled form.
const MAX_PATTERN: usize = 4096;
const MAX_STEPS: usize = 20_000;
const MAX_COMPILED: usize = 1 << 20;

/// A pattern of module names.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Every linear layer.
    All,
    /// A name, or its end after a dot.
    Ends(Vec<String>),
    /// The same without other special characters than dots, each of which stands for any character.
    End(String),
    Regex(Box<Regex>),
}

impl Pattern {
    /// A regular expression for whole names.
    ///
    /// # Errors
    /// It is malformed or too long.
    pub(super) fn whole(fields: &Fields<'_>, field: &str, expression: &str) -> Result<Self, LoadError> {
        Self::new(fields, field, expression, &format!(r"\A(?:{expression})\z"))
    }

    /// A regular expression for whole names or their ends after a dot.
    ///
    /// # Errors
    /// As for [`whole`](Self::whole).
    pub(super) fn suffix(fields: &Fields<'_>, field: &str, expression: &str) -> Result<Self, LoadError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if expression.len() <= MAX_PATTERN && expression.chars().all(is_plain) {
            return Ok(Self::End(expression.to_owned()));
        }
        Self::new(fields, field, expression, &format!(r"\A(?:.*\.)?(?:{expression})\z"))
    }

    /// A regular expression for a component of a name, and what follows it.
    ///
    /// # Errors
    /// As for [`whole`](Self::whole).
    pub(super) fn inside(fields: &Fields<'_>, field: &str, expression: &str) -> Result<Self, LoadError> {
        Self::new(fields, field, expression, &format!(r"\A(?:|.*\.){expression}(?:\z|\.)"))
    }

    /// A regular expression for the component before the number of a layer.
    ///
    /// # Errors
    /// As for [`whole`](Self::whole).
    pub(super) fn layer(fields: &Fields<'_>, field: &str, expression: &str) -> Result<Self, LoadError> {
        Self::new(fields, field, expression, &format!(r"\A(?:|.*?\.){expression}\.(?P<idx>\d+)\."))
    }

    fn new(fields: &Fields<'_>, field: &str, given: &str, expression: &str) -> Result<Self, LoadError> {
        if given.len() > MAX_PATTERN {
            let problem = format!("has an expression of {} bytes, the limit is {MAX_PATTERN}", given.len());
            return Err(fields.problem(field, &problem));
        }
        let mut builder = RegexBuilder::new(expression);
        let builder = builder.backtrack_limit(MAX_STEPS).delegate_size_limit(MAX_COMPILED);
        let regex = builder.build().map_err(|error| {
            fields.problem(field, &format!("has the expression \"{given}\", which cannot be read: {error}"))
        });
        regex.map(|regex| Self::Regex(Box::new(regex)))
    }

    /// `true` for an expression, which takes more time than other patterns.
    pub(super) fn is_regex(&self) -> bool {
        matches!(self, Self::Regex(_))
    }

    /// `true` if the pattern matches a name.
    ///
    /// # Errors
    /// The expression takes too many steps.
    pub(super) fn matches(&self, name: &str) -> Result<bool, LoadError> {
        match self {
            Self::All => Ok(true),
            Self::Ends(ends) => Ok(ends.iter().any(|end| ends_with(name, end))),
            Self::End(end) => Ok(ends_like(name.as_bytes(), end.as_bytes())),
            Self::Regex(regex) => regex.is_match(name).map_err(|error| too_slow(regex, &error)),
        }
    }

    /// The number of the layer in a name.
    fn number(&self, name: &str) -> Result<Option<usize>, LoadError> {
        let Self::Regex(regex) = self else { return Ok(None) };
        let captures = regex.captures(name).map_err(|error| too_slow(regex, &error))?;
        Ok(captures.and_then(|captures| captures.name("idx")?.as_str().parse().ok()))
    }
}

fn too_slow(regex: &Regex, error: &fancy_regex::Error) -> LoadError {
    LoadError::invalid(CONFIG, format!("the expression \"{}\" cannot be matched: {error}", regex.as_str()))
}

/// `true` if a name is `end`, or ends with it after a dot.
fn ends_with(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// `true` if a name is `end`, or ends with it after a dot; a dot in `end` is any character.
fn ends_like(name: &[u8], end: &[u8]) -> bool {
    let Some(before) = name.len().checked_sub(end.len()) else { return false };
    let is_like = name[before..].iter().zip(end).all(|(byte, wanted)| *wanted == b'.' || byte == wanted);
    is_like && (before == 0 || name[before - 1] == b'.')
}

/// Layers that an adapter changes.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) numbers: Vec<usize>,
    /// Patterns of the component before a layer's number; empty for any.
    pub(super) patterns: Vec<Pattern>,
}

impl Layers {
    fn contain(&self, name: &str) -> Result<bool, LoadError> {
        let mut number = None;
        if self.patterns.is_empty() {
            // The first number behind two components.
            let parts: Vec<&str> = name.split('.').collect();
            let inner = parts.iter().enumerate().skip(2).take(parts.len().saturating_sub(3));
            number = inner.filter_map(|(_, part)| part.parse().ok()).next();
        }
        for pattern in &self.patterns {
            number = number.or(pattern.number(name)?);
        }
        Ok(number.is_some_and(|number| self.numbers.contains(&number)))
    }
}

/// Selection of modules.
#[derive(Debug)]
pub(super) struct Targets {
    pub(super) modules: Option<Pattern>,
    pub(super) excluded: Option<Pattern>,
    /// Modules that are replaced as a whole, and so have no LoRA.
    pub(super) saved: Vec<Pattern>,
    pub(super) layers: Option<Layers>,
}

impl Targets {
    /// `true` if a module has LoRA, by its names with and without the prefix of the class that it was trained in: peft matches the names in
    /// the class that loads it.
    ///
    /// # Errors
    /// An expression takes too many steps.
    pub(super) fn contain(&self, names: &[&str]) -> Result<bool, LoadError> {
        for name in names {
            if self.contains(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn contains(&self, name: &str) -> Result<bool, LoadError> {
        for pattern in self.excluded.iter().chain(&self.saved) {
            if pattern.matches(name)? {
                return Ok(false);
            }
        }
        let Some(modules) = &self.modules else { return Ok(false) };
        if !modules.matches(name)? {
            return Ok(false);
        }
        match (&self.layers, modules) {
            // As in peft, layers are for lists of names; a complete name counts anyway.
            (Some(_), Pattern::Ends(ends)) if ends.iter().any(|end| end == name) => Ok(true),
            (Some(layers), Pattern::Ends(_)) => layers.contain(name),
            _ => Ok(true),
        }
    }
}
