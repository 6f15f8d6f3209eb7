//! A model directory with random weights: the cost of a shape without its checkpoint.

use crate::shapes::{Shape, Sizes};
use anyhow::{Context, Result};
use half::bf16;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shape.
    #[arg(long)]
    shape: Shape,
    /// Layers, if not the shape's own.
    #[arg(long)]
    layers: Option<usize>,
    /// The directory whose `tokenizer.json` and `tokenizer_config.json` are copied; its vocabulary must fit.
    #[arg(long, default_value = "models/prefold-mini")]
    tokenizer: PathBuf,
    /// The directory to write.
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let own = args.shape.sizes();
    let sizes = Sizes { layers: args.layers.unwrap_or(own.layers), ..own };
    write(args.shape, sizes, &args.tokenizer, &args.out)
}

/// Writes the directory: config, weights (bf16), pooling of the last token or of all, and a tokenizer.
pub(crate) fn write(shape: Shape, sizes: Sizes, tokenizer: &Path, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out.join("1_Pooling")).with_context(|| format!("cannot create {}", out.display()))?;
    std::fs::write(out.join("config.json"), serde_json::to_vec_pretty(&shape.config(sizes))?)?;
    let pooling = if shape.is_encoder() { "mean_tokens" } else { "lasttoken" };
    let pooling = format!("{{\"pooling_mode_{pooling}\": true}}");
    std::fs::write(out.join("1_Pooling/config.json"), pooling)?;
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(tokenizer.join(file), out.join(file))
            .with_context(|| format!("cannot copy {file} from {}", tokenizer.display()))?;
    }
    write_weights(shape, sizes, &out.join("model.safetensors"))
}

fn write_weights(shape: Shape, sizes: Sizes, path: &Path) -> Result<()> {
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = shape
        .tensors(sizes)
        .into_par_iter()
        .enumerate()
        .map(|(seed, (name, shape))| {
            let bytes = values(&shape, &mut SmallRng::seed_from_u64(seed as u64));
            (name, shape, bytes)
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(Dtype::BF16, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    safetensors::serialize_to_file(views, None, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Norm weights near 1, matrices of about the scale of trained ones; uniform, since only cost matters.
fn values(shape: &[usize], rng: &mut SmallRng) -> Vec<u8> {
    let (centre, spread) = if shape.len() == 1 { (1.0, 0.1) } else { (0.0, 1.7 / (shape[1] as f32).sqrt()) };
    let mut bytes = Vec::with_capacity(2 * shape.iter().product::<usize>());
    for _ in 0..shape.iter().product() {
        let uniform = rng.random::<f32>() * 2.0 - 1.0;
        bytes.extend_from_slice(&bf16::from_f32(centre + spread * uniform).to_le_bytes());
    }
    bytes
}
