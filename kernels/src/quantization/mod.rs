//! Conversion to bytes with scales.

mod extremes;
pub(crate) mod rows;
mod table;
pub(crate) mod weights;

pub use table::QuantizedTable;
