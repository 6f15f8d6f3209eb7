//! The device of a model and the types that it computes in.

use crate::error::LoadError;
#[cfg(feature = "cuda")]
use crate::ops::device::options::check_gpu_dtype;
#[cfg(not(feature = "cuda"))]
use crate::ops::device::options::no_cuda;
use crate::ops::device::options::{check_cpu, check_no_replicas, kernels_refused};
use crate::ops::device::skip::Skip;
use crate::ops::device::stream::{Priority, Stream};
#[cfg(feature = "cuda")]
use crate::ops::tensor::cuda;
use crate::ops::tensor::storage::candle_dtype;
use crate::options::{DeviceChoice, LoadOptions};
use candle_core::{DType, Device, Result, Tensor};
use prefold_core::BackendError;
use prefold_kernels::{Choice, Dtype, Isa};
use std::sync::Arc;

/// A device, opened, and the type of the weights on it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(in crate::ops) device: Device,
    dtype: Dtype,
    dtype_reason: String,
    /// Weights that stay in bfloat16 although the type is int8.
    int8_skip: Arc<[Skip]>,
    /// Prefix of the names of weights, in these patterns and in reports.
    prefix: String,
    name: String,
    warnings: Vec<String>,
    stream: Stream,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("dtype", &self.dtype).finish_non_exhaustive()
    }
}

impl Target {
    /// The CPU.
    pub(crate) fn cpu(dtype: Dtype) -> Self {
        Self {
            device: Device::Cpu,
            dtype,
            dtype_reason: String::new(),
            int8_skip: Arc::new([]),
            prefix: String::new(),
            name: "cpu".to_owned(),
            warnings: Vec::new(),
            stream: Stream {
                #[cfg(feature = "cuda")]
                cuda: None,
            },
        }
    }

    /// Opens a device. The default device is the first GPU, or the CPU, with a warning, on a machine without a driver or a GPU.
    /// The default type is bfloat16 on a GPU, and on a CPU if the weights are `stored` in 16 bits, because it takes half the memory
    /// and is never slower; else float32.
    ///
    /// # Errors
    /// The device does not exist, is too old, does not support the type or the replicas; or none is chosen, and the GPU or its driver
    /// does not work.
    pub(crate) fn open(options: &LoadOptions, stored: &str) -> std::result::Result<Self, LoadError> {
        match options.device {
            Some(DeviceChoice::Cpu) => Self::open_cpu(options, stored),
            Some(DeviceChoice::Cuda(ordinal)) => Self::open_cuda(ordinal, options),
            #[cfg(feature = "cuda")]
            None => Self::open_first(options, stored),
            #[cfg(not(feature = "cuda"))]
            None => Self::open_cpu(options, stored),
        }
    }

    /// Opens the CPU for static embeddings: a text needs only a few rows, which are read in place. If there is a GPU that another model
    /// would use, this adds a warning.
    ///
    /// # Errors
    /// A GPU is chosen, or an error of [`open`](Self::open) for a CPU.
    pub(crate) fn open_for_table(options: &LoadOptions, stored: &str) -> std::result::Result<Self, LoadError> {
        if let Some(DeviceChoice::Cuda(ordinal)) = options.device {
            return Err(LoadError::Options(format!(
                "--device cuda:{ordinal}: static embeddings (Model2Vec, StaticEmbedding) run on the CPU; leave --device out, or choose \
                 --device cpu"
            )));
        }
        let target = Self::open_cpu(options, stored)?;
        #[cfg(feature = "cuda")]
        if options.device.is_none() && cuda::count().is_ok() {
            let warning = "runs on the CPU, although there is a GPU: static embeddings always do".to_owned();
            return Ok(Self { warnings: [vec![warning], target.warnings].concat(), ..target });
        }
        Ok(target)
    }

    #[cfg(feature = "cuda")]
    fn open_first(options: &LoadOptions, stored: &str) -> std::result::Result<Self, LoadError> {
        match cuda::count() {
            Ok(_) => Self::open_cuda(0, options),
            Err(absent) if absent.is_absent() => {
                let warning = format!("runs on the CPU, although built for CUDA: {absent}");
                let mut target = Self::open_cpu(options, stored)?;
                target.warnings.insert(0, warning);
                Ok(target)
            }
            Err(broken) => {
                let problem = format!("no GPU can be used: {broken} (use --device cpu to serve from the CPU)");
                Err(LoadError::Options(problem))
            }
        }
    }

