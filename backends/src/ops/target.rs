//! The device of a model and the types that it computes in.

#[cfg(feature = "cuda")]
use super::cuda;
#[cfg(feature = "cuda")]
use super::device_options::check_gpu_dtype;
#[cfg(not(feature = "cuda"))]
use super::device_options::no_cuda;
use super::device_options::{check_cpu, check_no_replicas, kernels_refused};
use super::skip::Skip;
use super::storage::candle_dtype;
use super::stream::{Priority, Stream};
use crate::LoadError;
use crate::options::{DeviceChoice, LoadOptions};
use candle_core::{DType, Device, Result, Tensor};
use prefold_kernels::{Choice, Dtype, Isa};
use std::sync::Arc;

/// A device, opened, and the type of the weights on it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(super) device: Device,
    dtype: Dtype,
    dtype_reason: String,
    /// Weights that are bfloat16 although the type is int8.
    int8_skip: Arc<[Skip]>,
    /// Stands before the names of weights, in those patterns and in reports.
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

    /// Opens a device. When none is chosen, that is the first GPU; the CPU, with a warning, on a machine without a driver or a GPU.
    /// When no type is given, it is on a GPU bfloat16, on a CPU bfloat16 if the weights are `stored` in 16
    /// bits, which takes half the memory and is never slower, and else float32.
    ///
    /// # Errors
    /// The device is not there, is too old, does not have the type, or has no room for the replicas; none is chosen and the GPU or
    /// its driver does not work.
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

    /// Opens the CPU for a table of vectors, whose mean is a few rows of it: they are read where they are. A GPU that would be the device
    /// of another model is a warning.
    ///
    /// # Errors
    /// A GPU is chosen, or as of [`open`](Self::open) for a CPU.
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
            let warning = "runs on the CPU, although there is a GPU: static embeddings do".to_owned();
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
                let problem = format!("no GPU can be used: {broken} (--device cpu serves from the CPU nevertheless)");
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
            return Err(refused(format!("there is no such device; this machine has {count} that CUDA can use")));
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

    /// The same device, with operations on a stream of this priority; a CPU is returned as it is.
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
    pub(super) fn cuda(&self) -> Option<&Arc<cuda::Cuda>> {
        self.stream.cuda.as_ref()
    }

    /// The stream of the target's operations.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same device for weights in float32, whatever the type of the others.
    pub(crate) fn in_float32(&self) -> Self {
        Self { dtype: Dtype::Float32, int8_skip: Arc::new([]), ..self.clone() }
    }

    /// `cpu` or `cuda:0`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reasons why the device or its instructions are not what one would expect.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The type of the weights.
    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The type of a matrix that is made of weights with these names.
    pub(crate) fn dtype_of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Dtype {
        // All patterns see all names, so that those without a match are known.
        let is_skipped = names.map(|name| self.full_name(name)).fold(false, |skipped, name| {
            self.int8_skip.iter().fold(skipped, |skipped, skip| skip.matches(&name) | skipped)
        });
        if self.dtype == Dtype::Int8 && is_skipped { Dtype::Bfloat16 } else { self.dtype }
    }

    /// Whether attention rounds its factors to bf16 although activations are f32: where weights are 8-bit integers, and the CPU
    /// multiplies bf16 faster.
    pub(crate) fn rounds_attention(&self) -> bool {
        self.dtype == Dtype::Int8 && Isa::best().has_fast_bf16()
    }

    /// The same with more weights in bfloat16, by their names.
    pub(crate) fn skipping(&self, names: impl Iterator<Item = String>) -> Self {
        let patterns = self.int8_skip.iter().map(|skip| skip.pattern().to_owned());
        Self { int8_skip: patterns.chain(names).map(Skip::new).collect(), ..self.clone() }
    }

    /// `true` if a weight has matched a pattern of those to leave in bfloat16.
    pub(crate) fn has_skipped(&self, pattern: &str) -> bool {
        self.int8_skip.iter().any(|skip| skip.pattern() == pattern && skip.is_matched())
    }

    /// The same for a part of a model, whose folder stands before the names of weights.
    pub(crate) fn of_part(self, folder: &str) -> Self {
        Self { prefix: format!("{folder}{}", if folder.is_empty() { "" } else { "/" }), ..self }
    }

    /// A weight's name among those of the whole model.
    pub(super) fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Reason for that type.
    pub(crate) fn dtype_reason(&self) -> &str {
        &self.dtype_reason
    }

    /// The instructions of the kernels and the reason for them; on a GPU there is nothing to choose.
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

    /// The type of Q, K, V, gate and up: single precision on a CPU, where that costs nothing, and what the tensor cores
    /// take on a GPU. The residual stream is `f32` everywhere.
    pub(crate) fn projections(&self) -> DType {
        if self.is_cpu() { DType::F32 } else { self.activations() }
    }

    /// Rows that go through a wide intermediate result at a time: as many as fit a CPU's caches or fill a GPU.
    pub(crate) fn row_block(&self) -> usize {
        if self.is_cpu() { 1024 } else { 8192 }
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.device.is_cpu()
    }

    /// A tensor of the host on the device; the same one on a CPU.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn upload(&self, tensor: &Tensor) -> Result<Tensor> {
        tensor.to_device(&self.device)
    }

    /// Bytes that are free on the device; none are counted on a CPU.
    pub(crate) fn free_bytes(&self) -> Result<Option<usize>> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = self.cuda() {
            return Ok(Some(cuda.properties()?.free_bytes));
        }
        Ok(None)
    }

    /// True if the device answers no call any more, as after an illegal address, a failed launch or an uncorrectable memory error;
    /// never true of a CPU.
    pub(crate) fn is_lost(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.cuda().is_some_and(|cuda| cuda.kernels.is_lost());
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// Waits until everything that was queued is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = self.cuda() {
            return cuda.synchronize();
        }
        Ok(())
    }

    /// Waits before memory is freed that operations may use, and before they use what was allocated: where that has another order than
    /// they have.
    pub(super) fn join_memory(&self) -> Result<()> {
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

/// Bytes of a GPU's memory that are taken, by whomever; none are counted on a CPU.
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
