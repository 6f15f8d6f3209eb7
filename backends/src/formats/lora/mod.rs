//! LoRA adapters of peft, whose changes are added to a model's tensors as these are read.
//!
//! `adapter_config.json` says which modules are changed and by which factor, `adapter_model.safetensors` has the matrices: a linear layer's
//! weight becomes `W + scale * B A`, a table of embeddings `W + scale * (B A)^T`. Other tensors of the file replace the model's own.

mod by_task;
mod config;
mod files;
mod merge;
mod names;
mod patterns;
mod targets;
#[cfg(test)]
mod tests;

pub(crate) use by_task::FilesByTask;
pub(crate) use config::LoraConfig;
pub(crate) use files::{CONFIG, TASKS, TENSORS, folder_of_task};
pub(crate) use merge::AdaptedFiles;
