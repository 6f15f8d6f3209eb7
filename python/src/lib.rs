//! Extension module `prefold._prefold`: the command `prefold`, and models in process.
//!
//! Users import the Python package around it, `python/prefold/`.
#![deny(unsafe_code)]

mod call;
mod errors;
mod job;
mod model;
mod process;
mod settings;
mod texts;
mod waiting;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Native part of the package prefold.
#[pymodule(gil_used = false)]
mod _prefold {
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::model::NativeModel;
    #[pymodule_export]
    use super::process::main;
    #[pymodule_export]
    use super::version;
}

/// The version that `prefold --version` prints, without the commit, in the form of PEP 440, which the wheel's metadata has too:
/// `0.2.0.dev0` for `0.2.0-dev`.
#[pyfunction]
fn version() -> String {
    env!("CARGO_PKG_VERSION").replace("-dev", ".dev0")
}