    fn open_cpu(options: &LoadOptions, stored: &str) -> std::result::Result<Self, LoadError> {
        check_cpu(options)?;
        if let Some(name) = &options.cpu_kernels {
            Choice::force(name).map_err(|problem| kernels_refused(&problem))?;
        }
        let is_half = stored.contains("float16") || matches!(stored, "gguf F16" | "gguf BF16");
        let (dtype, reason) = match options.dtype {
            Some(dtype) => (dtype, "chosen by the user".to_owned()),
            None if is_half => (Dtype::Bfloat16, format!("the weights are stored as {stored}")),
            None => (Dtype::Float32, format!("the weights are stored as {stored}")),
        };
        let mut warnings: Vec<String> = Choice::current().warning.clone().into_iter().collect();
        if dtype != Dtype::Int8 && !options.int8_skip.is_empty() {
            warnings.push(format!("--int8-skip has no effect: the model runs in {dtype}"));
        }
        let int8_skip = options.int8_skip.iter().cloned().map(Skip::new).collect();
        Ok(Self { dtype_reason: reason, int8_skip, warnings, ..Self::cpu(dtype) })
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda(ordinal: usize, options: &LoadOptions) -> std::result::Result<Self, LoadError> {
        check_no_replicas(ordinal, options)?;
        Err(no_cuda(ordinal))
    }

    #[cfg(feature = "cuda")]
    fn open_cuda(ordinal: usize, options: &LoadOptions) -> std::result::Result<Self, LoadError> {
        check_no_replicas(ordinal, options)?;
        check_gpu_dtype(ordinal, options.dtype)?;
        let refused = |problem: String| LoadError::Options(format!("--device cuda:{ordinal}: {problem}"));
        let count = cuda::count().map_err(|error| refused(error.to_string()))?;
        if ordinal >= count {
            return Err(refused(format!("there is no such device; CUDA can use {count} on this machine")));
        }
        let (device, cuda) = cuda::open(ordinal).map_err(|error| refused(error.to_string()))?;
        let properties = cuda.properties().map_err(|error| refused(error.to_string()))?;
        tracing::info!(
            device = properties.name,
            free_mib = properties.free_bytes >> 20,
            total_mib = properties.total_bytes >> 20,
            "device opened"
        );
        let dtype = options.dtype;
        let dtype_reason = if dtype.is_some() { "chosen by the user" } else { "the usual one of a GPU" };
        let (dtype, dtype_reason) = (dtype.unwrap_or(Dtype::Bfloat16), dtype_reason.to_owned());
        Ok(Self {
            device,
            dtype,
            dtype_reason,
            int8_skip: Arc::new([]),
            prefix: String::new(),
            name: format!("cuda:{ordinal}"),
            warnings: Vec::new(),
            stream: Stream { cuda: Some(cuda) },
        })
    }

    /// The same device, with operations on a stream of this priority; a CPU is returned unchanged.
    ///
    /// # Errors
    /// The device has no memory.
    #[cfg_attr(not(feature = "cuda"), expect(clippy::unnecessary_wraps, reason = "a device may have no memory"))]
    pub(crate) fn with_priority(&self, priority: Priority) -> Result<Self> {
        #[cfg(feature = "cuda")]
        let cuda = self.cuda().map(|cuda| cuda.with_priority(priority.into())).transpose()?;
        #[cfg(not(feature = "cuda"))]
        let _ = priority;
        Ok(Self {
            #[cfg(feature = "cuda")]
            stream: Stream { cuda },
            ..self.clone()
        })
    }

    /// True for a stream of higher priority.
    pub(crate) fn has_priority(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.cuda().is_some_and(|cuda| cuda.has_priority());
        #[cfg(not(feature = "cuda"))]
        false
    }

    #[cfg(feature = "cuda")]
    pub(in crate::ops) fn cuda(&self) -> Option<&Arc<cuda::Cuda>> {
        self.stream.cuda.as_ref()
    }

    /// The stream of the target's operations.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same device with weights in float32.
    pub(crate) fn in_float32(&self) -> Self {
        Self { dtype: Dtype::Float32, int8_skip: Arc::new([]), ..self.clone() }
    }

    /// `cpu` or `cuda:0`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Warnings: reasons why the device or its instruction set is not the expected one.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The type of the weights.
    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The type of a matrix made of weights with these names.
    pub(crate) fn dtype_of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Dtype {
        // All names are tested, so that patterns without any match are known.
        let is_skipped = names.map(|name| self.full_name(name)).fold(false, |skipped, name| {
            self.int8_skip.iter().fold(skipped, |skipped, skip| skip.matches(&name) | skipped)
        });
        if self.dtype == Dtype::Int8 && is_skipped { Dtype::Bfloat16 } else { self.dtype }
    }

    /// True if attention rounds its factors to bf16 although activations are f32: with int8 weights on a CPU that multiplies bf16
    /// faster.
    pub(crate) fn rounds_attention(&self) -> bool {
        self.dtype == Dtype::Int8 && Isa::best().has_fast_bf16()
    }

    /// The same target with more weights in bfloat16, by their names.
    pub(crate) fn skipping(&self, names: impl Iterator<Item = String>) -> Self {
        let patterns = self.int8_skip.iter().map(|skip| skip.pattern().to_owned());
        Self { int8_skip: patterns.chain(names).map(Skip::new).collect(), ..self.clone() }
    }

    /// `true` if a weight has matched this `--int8-skip` pattern.
    pub(crate) fn has_skipped(&self, pattern: &str) -> bool {
        self.int8_skip.iter().any(|skip| skip.pattern() == pattern && skip.is_matched())
    }

    /// The same target for a sub-model, whose folder is the prefix of the names of weights.
    pub(crate) fn of_sub_model(self, folder: &str) -> Self {
        Self { prefix: format!("{folder}{}", if folder.is_empty() { "" } else { "/" }), ..self }
    }

    /// A weight's name in the whole model.
    pub(in crate::ops) fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Reason for the type of the weights.
    pub(crate) fn dtype_reason(&self) -> &str {
        &self.dtype_reason
    }

    /// The instruction set of the kernels and the reason for it; a GPU has no choice.
    pub(crate) fn kernels(&self) -> (String, String) {
        if !self.is_cpu() {
            return ("cuda".to_owned(), "the device".to_owned());
        }
        let choice = Choice::current();
        (choice.isa.to_string(), choice.reason.clone())
    }

    /// The type of GEMM inputs.
    pub(crate) fn activations(&self) -> DType {
        candle_dtype(self.dtype)
    }

    /// The type of Q, K, V, gate and up: single precision on a CPU, where it costs nothing, and the tensor cores' type on a GPU. The
    /// residual stream is always `f32`.
    pub(crate) fn projections(&self) -> DType {
        if self.is_cpu() { DType::F32 } else { self.activations() }
    }

    /// Rows per block in wide intermediate results, which fit a CPU's caches or fill a GPU.
    pub(crate) fn row_block(&self) -> usize {
        if self.is_cpu() { 1024 } else { 8192 }
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.device.is_cpu()
    }

    /// Copies a tensor of the host to the device; returns the same tensor on a CPU.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn upload(&self, tensor: &Tensor) -> Result<Tensor> {
        tensor.to_device(&self.device)
    }

