//! The names and data types of the kernels of each element type.

use crate::dtype::Dtype;
use crate::element::Element;
use cudarc::cublas::sys::cudaDataType;

/// Names of the kernels of one element type. A pair holds the kernel for any width and the kernel for wide accesses.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) embed: [&'static str; 2],
    pub(super) convert: [&'static str; 2],
    pub(super) add_rms_norm: [&'static str; 2],
    pub(super) layer_norm: [&'static str; 2],
    pub(super) layer_norm_columns: [&'static str; 2],
    pub(super) qk_norm_rope: [&'static str; 2],
    pub(super) activate_mul: [&'static str; 2],
    pub(super) activate: [&'static str; 2],
    pub(super) bias_rows: &'static str,
    pub(super) own_columns: &'static str,
    pub(super) plain_attention: &'static str,
    /// `[head_dim 64, head_dim 128][64 queries, 128 queries]`; `None` for f32.
    pub(super) flash_attention: Option<[[&'static str; 2]; 2]>,
    /// Attention with relative position embeddings, for `head_dim` 64 and 64 queries.
    pub(super) flash_positions: Option<&'static str>,
}

macro_rules! names {
    ($type:literal, $wide:literal, $flash:expr, $flash_positions:expr) => {
        Names {
            embed: [concat!("embed_", $type, "_1"), concat!("embed_", $type, "_4")],
            convert: [concat!("convert_", $type, "_1"), concat!("convert_", $type, "_4")],
            add_rms_norm: [concat!("add_rms_norm_", $type, "_1"), concat!("add_rms_norm_", $type, "_4")],
            layer_norm: [concat!("layer_norm_", $type, "_1"), concat!("layer_norm_", $type, "_4")],
            layer_norm_columns: [
                concat!("layer_norm_columns_", $type, "_1"),
                concat!("layer_norm_columns_", $type, "_4"),
            ],
            qk_norm_rope: [concat!("qk_norm_rope_", $type, "_1"), concat!("qk_norm_rope_", $type, "_", $wide)],
            activate_mul: [concat!("activate_mul_", $type, "_1"), concat!("activate_mul_", $type, "_", $wide)],
            activate: [concat!("activate_", $type, "_1"), concat!("activate_", $type, "_4")],
            bias_rows: concat!("bias_rows_", $type),
            own_columns: concat!("own_columns_", $type),
            plain_attention: concat!("plain_attention_", $type),
            flash_attention: $flash,
            flash_positions: $flash_positions,
        }
    };
}

macro_rules! flash_names {
    ($type:literal) => {
        Some([
            [concat!("flash_attention_", $type, "_64_1"), concat!("flash_attention_", $type, "_64_2")],
            [concat!("flash_attention_", $type, "_128_1"), concat!("flash_attention_", $type, "_128_2")],
        ])
    };
}

/// Kernels of the f32 residual stream: for any width and for wide accesses.
pub(super) const RMS_NORM_ADD: [&str; 2] = ["rms_norm_add_1", "rms_norm_add_4"];
pub(super) const SCALE_ROWS: [&str; 2] = ["scale_rows_1", "scale_rows_4"];
pub(super) const SCATTER_ADD_ROWS: [&str; 2] = ["scatter_add_rows_1", "scatter_add_rows_4"];

/// The kernels of an element type.
pub(super) fn names<T: Element>() -> Names {
    match T::DTYPE {
        // No element is a byte: int8 is a format of packed weights on a CPU only.
        Dtype::Float32 | Dtype::Int8 => names!("f32", "4", None, None),
        Dtype::Bfloat16 => names!("bf16", "8", flash_names!("bf16"), Some("flash_attention_positions_bf16_64")),
        Dtype::Float16 => names!("f16", "8", flash_names!("f16"), Some("flash_attention_positions_f16_64")),
    }
}

/// cuBLAS's code of an element type.
pub(super) fn data_type<T: Element>() -> cudaDataType {
    match T::DTYPE {
        Dtype::Float32 | Dtype::Int8 => cudaDataType::CUDA_R_32F,
        Dtype::Bfloat16 => cudaDataType::CUDA_R_16BF,
        Dtype::Float16 => cudaDataType::CUDA_R_16F,
    }
}

/// Elements in 16 bytes.
pub(super) const fn per_16_bytes<T>() -> usize {
    16 / size_of::<T>()
}

/// Keys of one of the two stages of the tensor core kernel; `KEYS` in its file.
const FLASH_KEYS: usize = 64;

/// `SHARED_BYTES` of `cuda/attention.cu`: the queries, and two stages of keys and values.
pub(super) fn flash_shared_bytes(head_dim: usize, queries: usize) -> usize {
    (queries + 4 * FLASH_KEYS) * head_dim * 2
}

/// The same with relative position embeddings: two tables of 128 rows, and 64 rows of products
/// (`cuda/attention_positions.cuh`).
pub(super) fn flash_positions_shared_bytes() -> usize {
    flash_shared_bytes(64, 64) + 2 * 128 * 64 * 2 + 64 * 88 * 4
}

/// Shared memory of the kernel without tensor cores: for each of four warps a query and its sums, in f32.
pub(super) fn plain_shared_bytes(head_dim: usize) -> usize {
    4 * 2 * 4 * head_dim
}
