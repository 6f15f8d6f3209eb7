//! Settings of a model, as a file format has them.

use super::family::{Rotary, Rule};
use super::keys::Key;
use super::rope;
use crate::config::RotaryConfig;
use crate::error::LoadError;
use crate::json::Fields;

/// Settings of a model. The default methods are for `config.json`; other formats replace them.
///
/// # Errors
/// A setting is of another type than asked for, or is missing where it must not be.
pub(crate) trait Settings {
    /// The fields of `config.json`, for those without a counterpart in other formats; empty in other formats.
    fn json(&self) -> &Fields<'_>;

    /// Name of the file, for messages.
    fn file(&self) -> &str {
        self.json().file()
    }

    /// `true` if what the file leaves out has the default of the family's class.
    fn has_defaults(&self) -> bool {
        true
    }

    /// `true` if there is such a tensor; `None` where the settings say everything.
    fn has_tensor(&self, _name: &str) -> Option<bool> {
        None
    }

    /// Rows of a table, by its name without `.weight`; `None` where the settings say them.
    fn table_rows(&self, _name: &str) -> Result<Option<usize>, LoadError> {
        Ok(None)
    }

    /// Name of a setting in this file, for messages.
    fn name(&self, key: &Key) -> String {
        first_of(self.json(), key.json).to_owned()
    }

    /// An error about a setting.
    fn problem(&self, key: &Key, problem: &str) -> LoadError {
        self.json().problem(&self.name(key), problem)
    }

    /// A whole number.
    fn usize(&self, key: &Key) -> Result<Option<usize>, LoadError> {
        self.json().optional(first_of(self.json(), key.json))
    }

    /// A whole number that must be there.
    fn required(&self, key: &Key) -> Result<usize, LoadError> {
        self.usize(key)?.ok_or_else(|| {
            let name = self.name(key);
            let all = key.json.contains(&name.as_str()).then(|| key.json.join("` or `"));
            self.json().problem(&all.unwrap_or(name), "is missing")
        })
    }

    /// A number.
    fn f64(&self, key: &Key) -> Result<Option<f64>, LoadError> {
        self.json().optional(first_of(self.json(), key.json))
    }

    /// The value that a rule says of a tensor.
    fn decide(&self, rule: Rule, tensor: &str) -> Result<bool, LoadError> {
        match (rule, self.has_tensor(tensor)) {
            (Rule::Fixed(value), _) | (Rule::Tensor(value), None) => Ok(value),
            (Rule::Field(name, default), None) => self.json().or(name, default),
            (Rule::Field(..) | Rule::Tensor(_), Some(is_there)) => Ok(is_there),
        }
    }

    /// The rotations of queries and keys.
    fn rotary(&self, rotary: Rotary, _head_dim: usize) -> Result<RotaryConfig, LoadError> {
        rope::read(self.json(), rotary)
    }
}

/// `config.json`.
impl Settings for Fields<'_> {
    fn json(&self) -> &Fields<'_> {
        self
    }
}

/// The first of a field's spellings that the file has, or the first of all.
pub(crate) fn first_of(fields: &Fields<'_>, spellings: &[&'static str]) -> &'static str {
    let present = spellings.iter().find(|name| fields.get(name).is_some());
    present.or(spellings.first()).copied().unwrap_or_default()
}
