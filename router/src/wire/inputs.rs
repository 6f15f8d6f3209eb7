//! Inputs in the shapes that clients send: one or many, texts or token ids.

use super::documents::text_of;
use super::many::Many;
use prefold_core::{Error, Input, Place};
use serde::de::{Error as _, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Token ids per list: more than any model's context, and the limit of `/decode`. A list grows by copying, so its
/// length decides the memory that parsing takes.
pub(crate) const MAX_IDS: usize = 1 << 20;

/// Bytes of the allocator's overhead and of a list's spare capacity.
const ALLOCATION: usize = 64;

/// Maximum bytes of a string, a list or an object of a body, in addition to its text: in a list that doubles as it
/// grows, then among the inputs, plus its own allocation.
pub(super) const VALUE_BYTES: usize = 2 * size_of::<Loose>() + size_of::<(Place, Input)>() + ALLOCATION;

/// A string, an object with a string, a token id, or a nested list.
enum Loose {
    Text(String),
    /// The field `text` of an object.
    Object(String),
    Id(u32),
    Ids(Vec<u32>),
    List(Vec<Loose>),
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a token id or a list of them")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Loose, E> {
        Ok(Loose::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose, A::Error> {
        text_of(map).map(Loose::Object)
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<Loose, E> {
        let id = u32::try_from(id).map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &"a token id"))?;
        Ok(Loose::Id(id))
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<Loose, E> {
        Err(E::invalid_value(Unexpected::Signed(id), &"a token id"))
    }

    /// The first element decides: token ids become one flat vector, because there may be millions.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose, A::Error> {
        let Some(first) = seq.next_element()? else { return Ok(Loose::List(Vec::new())) };
        if let Loose::Id(first) = first {
            let mut ids = vec![first];
            while let Some(id) = seq.next_element()? {
                if ids.len() == MAX_IDS {
                    return Err(A::Error::custom(format_args!("more than {MAX_IDS} token ids in one list")));
                }
                ids.push(id);
            }
            return Ok(Loose::Ids(ids));
        }
        let mut list = vec![first];
        while let Some(item) = seq.next_element()? {
            if matches!(item, Loose::Id(_)) {
                return Err(A::Error::custom("a single token id among texts or lists; put token ids in a list"));
            }
            list.push(item);
        }
        Ok(Loose::List(list))
    }
}

/// Inputs of the model: a string, a list of strings, a list of token ids, a list of such lists, or a list of strings
/// and such lists. A string may be the field `text` of an object, as in Jina's API.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct Inputs(pub(crate) Many<Input>);

impl TryFrom<Loose> for Inputs {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected a string, a list of strings, a list of token ids or a list of such lists";
        let item = |item| match item {
            Loose::Text(text) | Loose::Object(text) => Ok(Input::Text(text)),
            Loose::Ids(ids) => Ok(Input::Ids(ids)),
            Loose::List(list) if list.is_empty() => Ok(Input::Ids(Vec::new())),
            Loose::Id(_) | Loose::List(_) => Err(EXPECTED),
        };
        let inputs = match loose {
            Loose::List(list) => list.into_iter().map(item).collect::<Result<Vec<_>, _>>()?,
            one => vec![item(one)?],
        };
        Ok(Self(inputs.into()))
    }
}

/// A string or a list of strings.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct Texts(pub(crate) Many<String>);

impl TryFrom<Loose> for Texts {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        let text = |item| match item {
            Loose::Text(text) => Ok(text),
            Loose::Object(_) | Loose::Id(_) | Loose::Ids(_) | Loose::List(_) => {
                Err("expected a string or a list of strings")
            }
        };
        let texts = match loose {
            Loose::List(list) => list.into_iter().map(text).collect::<Result<Vec<_>, _>>()?,
            one => vec![text(one)?],
        };
        Ok(Self(texts.into()))
    }
}

/// A string or a list of strings; an empty string means no text.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct TextsOrNone(pub(crate) Many<String>);

