//! The driver and cuBLAS: opened at first use, with error messages for what is missing.

use super::shims::{self, EntryPoints};
use cudarc::driver::DriverError;
use cudarc::driver::sys::{CUresult, cuDriverGetVersion};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// CUDA version that a driver must support, in the driver's encoding: the toolkit's version, which its kernels and libraries need.
const NEEDED_VERSION: i32 = 13_000;

const DRIVER: &str = "libcuda.so.1";
const CUBLAS: &str = "libcublas.so.13";

/// The reason why no device can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// This machine has no NVIDIA driver.
    #[error("there is no NVIDIA driver ({DRIVER} is not found)")]
    NoDriver,
    /// The driver works but reports no device.
    #[error(
        "the NVIDIA driver sees no device (CUDA_ERROR_NO_DEVICE; a container needs `--gpus`, and CUDA_VISIBLE_DEVICES may hide them)"
    )]
    NoDevice,
    /// A library is missing or damaged.
    #[error("{library} cannot be used: {problem}{advice}")]
    Library {
        /// Its file name.
        library: &'static str,
        /// The loader's message.
        problem: String,
        /// Advice, appended to the message.
        advice: &'static str,
    },
    /// The driver is older than the kernels.
    #[error("driver {} found, {} needed (r580): install an NVIDIA driver of branch 580 or newer", version(*.found), version(NEEDED_VERSION))]
    OldDriver {
        /// The CUDA version that it supports, in the driver's encoding.
        found: i32,
    },
    /// The driver fails to start.
    #[error("the NVIDIA driver does not work: {name}{advice}")]
    Driver {
        /// Name and description of its error.
        name: String,
        /// Advice, if any.
        advice: &'static str,
    },
}

impl Unavailable {
    /// True if the machine has no CUDA device, false if it has one that cannot be used.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NoDriver | Self::NoDevice)
    }
}

/// The version as text: `13.0` for 13000.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// The number of devices, at least one. Opens the libraries at the first call.
///
/// # Errors
/// No device can be used.
pub fn device_count() -> Result<usize, Unavailable> {
    static OPENED: OnceLock<Result<(), Unavailable>> = OnceLock::new();
    OPENED.get_or_init(open_libraries).clone()?;
    match cudarc::driver::result::device::get_count() {
        Ok(count) if count > 0 => Ok(count as usize),
        Ok(_) => Err(Unavailable::NoDevice),
        Err(error) => Err(failure(error)),
    }
}

/// Fills the slots of all entry points, starts the driver, and checks its version.
fn open_libraries() -> Result<(), Unavailable> {
    let missing = fill(open(DRIVER)?, &shims::DRIVER);
    cudarc::driver::result::init().map_err(failure)?;
    let mut found = 0;
    // SAFETY: the driver writes a number.
    unsafe { cuDriverGetVersion(&raw mut found) }.result().map_err(failure)?;
    if found < NEEDED_VERSION {
        return Err(Unavailable::OldDriver { found });
    }
    check(DRIVER, missing)?;
    check(CUBLAS, fill(open(CUBLAS)?, &shims::CUBLAS))
}

/// Opens a library for the lifetime of the process.
fn open(library: &'static str) -> Result<Library, Unavailable> {
    // SAFETY: NVIDIA's libraries have initialisers that may run on any thread at any time.
    unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| unopened(library, &error))
}

fn unopened(library: &'static str, error: &libloading::Error) -> Unavailable {
    let problem = match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    };
    // Where a dependency of the library is missing, the message names the dependency.
    let is_missing = problem.starts_with(library) && problem.contains("No such file");
    match library {
        DRIVER if is_missing => Unavailable::NoDriver,
        DRIVER => Unavailable::Library { library, problem, advice: "; install the NVIDIA driver again" },
        _ => {
            let advice = "; install cuBLAS of CUDA 13, or add its directory to LD_LIBRARY_PATH";
            Unavailable::Library { library, problem, advice }
        }
    }
}

/// Writes the addresses of a library's entry points to their slots; returns the first name that it lacks.
fn fill<const N: usize>(library: Library, entries: &EntryPoints<N>) -> Option<&'static str> {
    let mut missing = None;
    for (name, slot) in entries.names.iter().zip(entries.slots) {
        // SAFETY: the symbol is a function, of which only the address is taken.
        match unsafe { library.get::<*mut c_void>(name.as_bytes()) } {
            Ok(address) => slot.store(address.into_raw(), Ordering::Release),
            Err(_) => missing = missing.or(Some(*name)),
        }
    }
    std::mem::forget(library);
    missing
}

fn check(library: &'static str, missing: Option<&'static str>) -> Result<(), Unavailable> {
    let Some(name) = missing else { return Ok(()) };
    Err(Unavailable::Library { library, problem: format!("it has no `{name}`"), advice: "; is it of CUDA 13?" })
}

/// The driver's error with its name, and advice if any.
fn failure(error: DriverError) -> Unavailable {
    use CUresult as E;
    let advice = match error.0 {
        E::CUDA_ERROR_NO_DEVICE => return Unavailable::NoDevice,
        E::CUDA_ERROR_STUB_LIBRARY => "; libcuda.so.1 is the toolkit's stub: remove its directory from LD_LIBRARY_PATH",
        E::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "; the kernel's module and the libraries are of different versions: restart the machine, or mount the host's libraries"
        }
        E::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "; remove the forward-compatible libraries (cuda-compat) or update the driver"
        }
        E::CUDA_ERROR_SYSTEM_NOT_READY => "; start nvidia-fabricmanager, or wait until it is up",
        E::CUDA_ERROR_DEVICE_UNAVAILABLE => {
            "; another process has the device for itself (see nvidia-smi, compute mode)"
        }
        E::CUDA_ERROR_OUT_OF_MEMORY => "; other processes have taken the device's memory (see nvidia-smi)",
        E::CUDA_ERROR_OPERATING_SYSTEM | E::CUDA_ERROR_UNKNOWN => {
            "; look for `nvidia-smi` and the kernel's log (Xid); loading the module nvidia_uvm or a restart of the machine may help"
        }
        _ => "; `nvidia-smi` and the kernel's log say more",
    };
    let name = super::error::driver_error(error);
    Unavailable::Driver { name, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_is_told_in_numbers() {
        let text = Unavailable::OldDriver { found: 12_040 }.to_string();
        assert!(text.starts_with("driver 12.4 found, 13.0 needed (r580)"), "{text}");
    }

    #[test]
    fn only_what_is_not_there_counts_as_absent() {
        assert!(Unavailable::NoDriver.is_absent() && Unavailable::NoDevice.is_absent());
        assert!(!Unavailable::OldDriver { found: 12_040 }.is_absent());
        assert_eq!(failure(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)), Unavailable::NoDevice);
        let broken = failure(DriverError(CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
        assert!(!broken.is_absent() && broken.to_string().contains("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), "{broken}");
    }

    #[test]
    fn a_library_that_is_missing_is_named() {
        // SAFETY: there is no such file.
        let Err(error) = (unsafe { Library::open(Some("libcublas.so.13.missing"), RTLD_NOW) }) else { panic!() };
        let text = unopened("libcublas.so.13", &error).to_string();
        assert!(text.contains("libcublas.so.13 cannot be used") && text.contains("No such file"), "{text}");
    }
}
