//! Entry points of NVIDIA's libraries, defined by the program itself, so that it starts on machines without them.
//!
//! cudarc and candle link against the libraries, and such a program does not start where one is missing. A shim has the name of an entry
//! point and jumps to the address in its slot; [`libraries`](super::libraries) opens the real library at first use and fills the slots.
//! Until then, and where an entry point is missing, a call returns an error of its library. For a name without a shim the linker falls
//! back to the library itself; `scripts/cuda-simulated.sh` then fails. The names are hidden: exported ones would be found by the real
//! libraries too, which would then call each other through the shims.
//!
//! Two libraries are never opened, since prefold computes nothing with them. candle creates a cuRAND generator with every device, and
//! its kernels for quantized experts are registered with the CUDA runtime before `main`: both succeed without effect, all other calls
//! are refused.
#![allow(non_camel_case_types, non_snake_case, reason = "the libraries' own names")]

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicPtr;

/// Address of an entry point.
pub(super) type Slot = AtomicPtr<c_void>;

/// Entry points of a library: names and slots in the same order.
pub(super) struct EntryPoints<const N: usize> {
    pub(super) names: [&'static str; N],
    pub(super) slots: &'static [Slot; N],
}

/// Assembler directive that makes a symbol local to the program, invisible to the dynamic linker.
macro_rules! hidden {
    ($name:ident) => {
        concat!(".hidden ", stringify!($name))
    };
}

/// Hides the symbol of the enclosing function.
macro_rules! hide {
    ($name:ident) => {
        // SAFETY: a directive of the assembler; no instruction.
        unsafe { asm!(hidden!($name), options(nomem, nostack, preserves_flags)) }
    };
}

/// Defines the entry points of a library. Every slot starts with the function `$missing`; `$index` numbers the slots.
macro_rules! entry_points {
    ($entries:ident, $slots:ident, $index:ident, $missing:expr; $($name:ident)+) => {
        #[derive(Clone, Copy)]
        enum $index { $($name),+ }

        const _: () = assert!(size_of::<Slot>() == 8);
        static $slots: [Slot; [$(stringify!($name)),+].len()] =
            [const { Slot::new($missing as *const () as *mut c_void) }; [$(stringify!($name)),+].len()];

        $(
            #[unsafe(naked)]
            // SAFETY: the name is the library's, which is not linked; the slot always has a function that takes these arguments
            // or ignores them.
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    hidden!($name), "jmp qword ptr [rip + {slots} + {offset}]",
                    slots = sym $slots, offset = const $index::$name as usize * 8,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    hidden!($name), "adrp x16, {slots} + {offset}", "ldr x16, [x16, :lo12:{slots} + {offset}]", "br x16",
                    slots = sym $slots, offset = const $index::$name as usize * 8,
                );
            }
        )+

        pub(super) static $entries: EntryPoints<{ [$(stringify!($name)),+].len() }> =
            EntryPoints { names: [$(stringify!($name)),+], slots: &$slots };
    };
}

/// Returned by missing entry points of the driver: `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`.
extern "C" fn no_driver() -> c_int {
    302
}

/// Returned by missing entry points of cuBLAS: `CUBLAS_STATUS_NOT_INITIALIZED`.
extern "C" fn no_cublas() -> c_int {
    1
}

entry_points! {
    DRIVER, DRIVER_SLOTS, DriverEntry, no_driver;
    cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString
    cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetAttribute
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2
    cuCtxDestroy_v2 cuCtxGetCurrent cuCtxSetCurrent cuCtxSynchronize cuCtxGetStreamPriorityRange
    cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize cuStreamWaitEvent cuStreamIsCapturing
    cuEventCreate cuEventDestroy_v2 cuEventQuery cuEventRecord cuEventSynchronize
    cuMemGetInfo_v2 cuMemAlloc_v2 cuMemFree_v2 cuMemAllocAsync cuMemFreeAsync cuMemHostAlloc cuMemFreeHost
    cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyPeerAsync cuMemsetD8Async
    cuModuleLoad cuModuleLoadData cuModuleUnload cuModuleGetFunction
    cuFuncLoad cuFuncSetAttribute cuLaunchKernel
}

entry_points! {
    CUBLAS, CUBLAS_SLOTS, CublasEntry, no_cublas;
    cublasCreate_v2 cublasDestroy_v2 cublasSetStream_v2 cublasSetMathMode cublasSetWorkspace_v2
    cublasGemmEx cublasGemmStridedBatchedEx cublasDgemmStridedBatched
}

/// Defines functions that return a constant.
macro_rules! constant {
    ($answer:expr; $($name:ident)+) => {$(
        // SAFETY: the name belongs to a library that is neither linked nor opened.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            hide!($name);
            $answer
        }
    )+};
}

// cudaSuccess, and nothing is registered.
constant! { 0; __cudaRegisterFatBinaryEnd __cudaRegisterFunction __cudaRegisterVar __cudaUnregisterFatBinary }
// cudaErrorNotSupported
constant! {
    801;
    __cudaGetKernel __cudaLaunchKernel_ptsz __cudaPopCallConfiguration __cudaPushCallConfiguration cudaFuncSetAttribute cudaGetDevice
}
// CURAND_STATUS_SUCCESS
constant! { 0; curandDestroyGenerator curandSetPseudoRandomGeneratorSeed curandSetStream }

/// Handle of a registration; its content is never read.
static HANDLE: c_int = 0;

// SAFETY: as above. The handle goes to the other calls of the registration only, which ignore it.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary() -> *const c_int {
    hide!(__cudaRegisterFatBinary);
    &raw const HANDLE
}

/// Makes a generator that makes no numbers.
///
/// # Safety
/// `generator` is valid for writes.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn curandCreateGenerator(generator: *mut *const c_int, _: c_int) -> c_int {
    hide!(curandCreateGenerator);
    // SAFETY: the caller's promise, as in cuRAND.
    unsafe { *generator = &raw const HANDLE };
    0
}
