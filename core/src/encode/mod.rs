//! Encoding of texts, pairs, ids and rerank prompts into token ids within the limits.

pub(crate) mod encoder;
pub(crate) mod encoders;
mod fair_queue;
mod foreign_ids;
pub(crate) mod growth;
mod inspect;
pub(crate) mod options;
mod pieces;
pub(crate) mod pool;
mod request_turns;
mod rerank;
mod rerank_prompt;
pub(crate) mod spans;
pub(crate) mod text_encoder;
mod truncation_bound;
mod word_boundaries;
pub(crate) mod word_cache;

#[cfg(test)]
#[path = "tests/long_queries.rs"]
mod long_queries;
#[cfg(test)]
#[path = "tests/pair_prompts.rs"]
mod pair_prompts;
#[cfg(test)]
#[path = "tests/special_tokens.rs"]
mod special_tokens;
