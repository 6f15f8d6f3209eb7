//! Code that prefold's commands, benchmarks and demo share.
#![forbid(unsafe_code)]

pub mod chart;
pub mod demo_texts;
pub mod plural;
pub mod print;
pub mod records;
pub mod template;
mod text_width;
