//! The names that a pickle of tensors may use.

use prefold_kernels::Dtype;
use std::fmt;

/// A function or class of Python that is understood. None is ever called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`
    RebuildParameter,
    /// The class of a storage.
    Storage(StorageType),
}

/// Elements of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StorageType {
    /// Name of the class without `Storage`.
    pub(super) name: &'static str,
    /// Bytes of an element.
    pub(super) size: usize,
    /// The type, if it is one of weights.
    pub(super) dtype: Option<Dtype>,
}

const fn storage(name: &'static str, size: usize, dtype: Option<Dtype>) -> StorageType {
    StorageType { name, size, dtype }
}

const STORAGES: [StorageType; 10] = [
    storage("Float", 4, Some(Dtype::Float32)),
    storage("Half", 2, Some(Dtype::Float16)),
    storage("BFloat16", 2, Some(Dtype::Bfloat16)),
    storage("Double", 8, None),
    storage("Long", 8, None),
    storage("Int", 4, None),
    storage("Short", 2, None),
    storage("Char", 1, None),
    storage("Byte", 1, None),
    storage("Bool", 1, None),
];

impl Global {
    /// The global of a name, if it is understood.
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        match (module, name) {
            ("collections", "OrderedDict") => Some(Self::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Self::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Self::RebuildParameter),
            ("torch", name) => {
                let name = name.strip_suffix("Storage")?;
                STORAGES.into_iter().find(|storage| storage.name == name).map(Self::Storage)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Global {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OrderedDict => f.write_str("collections.OrderedDict"),
            Self::RebuildTensor => f.write_str("torch._utils._rebuild_tensor_v2"),
            Self::RebuildParameter => f.write_str("torch._utils._rebuild_parameter"),
            Self::Storage(storage) => write!(f, "torch.{}Storage", storage.name),
        }
    }
}
