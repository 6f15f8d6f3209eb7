//! Names of an adapter's files.

use crate::formats::TensorFormat;

/// Name of the config.
pub(crate) const CONFIG: &str = "adapter_config.json";
/// Folder of the adapters of tasks.
pub(crate) const TASKS: &str = "adapters/";
/// Names of the file of tensors, the first of which that exists is read.
pub(crate) const TENSORS: [(&str, TensorFormat); 2] =
    [("adapter_model.safetensors", TensorFormat::Safetensors), ("adapter_model.bin", TensorFormat::Pytorch)];

/// Folder of a task's adapter, with its slash.
pub(crate) fn folder_of_task(task: &str) -> String {
    format!("{TASKS}{task}/")
}
