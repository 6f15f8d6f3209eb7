//! The types of values.

use std::fmt;
use std::str::FromStr;

/// The type of stored, packed and computed values. Loading, packing and computing all use this enum; file formats and
/// candle convert their own codes at their boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// float32 weights and sums.
    Float32,
    /// bfloat16 weights, float32 sums.
    Bfloat16,
    /// float16 weights, float32 sums; products on a GPU only.
    Float16,
    /// Weights as signed bytes with a scale per output, inputs as unsigned bytes with a scale and a zero point per row, exact
    /// integer sums; on a CPU only.
    Int8,
}

impl Dtype {
    /// Bytes of a value.
    pub fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Int8 => 1,
        }
    }

    const ALL: [Self; 4] = [Self::Float32, Self::Bfloat16, Self::Float16, Self::Int8];

    /// The name in flags, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
            Self::Int8 => "int8",
        }
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        let dtype = Self::ALL.into_iter().find(|dtype| dtype.as_str() == name);
        dtype.ok_or_else(|| format!("dtype `{name}` is not known ({})", known()))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_unknown_ones_list_the_known() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        let unknown = "dtype `int4` is not known (float32, bfloat16, float16, int8)";
        assert_eq!("int4".parse::<Dtype>(), Err(unknown.to_owned()));
    }
}
