//! A list of names that a request may make long.

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Names concatenated in one text, so that a million of them are freed at once.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NameList {
    text: String,
    /// Byte after each name.
    ends: Vec<usize>,
}

impl NameList {
    /// The names in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| self.text.get(begin..end).unwrap_or(""))
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }
}

impl<'n> FromIterator<&'n str> for NameList {
    fn from_iter<I: IntoIterator<Item = &'n str>>(names: I) -> Self {
        let mut list = Self::default();
        names.into_iter().for_each(|name| list.push(name));
        list
    }
}

impl<'de> Deserialize<'de> for NameList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NameListVisitor)
    }
}

struct NameListVisitor;

impl<'de> Visitor<'de> for NameListVisitor {
    type Value = NameList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<NameList, A::Error> {
        let mut list = NameList::default();
        while let Some(Name(name)) = names.next_element()? {
            list.push(&name);
        }
        Ok(list)
    }
}

/// A name before it is copied into the list.
#[derive(Deserialize)]
struct Name(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_their_order() {
        let names = ["", "O", "\u{e9}", "", "B-PER"];
        let list: NameList = serde_json::from_value(serde_json::json!(names)).unwrap();
        assert_eq!((list.len(), list.iter().collect::<Vec<_>>()), (5, names.to_vec()));
        assert_eq!(list, names.into_iter().collect());
        assert!(serde_json::from_str::<NameList>("[1]").is_err());
        let error = serde_json::from_str::<NameList>("{}").unwrap_err().to_string();
        assert!(error.contains("invalid type: map, expected a sequence"), "{error}");
    }
}
