//! Names of an adapter's files.

use crate::formats::TensorFormat;

/// Name of the config.
pub(crate) const CONFIG: &str = "adapter_config.json";
/// Names of the file of tensors, the first of which that exists is read.
pub(crate) const TENSORS: [(&str, TensorFormat); 2] =
    [("adapter_model.safetensors", TensorFormat::Safetensors), ("adapter_model.bin", TensorFormat::Pytorch)];