    /// Free bytes on the device; `None` on a CPU.
    pub(crate) fn free_bytes(&self) -> Result<Option<usize>> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = self.cuda() {
            return Ok(Some(cuda.properties()?.free_bytes));
        }
        Ok(None)
    }

    /// The error of a batch, or of the device, for a failure other than a lack of memory.
    pub(crate) fn failure(&self, error: &candle_core::Error) -> BackendError {
        let error = error.to_string();
        if self.is_lost() { BackendError::DeviceLost(error) } else { BackendError::Compute(error) }
    }

    /// True if the device no longer answers any call, as after an illegal address, a failed launch or an uncorrectable memory error.
    /// Always false for a CPU.
    pub(crate) fn is_lost(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.cuda().is_some_and(|cuda| cuda.kernels.is_lost());
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// Waits until all queued operations are done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = self.cuda() {
            return cuda.synchronize();
        }
        Ok(())
    }

    /// Waits for all operations if memory is allocated in the order of another stream than the target's. Call it before
    /// freeing memory that operations use, and before they use new memory.
    pub(in crate::ops) fn join_memory(&self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = self.cuda() {
            return cuda.join_memory();
        }
        Ok(())
    }
}

/// True if an operation failed because the device has no memory left.
pub(crate) fn is_out_of_memory(error: &candle_core::Error) -> bool {
    #[cfg(feature = "cuda")]
    return cuda::is_out_of_memory(error);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = error;
        false
    }
}

/// Used bytes of a GPU's memory, by all processes; `None` for a CPU.
pub fn used_device_bytes(device: DeviceChoice) -> Option<usize> {
    #[cfg(feature = "cuda")]
    if let DeviceChoice::Cuda(ordinal) = device {
        let (_, cuda) = cuda::open(ordinal).ok()?;
        let properties = cuda.properties().ok()?;
        return Some(properties.total_bytes - properties.free_bytes);
    }
    let _ = device;
    None
}
