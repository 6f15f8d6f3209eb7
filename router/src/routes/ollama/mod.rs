//! Ollama's routes for embeddings and models, under `/api/`.

pub(crate) mod embed;
pub(crate) mod models;
mod options;
