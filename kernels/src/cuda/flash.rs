//! The tensor core kernels of `cuda/attention.cu`: one line for each kernel of an element type.

use crate::dtype::Dtype;
use crate::element::Element;

/// Terms that a kernel adds to the products of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terms {
    /// None: `NoTerms`.
    None,
    /// Biases by distance: `BiasTerms`.
    Bias,
    /// Relative position embeddings: `PositionTerms`.
    Positions,
}

/// A kernel and its tiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flash {
    pub(super) name: &'static str,
    pub(super) terms: Terms,
    pub(super) head_dim: usize,
    /// Queries of a tile; `QUERIES` in its file.
    pub(super) queries: usize,
    /// Keys of one of its two stages; `KEYS` in its file.
    keys: usize,
}

macro_rules! flash_kernels {
    // The table: terms, stem of the name, head size, multiples of 64 queries (`M` in its file), keys.
    ($type:literal) => {
        flash_kernels!(
            $type,
            (None, "flash_attention_", 32, 1, 64),
            (None, "flash_attention_", 32, 2, 64),
            (None, "flash_attention_", 64, 1, 64),
            (None, "flash_attention_", 64, 2, 64),
            (None, "flash_attention_", 80, 1, 64),
            (None, "flash_attention_", 96, 1, 64),
            (None, "flash_attention_", 128, 1, 64),
            (None, "flash_attention_", 128, 2, 64),
            (None, "flash_attention_", 256, 1, 32),
            (Bias, "flash_attention_bias_", 64, 1, 64),
            (Bias, "flash_attention_bias_", 64, 2, 64),
            (Bias, "flash_attention_bias_", 128, 1, 64),
            (Bias, "flash_attention_bias_", 128, 2, 64),
            (Positions, "flash_attention_positions_", 64, 1, 64)
        )
    };
    ($type:literal, $(($terms:ident, $stem:literal, $head_dim:literal, $m:literal, $keys:literal)),+) => {
        &[$(Flash {
            name: concat!($stem, $type, "_", $head_dim, "_", $m),
            terms: Terms::$terms,
            head_dim: $head_dim,
            queries: 64 * $m,
            keys: $keys,
        }),+]
    };
}

const BF16: &[Flash] = flash_kernels!("bf16");
const F16: &[Flash] = flash_kernels!("f16");

impl Flash {
    /// The kernels of an element type; none of f32.
    pub(super) fn all<T: Element>() -> &'static [Self] {
        match T::DTYPE {
            Dtype::Float32 | Dtype::Int8 => &[],
            Dtype::Bfloat16 => BF16,
            Dtype::Float16 => F16,
        }
    }

    /// The kernel for these terms, heads and tiles.
    pub(super) fn find<T: Element>(terms: Terms, head_dim: usize, queries: usize) -> Option<&'static Self> {
        let suits = |kernel: &&Self| (kernel.terms, kernel.head_dim, kernel.queries) == (terms, head_dim, queries);
        Self::all::<T>().iter().find(suits)
    }

    /// Queries of the largest tile for heads of a size, in 16 bits and without terms; `None` if there is no kernel for them.
    pub(super) fn most_queries(head_dim: usize) -> Option<usize> {
        let suits = |kernel: &&Self| (kernel.terms, kernel.head_dim) == (Terms::None, head_dim);
        BF16.iter().filter(suits).map(|kernel| kernel.queries).max()
    }

    /// Shared memory of a block.
    pub(super) fn shared_bytes(&self) -> usize {
        let row = self.head_dim * 2;
        // The queries, and two stages of keys and values: `SHARED_BYTES` of `FlashTile`.
        let tile = (self.queries + 4 * self.keys) * row;
        match self.terms {
            Terms::None | Terms::Bias => tile,
            // Two tables of 128 rows, and 64 rows of products: `SHARED_BYTES` of `PositionTerms`.
            Terms::Positions => tile + 2 * 128 * row + 64 * 88 * 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Compute capabilities 8.6, 8.9 and 12.0 give a block 99 KiB, 8.0 163 KiB, 9.0 and 10.0 227 KiB.
    #[test]
    fn shared_memory_fits_every_target() {
        for kernel in BF16.iter().chain(F16) {
            assert!(kernel.shared_bytes() <= 99 << 10, "{}", kernel.name);
        }
        let bytes = |terms, head_dim, queries| Flash::find::<f16>(terms, head_dim, queries).map(Flash::shared_bytes);
        assert_eq!(bytes(Terms::None, 32, 128), Some(24 << 10));
        assert_eq!(bytes(Terms::None, 80, 64), Some(50 << 10));
        assert_eq!(bytes(Terms::None, 128, 128), Some(96 << 10));
        assert_eq!(bytes(Terms::None, 256, 64), Some(96 << 10));
        assert_eq!(bytes(Terms::Positions, 64, 64), Some(94 << 10));
        assert_eq!(bytes(Terms::None, 256, 128), None);
    }

    /// The lists of the source file, as `X(T, 64, 1, 4)` with the head size and `M`, are the table's kernels.
    #[test]
    fn the_table_is_the_list_of_the_source_file() {
        let source = std::fs::read_to_string("cuda/attention.cu").unwrap();
        for (terms, list) in [
            (Terms::None, "#define FLASH_TILES("),
            (Terms::Bias, "#define FLASH_BIAS_TILES("),
            (Terms::Positions, "#define FLASH_POSITIONS_TILES("),
        ] {
            let start = source.find(list).unwrap();
            let text = source[start..].split("\n\n").next().unwrap();
            let text = text.split("\n#define").next().unwrap();
            let tiles = text.split("X(T, ").skip(1).map(|tile| {
                let mut numbers = tile.split(", ").map(|number| number.parse::<usize>());
                (numbers.next().unwrap().unwrap(), 64 * numbers.next().unwrap().unwrap())
            });
            let table = BF16.iter().filter(|kernel| kernel.terms == terms);
            let table: Vec<_> = table.map(|kernel| (kernel.head_dim, kernel.queries)).collect();
            assert_eq!(tiles.collect::<Vec<_>>(), table, "{list}");
        }
    }

    /// Models with biases must find a kernel for every tile that the plan of their heads chooses.
    #[test]
    fn biases_have_the_tiles_of_their_heads() {
        for kernel in BF16.iter().filter(|kernel| kernel.terms == Terms::Bias) {
            let most = Flash::most_queries(kernel.head_dim).unwrap();
            for queries in [64, most] {
                assert!(Flash::find::<bf16>(Terms::Bias, kernel.head_dim, queries).is_some(), "{}", kernel.name);
            }
        }
    }
}
