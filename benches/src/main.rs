//! `prefold-bench`: the cost of prefold's components, compared with a baseline in the same run.
//!
//! A running server is measured by `prefold bench`.
//!
//! Every command prints a table and, with `--json FILE`, writes its rows; those with a picture take `--svg FILE`.

mod attention;
mod forward;
#[cfg(feature = "cuda")]
mod gpu;
mod kernels;
mod model;
mod report;
mod shapes;

use clap::Parser;

#[derive(Parser)]
#[command(version, about)]
enum Command {
    /// Matrix products against the CPU's peak and candle's product, element-wise kernels against a memory copy.
    Kernels(kernels::Args),
    /// One layer's attention: ragged against compact over prefix, suffix and batch size.
    Attention(attention::Args),
    /// A whole forward pass with compaction off, ragged and compact.
    Forward(forward::Args),
    /// A GPU's row kernels against a copy in its memory, its products and its attention.
    #[cfg(feature = "cuda")]
    Gpu(gpu::Args),
    /// Writes a model directory of a given shape with random weights.
    Model(model::Args),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Kernels(args) => kernels::run(&args),
        Command::Attention(args) => attention::run(&args),
        Command::Forward(args) => forward::run(&args),
        #[cfg(feature = "cuda")]
        Command::Gpu(args) => gpu::run(&args),
        Command::Model(args) => model::run(&args),
    }
}
