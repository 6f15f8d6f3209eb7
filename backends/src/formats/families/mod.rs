//! Families of models: a row of data for each, and one reader.

mod adapters;
mod disentangled;
mod encoders;
mod family;
mod feed_forward;
mod keys;
mod positions;
mod read;
pub(in crate::formats) mod rope;
mod settings;
pub(in crate::formats) mod windows;

pub(in crate::formats) use encoders::ENCODERS;
pub(in crate::formats) use family::{Base, Family, Mark, Must, Rotary};
pub(in crate::formats) use feed_forward::activation;
pub(in crate::formats) use read::read;
