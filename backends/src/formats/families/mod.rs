//! Families of models: a row of data for each, and one reader.

mod adapters;
mod converted;
mod convolutions;
mod decoders;
mod disentangled;
mod encoders;
mod family;
mod feed_forward;
mod keys;
mod labels;
mod positions;
mod read;
mod rope;
mod settings;
mod softcaps;
mod windows;

pub(crate) use encoders::STATIC;
pub(super) use family::{Family, Gguf, Mark, Must, Rotary, Windows};
pub(crate) use keys::Key;
pub(crate) use labels::label_count;
pub(crate) use read::describe;
pub(super) use read::{BIDIRECTIONAL, is_same, kept_mask, mask, older_spellings, read};
pub(crate) use settings::Settings;

/// The families of GGUF files; those with a mark stand before the others of their architecture.
pub(super) fn of_gguf() -> impl Iterator<Item = (&'static Family, Gguf)> {
    converted::CONVERTED.iter().chain(all()).filter_map(|family| Some((family, family.gguf?)))
}

/// The families of `config.json`; those with a mark stand before the others of their `model_type`.
pub(super) fn all() -> impl Iterator<Item = &'static Family> {
    decoders::DECODERS.iter().chain(&encoders::ENCODERS)
}
