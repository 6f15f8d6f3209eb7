//! The element types of device memory and the kernels of each.

use cudarc::cublas::sys::cudaDataType;
use cudarc::driver::DeviceRepr;
use half::{bf16, f16};

/// The kernels of one element type, by name. Pairs are the one for any width and the one for wide accesses.
#[doc(hidden)]
#[derive(Debug)]
pub struct Names {
    pub(super) embed: [&'static str; 2],
    pub(super) add_rms_norm: [&'static str; 2],
    pub(super) qk_norm_rope: [&'static str; 2],
    pub(super) silu_mul: [&'static str; 2],
    pub(super) bias_rows: &'static str,
    pub(super) plain_attention: &'static str,
    /// `[head_dim 64, head_dim 128][64 queries, 128 queries]`; none for f32.
    pub(super) flash_attention: Option<[[&'static str; 2]; 2]>,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

/// An element of device memory: `f32`, `bf16` or `f16`.
pub trait Element: sealed::Sealed + DeviceRepr + Copy + 'static {
    #[doc(hidden)]
    const NAMES: Names;
    #[doc(hidden)]
    const DATA_TYPE: cudaDataType;
    /// Elements in 16 bytes.
    #[doc(hidden)]
    const WIDE: usize = 16 / size_of::<Self>();
}

macro_rules! element {
    ($type:ident, $data_type:ident, $wide:literal, $flash:expr) => {
        impl Element for $type {
            const NAMES: Names = Names {
                embed: [concat!("embed_", stringify!($type), "_1"), concat!("embed_", stringify!($type), "_4")],
                add_rms_norm: [
                    concat!("add_rms_norm_", stringify!($type), "_1"),
                    concat!("add_rms_norm_", stringify!($type), "_4"),
                ],
                qk_norm_rope: [
                    concat!("qk_norm_rope_", stringify!($type), "_1"),
                    concat!("qk_norm_rope_", stringify!($type), "_", $wide),
                ],
                silu_mul: [
                    concat!("silu_mul_", stringify!($type), "_1"),
                    concat!("silu_mul_", stringify!($type), "_", $wide),
                ],
                bias_rows: concat!("bias_rows_", stringify!($type)),
                plain_attention: concat!("plain_attention_", stringify!($type)),
                flash_attention: $flash,
            };
            const DATA_TYPE: cudaDataType = cudaDataType::$data_type;
        }
    };
}

element!(f32, CUDA_R_32F, "4", None);
element!(
    bf16,
    CUDA_R_16BF,
    "8",
    Some([
        ["flash_attention_bf16_64_1", "flash_attention_bf16_64_2"],
        ["flash_attention_bf16_128_1", "flash_attention_bf16_128_2"]
    ])
);
element!(
    f16,
    CUDA_R_16F,
    "8",
    Some([
        ["flash_attention_f16_64_1", "flash_attention_f16_64_2"],
        ["flash_attention_f16_128_1", "flash_attention_f16_128_2"]
    ])
);
