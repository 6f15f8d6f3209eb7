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
}

macro_rules! names {
    ($type:literal, $wide:literal) => {
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
        }
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
        Dtype::Float32 | Dtype::Int8 => names!("f32", "4"),
        Dtype::Bfloat16 => names!("bf16", "8"),
        Dtype::Float16 => names!("f16", "8"),
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

/// Shared memory of the kernel without tensor cores: for each of four warps a query and its sums, in f32.
pub(super) fn plain_shared_bytes(head_dim: usize) -> usize {
    4 * 2 * 4 * head_dim
}
