//! Checks of a device's options without opening it.

use crate::error::LoadError;
use crate::options::{DeviceChoice, LoadOptions};
use prefold_kernels::{Dtype, Isa, ThreadPool};

/// Checks, without opening a device, that the device of the options supports their other settings.
///
/// # Errors
/// The device does not support the type, the kernels or the replicas, or this binary does not support the device.
pub fn check_options(options: &LoadOptions) -> Result<(), LoadError> {
    match options.device {
        Some(DeviceChoice::Cpu) => check_cpu(options),
        None if !cfg!(feature = "cuda") => check_cpu(options),
        None => Ok(()),
        Some(DeviceChoice::Cuda(ordinal)) => {
            check_no_replicas(ordinal, options)?;
            #[cfg(not(feature = "cuda"))]
            return Err(no_cuda(ordinal));
            #[cfg(feature = "cuda")]
            check_gpu_dtype(ordinal, options.dtype)
        }
    }
}

/// Checks the kernels, replicas and types of a CPU.
pub(in crate::ops) fn check_cpu(options: &LoadOptions) -> Result<(), LoadError> {
    check_replicas(options.cpu_replicas, ThreadPool::default_threads())?;
    if let Some(name) = &options.cpu_kernels {
        Isa::named(name).map_err(|problem| kernels_refused(&problem))?;
    }
    match options.dtype {
        Some(Dtype::Float16) => {
            let problem = "--dtype float16 is for GPUs; a CPU has bfloat16, float32 and int8";
            Err(LoadError::Options(problem.to_owned()))
        }
        _ => Ok(()),
    }
}

pub(in crate::ops) fn kernels_refused(problem: &str) -> LoadError {
    LoadError::Options(format!("--cpu-kernels: {problem}"))
}

#[cfg(feature = "cuda")]
pub(in crate::ops) fn check_gpu_dtype(ordinal: usize, dtype: Option<Dtype>) -> Result<(), LoadError> {
    match dtype {
        Some(Dtype::Int8) => Err(LoadError::Options(format!(
            "--device cuda:{ordinal}: --dtype int8 is for CPUs; a GPU has bfloat16, float16 and float32"
        ))),
        _ => Ok(()),
    }
}

#[cfg(not(feature = "cuda"))]
pub(in crate::ops) fn no_cuda(ordinal: usize) -> LoadError {
    LoadError::Options(format!("--device cuda:{ordinal}: this binary was built without the feature `cuda`"))
}

/// Checks that each replica has at least one core.
fn check_replicas(replicas: usize, cores: usize) -> Result<(), LoadError> {
    let problem = match replicas {
        0 => "must be at least 1".to_owned(),
        _ if replicas > cores => format!("{replicas} replicas need a core each; {cores} can be used"),
        _ => return Ok(()),
    };
    Err(LoadError::Options(format!("--cpu-replicas: {problem}")))
}

/// Refuses replicas on a GPU, which runs one batch at a time.
pub(in crate::ops) fn check_no_replicas(ordinal: usize, options: &LoadOptions) -> Result<(), LoadError> {
    match options.cpu_replicas {
        1 => Ok(()),
        replicas => {
            let problem =
                format!("--cpu-replicas: {replicas} replicas are for a CPU; the model runs on cuda:{ordinal}");
            Err(LoadError::Options(problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_have_a_core_each_and_none_are_on_a_gpu() {
        assert!(check_replicas(1, 1).is_ok() && check_replicas(4, 4).is_ok());
        let refused = |result: Result<(), LoadError>| result.map_or_else(|error| error.to_string(), |()| String::new());
        assert!(refused(check_replicas(0, 4)).contains("--cpu-replicas: must be at least 1"));
        assert!(refused(check_replicas(5, 4)).contains("--cpu-replicas: 5 replicas need a core each; 4 can be used"));
        let options =
            |cpu_replicas| LoadOptions { device: Some(DeviceChoice::Cuda(1)), cpu_replicas, ..LoadOptions::default() };
        let refusal = |cpu_replicas| refused(check_options(&options(cpu_replicas)));
        assert!(refusal(2).contains("--cpu-replicas: 2 replicas are for a CPU; the model runs on cuda:1"));
        assert!(!refusal(1).contains("--cpu-replicas"));
    }
}
