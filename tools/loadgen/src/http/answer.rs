//! Response validation without storing values, whose cost would distort the measurement.
//!
//! Each list deserialises to the number of its results, or fails with the first invalid one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// A list of finite vectors of equal width.
pub(crate) struct Vectors(pub(crate) usize);

/// A list of objects with `embedding`, as in [`Vectors`], and `index`, with each index once.
pub(crate) struct Embeddings(pub(crate) usize);

/// A list of objects with `index`, with each index once, and a finite `score` or `relevance_score`.
pub(crate) struct Scores(pub(crate) usize);

/// Width of a vector of finite values.
struct Width(usize);

impl<'de> Deserialize<'de> for Width {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WidthVisitor)
    }
}

struct WidthVisitor;

impl<'de> Visitor<'de> for WidthVisitor {
    type Value = Width;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector, as a list of numbers or as base64")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Width, A::Error> {
        let mut width = 0;
        // A JSON number is finite; null, which some servers write for NaN, is rejected.
        while values.next_element::<f64>()?.is_some() {
            width += 1;
        }
        Ok(Width(width))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Width, E> {
        let bytes = BASE64_STANDARD.decode(text).map_err(|error| E::custom(format!("not base64: {error}")))?;
        let (values, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(E::custom(format!("{} bytes of base64 are not 32-bit numbers", bytes.len())));
        }
        match values.iter().map(|bytes| f32::from_le_bytes(*bytes)).find(|value| !value.is_finite()) {
            Some(value) => Err(E::custom(format!("a vector has the value {value}"))),
            None => Ok(Width(values.len())),
        }
    }
}

/// Item of OpenAI's list of vectors.
#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Width,
}

#[derive(Deserialize)]
struct Score {
    index: usize,
    #[serde(rename = "score", alias = "relevance_score")]
    _score: f64,
}

impl<'de> Deserialize<'de> for Vectors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut widths = Widths::default();
        for_each(deserializer, |width: Width| widths.add(&width)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Embeddings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut indices, mut widths) = (Vec::new(), Widths::default());
        let count = for_each(deserializer, |item: Embedding| {
            indices.push(item.index);
            widths.add(&item.embedding)
        })?;
        complete(indices).map_err(D::Error::custom)?;
        Ok(Self(count))
    }
}

impl<'de> Deserialize<'de> for Scores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut indices = Vec::new();
        let count = for_each(deserializer, |item: Score| {
            indices.push(item.index);
            // A JSON number is finite; null, which some servers write for NaN, was rejected before.
            Ok(())
        })?;
        complete(indices).map_err(D::Error::custom)?;
        Ok(Self(count))
    }
}

/// Common width of all vectors of a response.
#[derive(Default)]
struct Widths(Option<usize>);

impl Widths {
    fn add(&mut self, &Width(width): &Width) -> Result<(), String> {
        match self.0.replace(width) {
            _ if width == 0 => Err("a vector is empty".to_owned()),
            Some(other) if other != width => Err(format!("vectors of {other} and of {width} values")),
            _ => Ok(()),
        }
    }
}

/// Checks that the indices are a permutation of 0..n.
fn complete(mut indices: Vec<usize>) -> Result<(), String> {
    indices.sort_unstable();
    match indices.iter().enumerate().find(|(place, index)| place != *index) {
        Some((place, _)) => Err(format!("none of {} results has the index {place}", indices.len())),
        None => Ok(()),
    }
}

/// Validates and counts a list's items one by one.
fn for_each<'de, D, T>(deserializer: D, check: impl FnMut(T) -> Result<(), String>) -> Result<usize, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T, F>(F, std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for List<T, F> {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of results")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<usize, A::Error> {
            let mut count = 0;
            while let Some(item) = items.next_element()? {
                (self.0)(item).map_err(A::Error::custom)?;
                count += 1;
            }
            Ok(count)
        }
    }

    deserializer.deserialize_seq(List(check, std::marker::PhantomData))
}
