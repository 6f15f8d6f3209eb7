//! Wire formats: from bodies to typed values, from results to answers.

pub(crate) mod accept;
pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod cohere;
mod content_coding;
pub(crate) mod cost;
pub(crate) mod documents;
pub(crate) mod element;
pub(crate) mod encode_fields;
mod fp8;
mod guarded;
pub(crate) mod inputs;
pub(crate) mod invalid_text;
pub(crate) mod json_writer;
pub(crate) mod many;
pub(crate) mod name_list;
mod named;
mod parsed_size;
pub(crate) mod pieces;
pub(crate) mod prompt;
pub(crate) mod quantize;
pub(crate) mod ranking;
pub(crate) mod refused;
pub(crate) mod request_body;
pub(crate) mod schema;
pub(crate) mod usage;
pub(crate) mod vectors;
