//! Flags of `prefold-bench forward`.

use super::batches;
use crate::report::Output;
use crate::shapes::Shape;
use prefold_backends::{DeviceChoice, Dtype};
use std::path::PathBuf;

/// Flags of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value = "smollm2-135m")]
    pub(super) shape: Shape,
    /// Number of layers, fewer than the shape's for a quick look.
    #[arg(long)]
    pub(super) layers: Option<usize>,
    /// Device: `cpu`, `cuda` or `cuda:N`.
    #[arg(long, default_value = "cpu")]
    pub(super) device: DeviceChoice,
    /// `bfloat16`, `float32`, `int8` on a CPU, or `float16` on a GPU.
    #[arg(long, default_value = "bfloat16")]
    pub(super) dtype: Dtype,
    /// Instruction set of the CPU kernels, as for the server.
    #[arg(long)]
    pub(super) cpu_kernels: Option<String>,
    #[command(flatten)]
    pub(super) batches: batches::Args,
    /// Timed passes of each batch in each way, alternating; medians and ranges are reported.
    #[arg(long, default_value_t = 5)]
    pub(super) runs: usize,
    /// Warm-up passes of each batch in each way; default: 1 on a CPU, 2 on a GPU.
    #[arg(long)]
    pub(super) warm: Option<usize>,
    /// Print the share of each operation in the last pass.
    #[arg(long)]
    pub(super) profile: bool,
    /// Print the gaps between the yield points of this many further passes: the maximum wait of an urgent request.
    #[arg(long)]
    pub(super) gaps: bool,
    /// Write token ids and pooled vectors of all batches as safetensors, for `benches/gpu/parity`.
    #[arg(long, value_name = "FILE")]
    pub(super) answers: Option<PathBuf>,
    /// Directory of the generated models, kept for later runs.
    #[arg(long, default_value = "target/bench-models")]
    pub(super) models: PathBuf,
    #[command(flatten)]
    pub(super) output: Output,
}