impl TryFrom<Loose> for TextsOrNone {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        match loose {
            Loose::Text(text) if text.is_empty() => Ok(Self(Vec::new().into())),
            loose => Texts::try_from(loose).map(|Texts(texts)| Self(texts)),
        }
    }
}

/// Texts whose tokens to classify: a string, a list of strings, or a list of lists of strings.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct TokenTexts {
    pub(crate) texts: Many<String>,
    /// The response is a list with an item per text.
    pub(crate) is_batch: bool,
}

impl TryFrom<Loose> for TokenTexts {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        let is_batch = !matches!(loose, Loose::Text(_));
        let lists = match loose {
            Loose::List(list) if list.iter().any(|item| matches!(item, Loose::List(_))) => list,
            one => vec![one],
        };
        let texts = lists.into_iter().map(|list| Texts::try_from(list).map(|Texts(texts)| texts.into_vec()));
        let texts = texts.collect::<Result<Vec<_>, _>>();
        let texts = texts.map_err(|_| "expected a string, a list of strings or a list of lists of strings")?;
        Ok(Self { texts: texts.into_iter().flatten().collect::<Vec<_>>().into(), is_batch })
    }
}

/// A list of token ids or a list of such lists.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct IdLists(pub(crate) Many<Vec<u32>>);

impl TryFrom<Loose> for IdLists {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        let ids = |item| match item {
            Loose::Ids(ids) => Ok(ids),
            Loose::List(list) if list.is_empty() => Ok(Vec::new()),
            Loose::Text(_) | Loose::Object(_) | Loose::Id(_) | Loose::List(_) => {
                Err("expected a list of token ids or a list of such lists")
            }
        };
        let lists = match loose {
            Loose::List(list) => list.into_iter().map(ids).collect::<Result<Vec<_>, _>>()?,
            one => vec![ids(one)?],
        };
        Ok(Self(lists.into()))
    }
}

impl IdLists {
    /// The ids of a request that has one list of them in `field`.
    ///
    /// # Errors
    /// [`Error::Validation`] for several lists.
    pub(crate) fn only_list(self, field: &'static str) -> Result<Vec<u32>, Error> {
        let mut lists = self.0.into_vec();
        if lists.len() > 1 {
            return Err(Error::invalid(field, "has several lists; it must be one list of token ids"));
        }
        Ok(lists.pop().unwrap_or_default())
    }
}

/// Inputs of a classifier: a string, a pair (a flat list of two!), or a list of lists with one or two strings each.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct Sequences {
    pub(crate) inputs: Many<Input>,
    /// The response is a list with an item per input.
    pub(crate) is_batch: bool,
}

impl TryFrom<Loose> for Sequences {
    type Error = String;

    fn try_from(loose: Loose) -> Result<Self, String> {
        let is_batch = match &loose {
            Loose::List(list) => !list.iter().any(|item| matches!(item, Loose::Text(_))),
            Loose::Text(_) | Loose::Object(_) | Loose::Id(_) | Loose::Ids(_) => false,
        };
        let inputs = match loose {
            Loose::List(list) if is_batch => {
                let sequences = list.into_iter().enumerate();
                let numbered = |(index, item)| sequence(item).map_err(|problem| format!("sequence {index}: {problem}"));
                sequences.map(numbered).collect::<Result<Vec<_>, _>>()?
            }
            one => vec![sequence(one)?],
        };
        Ok(Self { inputs: inputs.into(), is_batch })
    }
}

/// A text or a pair.
fn sequence(loose: Loose) -> Result<Input, String> {
    let Texts(texts) = loose.try_into().map_err(|_| "expected a string or a list of one or two strings")?;
    let mut texts = texts.into_vec();
    match (texts.pop(), texts.pop(), texts.len()) {
        (Some(text), None, _) => Ok(Input::Text(text)),
        (Some(second), Some(first), 0) => Ok(Input::Pair(first.into(), second)),
        (None, ..) => Err("expected one or two strings, found none".to_owned()),
        (_, _, more) => Err(format!(
            "a flat list is one text (of one string) or a pair (of two), found {}; for many texts use a list of lists",
            more + 2
        )),
    }
}

#[cfg(test)]
mod tests;
