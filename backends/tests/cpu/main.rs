//! Whole models on the CPU, in one program.

mod adapters_of_tasks;
mod check;
mod compaction;
mod cosines;
mod encoder_oracle;
mod encoders;
mod golden;
mod int8;
mod modes;
mod preemption;
mod replicas;
mod routers;
mod same_bits;
mod smollm2;
mod static_embeddings;
#[path = "../support/mod.rs"]
mod support;
