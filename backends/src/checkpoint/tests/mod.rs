//! Tests of loading: the reference checkpoints as they are, and copies of them with one thing changed.

mod absurd_configs;
mod adapters;
mod bare_folders;
mod bert_normalizer;
mod configs;
mod cross_encoders;
mod damage;
mod gguf;
mod gguf_doubts;
mod gguf_encoders;
mod gguf_headers;
mod gguf_newer;
mod gguf_rerankers;
mod gguf_settings;
mod gguf_tokenizers;
mod hub;
mod hub_adapters;
mod hub_faults;
mod hub_older_names;
mod hub_routers;
mod left_out;
mod lfm2;
mod limits;
mod logit_score;
mod newer_decoders;
mod newer_families;
mod normalize;
mod pytorch_files;
mod rebuilt_tokenizers;
mod refusals;
mod rope_scaling;
mod router_prompts;
mod safetensors_headers;
mod settings_values;
mod settings_walk;
mod static_embeddings;
mod strange_files;
mod summaries;
mod sums;
mod t5;
mod task_adapters;
mod tensors;
mod text_settings;
mod token_types;
mod tokenizer_settings;
mod tokenizers;
mod unread;
mod vector_modules;
mod vocab_txt;

use crate::checkpoint::Checkpoint;
use crate::config::{PositionsConfig, RopeConfig, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::formats::gguf::GgufWeights;
use crate::options::{LoadOptions, ModelSource};
use crate::source::ModelFiles;
use crate::source::hub::FileSet;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

type Tokenizer = ::tokenizers::Tokenizer;

/// A reference checkpoint's directory.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// The rotation of a model with rotary positions.
fn rope(config: &TransformerConfig) -> &RopeConfig {
    match &config.positions {
        PositionsConfig::Rotary(rotary) => &rotary.full,
        _ => panic!("the positions are not rotary"),
    }
}

fn options(source: ModelSource) -> LoadOptions {
    LoadOptions { source, ..LoadOptions::default() }
}

fn open(path: impl Into<PathBuf>) -> Result<Checkpoint, LoadError> {
    Checkpoint::open(&options(ModelSource::Path(path.into())))
}

/// The tensors of a model's files, whatever its config asks for.
fn tensors_of(path: &Path) -> Weights {
    let mut files = ModelFiles::open(&options(ModelSource::Path(path.to_owned())), FileSet::All).unwrap();
    match files.take_gguf() {
        Some(gguf) => {
            let config = gguf.config().unwrap();
            Weights::Gguf(GgufWeights::new(gguf, &config).unwrap())
        }
        None => files.weights().unwrap().unwrap(),
    }
}

/// Texts on which tokenizers differ that are only alike.
const TEXTS: [&str; 12] = [
    "",
    "The night train leaves at 22:45, and ARRIVES (late) the next morning!",
    "Caf\u{e9} na\u{ef}ve \u{130}STANBUL \u{df} e\u{301}",
    "\u{5317}\u{4eac}river\u{4e2d} \u{d55c}\u{ad6d} \u{30ac}",
    "tab\there\r\nline\u{a0}space\u{3000}wide  two",
    "zero\u{0}control\u{7}soft\u{ad}join\u{200b}replaced\u{fffd}",
    "[MASK] <mask> [CLS] </s> [unused1] ##ing",
    "\u{2581}under \u{2581} the\u{2581}block",
    "\u{1f98a} fox \u{ff21}\u{ff22} \u{fb01}ne \u{2460}",
    "don't stop-gap a_b $5 ^ ` ~",
    "   ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa end",
];

/// Checks that two tokenizers give the same ids and token types for texts and pairs.
fn check_same_tokens(found: &Tokenizer, expected: &Tokenizer, what: &str) {
    let encode = |tokenizer: &Tokenizer, text: &str| {
        let one = tokenizer.encode(text, true).unwrap();
        let pair = tokenizer.encode((text, "the river"), true).unwrap();
        (one.get_ids().to_vec(), pair.get_ids().to_vec(), pair.get_type_ids().to_vec())
    };
    for text in TEXTS {
        assert_eq!(encode(found, text), encode(expected, text), "{what}: {text:?}");
    }
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn write_json(path: &Path, value: &Value) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, serde_json::to_vec(value).unwrap()).unwrap();
}

/// A copy of a reference checkpoint, without the expected values.
fn copy_of(name: &str) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
            if path.is_dir() {
                copy(&path, &to.join(name));
            } else if name != "expected.json" && name != "grads.json" {
                fs::copy(&path, to.join(name)).unwrap();
            }
        }
    }
    let dir = TempDir::new().unwrap();
    copy(&fixture(name), dir.path());
    dir
}

/// A tensor as it is stored.
#[derive(Clone)]
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    fn values(&self) -> Vec<f32> {
        assert_eq!(self.dtype, Dtype::F32);
        self.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }
}

fn read_tensors(path: &Path) -> BTreeMap<String, Stored> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.iter().map(|(name, view)| {
        let stored = Stored { dtype: view.dtype(), shape: view.shape().to_vec(), bytes: view.data().to_vec() };
        (name.to_owned(), stored)
    });
    tensors.collect()
}

fn write_tensors(path: &Path, tensors: &BTreeMap<String, Stored>) {
    let views = tensors
        .iter()
        .map(|(name, stored)| (name, TensorView::new(stored.dtype, stored.shape.clone(), &stored.bytes).unwrap()));
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Rewrites the weights of a copied checkpoint.
fn edit_tensors(dir: &Path, edit: impl FnOnce(&mut BTreeMap<String, Stored>)) {
    let path = dir.join("model.safetensors");
    let mut tensors = read_tensors(&path);
    edit(&mut tensors);
    write_tensors(&path, &tensors);
}
