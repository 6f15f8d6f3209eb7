//! Whole models on the CPU, in one program.

mod bfloat16;
mod compaction;
mod encoder_oracle;
mod encoders;
mod golden;
mod replicas;
mod same_bits;
mod smollm2;
#[path = "../support/mod.rs"]
mod support;
