//! Typed access to a JSON object's fields, with errors that name file, field and value.

use crate::error::LoadError;
use crate::json_memory;
use prefold_core::excerpt;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The fields of one object of a JSON file. A field that is `null` counts as absent.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    file: &'a str,
    /// Path of this object in the file, with a dot at its end; empty for the top object.
    prefix: String,
    object: &'a Map<String, Value>,
}

/// A type of a field's value.
pub(crate) trait FromField: Sized {
    /// Name of the type for messages, such as "a whole number".
    const TYPE: &'static str;
    /// `None` if the value is of another type.
    fn from_field(value: &Value) -> Option<Self>;
}

impl FromField for usize {
    const TYPE: &'static str = "a whole number";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_u64()?.try_into().ok()
    }
}

impl FromField for u32 {
    const TYPE: &'static str = "a whole number below 2^32";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_u64()?.try_into().ok()
    }
}

impl FromField for i64 {
    const TYPE: &'static str = "a whole number";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_i64()
    }
}

impl FromField for f64 {
    const TYPE: &'static str = "a number";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_f64()
    }
}

impl FromField for bool {
    const TYPE: &'static str = "true or false";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl FromField for String {
    const TYPE: &'static str = "a string";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl<T: FromField> FromField for Vec<T> {
    const TYPE: &'static str = "a list of the right type";
    fn from_field(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::from_field).collect()
    }
}

impl<'a> Fields<'a> {
    /// The fields of a file's top object.
    ///
    /// # Errors
    /// `value` is not an object.
    pub(crate) fn new(file: &'a str, value: &'a Value) -> Result<Self, LoadError> {
        match value {
            Value::Object(object) => Ok(Self { file, prefix: String::new(), object }),
            other => Err(LoadError::invalid(file, format!("must be a JSON object, it is {}", shown(other)))),
        }
    }

    /// Name of the file.
    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    /// The value of a field, unless it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null() && !is_hidden(self.file, name))
    }

    /// `true` if the field is present, even as null.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.object.contains_key(name) && !is_hidden(self.file, name)
    }

    /// All fields.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.object.iter().filter(|(name, _)| !is_hidden(self.file, name))
    }

    /// An optional field.
    ///
    /// # Errors
    /// It is of another type.
    pub(crate) fn optional<T: FromField>(&self, name: &str) -> Result<Option<T>, LoadError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match T::from_field(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.problem(name, &format!("must be {}, it is {}", T::TYPE, shown(value)))),
        }
    }

    /// A required field.
    ///
    /// # Errors
    /// It is absent or of another type.
    pub(crate) fn required<T: FromField>(&self, name: &str) -> Result<T, LoadError> {
        self.optional(name)?.ok_or_else(|| self.problem(name, "is missing"))
    }

    /// A field with a default.
    ///
    /// # Errors
    /// It is of another type.
    pub(crate) fn or<T: FromField>(&self, name: &str, default: T) -> Result<T, LoadError> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    /// An object inside this one.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, LoadError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(object)) => {
                Ok(Some(Fields { file: self.file, prefix: format!("{}{name}.", self.prefix), object }))
            }
            Some(other) => Err(self.problem(name, &format!("must be an object, it is {}", shown(other)))),
        }
    }

    /// An error about a field: "`name` must be ...".
    pub(crate) fn problem(&self, name: &str, problem: &str) -> LoadError {
        LoadError::invalid(self.file, format!("`{}{name}` {problem}", self.prefix))
    }

    /// A refusal of a field's value.
    pub(crate) fn unsupported(&self, name: &str, value: &str, supported: impl Into<String>) -> LoadError {
        LoadError::unsupported(self.file, format!("`{}{name}` {value}", self.prefix), supported)
    }
}

#[cfg(test)]
thread_local! {
    /// File and field that [`Fields`] do not see, as if no code read them.
    static HIDDEN: std::cell::RefCell<Option<(String, String)>> = const { std::cell::RefCell::new(None) };
}

/// Hides a field of a file from [`Fields`] while `run` runs.
#[cfg(test)]
pub(crate) fn hiding<T>(file: &str, field: &str, run: impl FnOnce() -> T) -> T {
    HIDDEN.set(Some((file.to_owned(), field.to_owned())));
    let found = run();
    HIDDEN.set(None);
    found
}

/// `true` for the field that a test hides.
#[cfg(test)]
pub(crate) fn is_hidden(file: &str, field: &str) -> bool {
    HIDDEN.with_borrow(|hidden| hidden.as_ref().is_some_and(|(of, name)| of == file && name == field))
}

/// `true` for the field that a test hides.
#[cfg(not(test))]
pub(crate) const fn is_hidden(_file: &str, _field: &str) -> bool {
    false
}

/// Parses a JSON file.
///
/// # Errors
/// It is not JSON, or would take too much memory.
pub(crate) fn parse_json(name: &str, bytes: &[u8]) -> Result<Value, LoadError> {
    json_memory::check(name, bytes)?;
    serde_json::from_slice(bytes).map_err(|error| LoadError::invalid(name, not_json(bytes, &error)))
}

