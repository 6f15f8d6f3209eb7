//! A model directory with random weights: the cost of a shape without its checkpoint.

use crate::shapes::{Shape, Sizes};
use anyhow::{Context, Result};
use half::bf16;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Flags of `prefold-bench model`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shape.
    #[arg(long)]
    shape: Shape,
    /// Number of layers, if it differs from the shape's.
    #[arg(long)]
    layers: Option<usize>,
    /// Directory with the `tokenizer.json` and `tokenizer_config.json` to copy; its vocabulary must fit the model.
    #[arg(long, default_value = "router/builtin")]
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
    let copied = |file: &str| format!("cannot copy {file} from {}", tokenizer.display());
    std::fs::copy(tokenizer.join("tokenizer.json"), out.join("tokenizer.json"))
        .with_context(|| copied("tokenizer.json"))?;
    let config = std::fs::read(tokenizer.join("tokenizer_config.json"));
    let mut config: Map<String, Value> =
        serde_json::from_slice(&config.with_context(|| copied("tokenizer_config.json"))?)?;
    // The maximum input length is the shape's.
    config.remove("model_max_length");
    std::fs::write(out.join("tokenizer_config.json"), serde_json::to_vec_pretty(&config)?)?;
    write_weights(shape, sizes, &out.join("model.safetensors"))
}

fn write_weights(shape: Shape, sizes: Sizes, path: &Path) -> Result<()> {
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = shape
        .tensors(sizes)
        .into_par_iter()
        .map(|(name, shape)| {
            let bytes = values(&name, &shape);
            (name, shape, bytes)
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(Dtype::BF16, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    // Complete or absent: a later run uses an existing model unchecked.
    let unfinished = path.with_extension("unfinished");
    safetensors::serialize_to_file(views, None, &unfinished)
        .with_context(|| format!("cannot write {}", unfinished.display()))?;
    std::fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Values of a tensor in bfloat16: norm weights near 1, matrices of about the scale of trained ones; uniform. Biases and the
/// embeddings of positions and types, which all texts have in common, are small, since they would hide the differences between
/// vectors. Values depend on the tensor's name and shape alone, so a model of few layers is the beginning of one of many.
fn values(name: &str, shape: &[usize]) -> Vec<u8> {
    let is_common = name.contains("position_embeddings") || name.contains("token_type_embeddings");
    let (centre, spread) = match shape {
        [_, columns] => (0.0, if is_common { 0.17 } else { 1.7 } / (*columns as f32).sqrt()),
        _ if name.ends_with(".bias") => (0.0, 0.02),
        _ => (1.0, 0.1),
    };
    let mut rng = SmallRng::seed_from_u64(hash(name));
    let mut bytes = Vec::with_capacity(2 * shape.iter().product::<usize>());
    for _ in 0..shape.iter().product() {
        let uniform = rng.random::<f32>() * 2.0 - 1.0;
        bytes.extend_from_slice(&bf16::from_f32(centre + spread * uniform).to_le_bytes());
    }
    bytes
}

/// FNV-1a, which, unlike the standard library's hash, never changes.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::BTreeMap;

    #[test]
    fn a_model_of_fewer_layers_is_the_beginning_of_one_of_more() {
        for &shape in Shape::value_variants() {
            let tensors = |layers| shape.tensors(Sizes { layers, ..shape.sizes() });
            let all: BTreeMap<_, _> = tensors(5).into_iter().collect();
            let some = tensors(2);
            assert!(some.len() < all.len(), "{shape:?}");
            for (name, size) in some {
                assert_eq!(all.get(&name), Some(&size), "{shape:?} {name}");
            }
        }
    }

    #[test]
    fn values_depend_on_a_tensors_name_and_are_those_of_its_kind() {
        let floats = |name: &str, shape: &[usize]| -> Vec<f32> {
            let bytes = values(name, shape);
            bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
        };
        assert_eq!(floats("layers.1.a.weight", &[3, 4]), floats("layers.1.a.weight", &[3, 4]));
        assert_ne!(floats("layers.1.a.weight", &[3, 4]), floats("layers.2.a.weight", &[3, 4]));
        let all_within = |values: &[f32], low, high| values.iter().all(|value| (low..=high).contains(value));
        assert!(all_within(&floats("norm.weight", &[100]), 0.898, 1.102));
        assert!(all_within(&floats("norm.bias", &[100]), -0.0201, 0.0201));
        assert!(all_within(&floats("a.position_embeddings.weight", &[10, 100]), -0.0171, 0.0171));
        assert!(all_within(&floats("a.weight", &[10, 100]), -0.171, 0.171));
    }
}
