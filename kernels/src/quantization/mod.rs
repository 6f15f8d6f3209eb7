//! Conversion to bytes with scales.

pub(crate) mod rows;
mod table;

pub use table::QuantizedTable;