/// The problem of a text that is not JSON.
pub(crate) fn not_json(bytes: &[u8], error: &serde_json::Error) -> String {
    let line = bytes.split(|&byte| byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let is_at = |number: &str| {
        let place = error.column().saturating_sub(1);
        [place, place.saturating_sub(1)]
            .iter()
            .any(|&at| line.get(at..).unwrap_or_default().starts_with(number.as_bytes()))
    };
    match ["-Infinity", "Infinity", "NaN"].into_iter().find(|number| is_at(number)) {
        Some(number) => {
            let (line, column) = (error.line(), error.column());
            format!(
                "is not JSON: it has {number}, which Python writes and JSON does not allow, at line {line} column {column}"
            )
        }
        None => format!("is not JSON: {error}"),
    }
}

/// The names in the object `field` of a JSON file's object, in file order, which a parsed object does not keep. A repeated name counts at
/// its first place.
///
/// # Errors
/// It is not JSON, or has no such object.
pub(crate) fn names_in_order(file: &str, bytes: &[u8], field: &str) -> Result<Vec<String>, LoadError> {
    let fields: Result<HashMap<String, Member>, _> = serde_json::from_slice(bytes);
    let mut fields = fields.map_err(|error| LoadError::invalid(file, format!("is not JSON: {error}")))?;
    match fields.remove(field) {
        Some(Member::Object(names)) => Ok(names.first_places()),
        _ => Err(LoadError::invalid(file, format!("`{field}` must be an object"))),
    }
}

/// The names of a JSON file's object in file order. A repeated name counts at its first place.
///
/// # Errors
/// It is not a JSON object.
pub(crate) fn top_names_in_order(file: &str, bytes: &[u8]) -> Result<Vec<String>, LoadError> {
    let names: Result<Names, _> = serde_json::from_slice(bytes);
    names.map(Names::first_places).map_err(|error| LoadError::invalid(file, format!("is not a JSON object: {error}")))
}

/// A member of an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Object(Names),
    #[allow(dead_code, reason = "skipped")]
    Other(IgnoredAny),
}

/// The names of an object's members.
struct Names(Vec<String>);

impl Names {
    /// The names without repetitions.
    fn first_places(self) -> Vec<String> {
        let mut known = HashSet::new();
        let mut names = self.0;
        names.retain(|name| known.insert(name.clone()));
        names
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamesVisitor)
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some((name, IgnoredAny)) = map.next_entry()? {
            names.push(name);
        }
        Ok(Names(names))
    }
}

/// Maximum names in a message.
const MAX_NAMED: usize = 4;

/// The first names for messages, and the number of the others; `None` if there are none.
pub(crate) fn first_names<T: AsRef<str>>(names: &[T]) -> Option<String> {
    let first: Vec<String> = names.iter().take(MAX_NAMED).map(|name| shown(&name.as_ref().into())).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!first.is_empty()).then(|| first.join(", ") + &more)
}

/// A value for messages: an [`excerpt`] of 60 characters of its JSON.
pub(crate) fn shown(value: &Value) -> String {
    excerpt(&value.to_string(), 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_and_names_in_messages_are_cut() {
        let file = json!({"a": format!("\u{1b}{}", "x".repeat(100))});
        let message = Fields::new("f", &file).unwrap().required::<usize>("a").unwrap_err().to_string();
        // A quotation mark, the escaped character, and its rest up to 60 characters of the JSON.
        let cut = format!("`a` must be a whole number, it is \"\\u001b{}...", "x".repeat(60 - 7));
        assert!(message.ends_with(&cut), "{message}");
        let names: Vec<String> = (0..6).map(|it| it.to_string()).collect();
        assert_eq!(first_names(&names).unwrap(), "\"0\", \"1\", \"2\", \"3\" and 2 more");
        assert_eq!(first_names(&names[..4]).unwrap(), "\"0\", \"1\", \"2\", \"3\"");
    }

    #[test]
    fn numbers_that_python_alone_writes_are_named() {
        for (number, text) in [
            ("NaN", "{\"a\": NaN}"),
            ("Infinity", "{\n \"a\": Infinity\n}"),
            ("-Infinity", "{\"b\": 1, \"a\": [-Infinity]}"),
            ("NaN", "NaN"),
        ] {
            let message = parse_json("f.json", text.as_bytes()).unwrap_err().to_string();
            assert!(message.starts_with(&format!("f.json: is not JSON: it has {number}, which Python")), "{message}");
            assert!(message.contains(" at line "), "{message}");
        }
        for text in ["{\"a\": Nothing}", "{\"NaN\": x}", "{\"a\": - 1}"] {
            let message = parse_json("f.json", text.as_bytes()).unwrap_err().to_string();
            assert!(!message.contains("Python") && message.starts_with("f.json: is not JSON"), "{message}");
        }
    }
}
