//! File with the answers of a run, for comparison with another program's.
//!
//! The tensors of batch `i`: `i.ids` (u32, all tokens), `i.cu_seqlens` (u32, where sequences start, and the end), and `i.off`,
//! `i.ragged` and `i.compact` (f32, `[sequences, hidden_size]`, not normalised), for an encoder only `i.off`. The metadata has the
//! model's directory, shape and layers, type and device, and as JSON the names of the batches and the command.

use super::args::Args;
use super::ways::{Case, Measured, WAYS};
use crate::report::command;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Contents of a file of answers, written after each batch.
pub(super) struct Answers {
    path: PathBuf,
    metadata: HashMap<String, String>,
    names: Vec<String>,
    tensors: Vec<Stored>,
}

/// A tensor of the file.
struct Stored {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Answers {
    /// A file at `path` with answers of the model in `directory`, which has `layers` layers.
    pub(super) fn new(path: &Path, args: &Args, directory: &Path, layers: usize) -> Result<Self> {
        let shape = args.shape.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let metadata = [
            ("model", directory.display().to_string()),
            ("shape", shape),
            ("layers", layers.to_string()),
            ("dtype", args.dtype.to_string()),
            ("device", args.device.to_string()),
            ("command", serde_json::to_string(&command())?),
        ];
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(Self { path: path.to_owned(), metadata, names: Vec::new(), tensors: Vec::new() })
    }

    /// Adds a batch and rewrites the file, so that a killed run keeps the batches so far.
    pub(super) fn push(&mut self, name: &str, case: &Case, measured: &[Measured]) -> Result<()> {
        let index = self.names.len();
        let ragged = &case.batch.ragged;
        for (kind, values) in [("ids", ragged.input_ids()), ("cu_seqlens", ragged.cu_seqlens())] {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let (name, shape) = (format!("{index}.{kind}"), vec![values.len()]);
            self.tensors.push(Stored { name, dtype: Dtype::U32, shape, bytes });
        }
        for (way, Measured { answers, .. }) in WAYS.iter().zip(measured) {
            let width = answers.first().map_or(0, Vec::len);
            ensure!(answers.iter().all(|row| row.len() == width), "{name}, {way}: vectors of different widths");
            let bytes = answers.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
            let (name, shape) = (format!("{index}.{way}"), vec![answers.len(), width]);
            self.tensors.push(Stored { name, dtype: Dtype::F32, shape, bytes });
        }
        self.names.push(name.to_owned());
        self.metadata.insert("batches".to_owned(), serde_json::to_string(&self.names)?);
        self.write().with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn write(&self) -> Result<()> {
        let mut views = Vec::with_capacity(self.tensors.len());
        for Stored { name, dtype, shape, bytes } in &self.tensors {
            views.push((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?));
        }
        let unfinished = self.path.with_extension("unfinished");
        safetensors::serialize_to_file(views, Some(self.metadata.clone()), &unfinished)?;
        Ok(std::fs::rename(&unfinished, &self.path)?)
    }
}
