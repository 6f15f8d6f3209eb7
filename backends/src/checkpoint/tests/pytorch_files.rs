//! Checkpoints whose weights are files of PyTorch.

use super::hub::{model, open as open_hub, repository};
use super::*;
use crate::formats::pytorch::testing::save;
use serde_json::{Map, json};

/// The tensors of a file, as PyTorch would save them; whole numbers are left out.
fn saved(tensors: &BTreeMap<String, Stored>) -> Vec<u8> {
    let floats = tensors.iter().filter(|(_, stored)| stored.dtype == Dtype::F32);
    save(&floats.map(|(name, stored)| (name.clone(), (stored.shape.clone(), stored.bytes.clone()))).collect())
}

const NAME: &str = "bert.encoder.layer.1.output.dense.weight";
const SHAPE: [usize; 2] = [32, 64];

fn weight(path: &Path) -> Result<Vec<f32>, LoadError> {
    open(path).and_then(|checkpoint| checkpoint.weights.read::<f32>(NAME, &SHAPE))
}

#[test]
fn one_file_or_shards_are_read_where_there_are_no_safetensors() {
    let dir = copy_of("bert-mean-tiny");
    let expected = weight(dir.path()).unwrap();
    let safetensors = dir.path().join("model.safetensors");
    let tensors = read_tensors(&safetensors);
    let single = dir.path().join("pytorch_model.bin");
    fs::write(&single, "not read, because there is model.safetensors").unwrap();
    assert_eq!(weight(dir.path()).unwrap(), expected);
    fs::remove_file(&safetensors).unwrap();
    assert!(weight(dir.path()).unwrap_err().to_string().starts_with("pytorch_model.bin: "));
    fs::write(&single, saved(&tensors)).unwrap();
    assert_eq!(weight(dir.path()).unwrap(), expected);
    fs::remove_file(&single).unwrap();

    let (mut shards, mut weight_map) = ([BTreeMap::new(), BTreeMap::new()], Map::new());
    for (i, (name, tensor)) in tensors.into_iter().filter(|(_, tensor)| tensor.dtype == Dtype::F32).enumerate() {
        weight_map.insert(name.clone(), json!(format!("pytorch_model-0000{}-of-00002.bin", i % 2 + 1)));
        shards[i % 2].insert(name, tensor);
    }
    for (i, shard) in shards.iter().enumerate() {
        fs::write(dir.path().join(format!("pytorch_model-0000{}-of-00002.bin", i + 1)), saved(shard)).unwrap();
    }
    let index = dir.path().join("pytorch_model.bin.index.json");
    write_json(&index, &json!({"weight_map": weight_map}));
    assert_eq!(weight(dir.path()).unwrap(), expected);
    weight_map.insert(NAME.to_owned(), json!("model.safetensors"));
    write_json(&index, &json!({"weight_map": weight_map}));
    assert!(weight(dir.path()).unwrap_err().to_string().contains("must name a .bin file in the index's folder"));
    fs::remove_file(&index).unwrap();
    let message = weight(dir.path()).unwrap_err().to_string();
    assert!(message.ends_with("has no model.safetensors nor pytorch_model.bin"), "{message}");
}

#[test]
fn dense_modules_are_read_from_either_file_and_downloaded_once() {
    let mut files = repository("bert-mean-tiny");
    let linear = BTreeMap::from([
        ("linear.weight".to_owned(), (vec![2, 32], vec![0; 256])),
        ("linear.bias".to_owned(), (vec![2], [1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat())),
    ]);
    let weights = files.files.remove("model.safetensors").unwrap();
    let safetensors = TempDir::new().unwrap();
    fs::write(safetensors.path().join("w"), weights).unwrap();
    files.files.insert("pytorch_model.bin".to_owned(), saved(&read_tensors(&safetensors.path().join("w"))));
    let module = |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
    let modules = [module("", "Transformer"), module("1_Pooling", "Pooling"), module("2_Dense", "Dense")];
    let dense = json!({"in_features": 32, "out_features": 2, "bias": true,
        "activation_function": "torch.nn.modules.linear.Identity"});
    for (name, content) in [
        ("modules.json", json!(modules).to_string().into_bytes()),
        ("2_Dense/config.json", dense.to_string().into_bytes()),
        ("2_Dense/pytorch_model.bin", save(&linear)),
    ] {
        files.files.insert(name.to_owned(), content);
    }
    let (hub, cache) = (super::hub::Hub::start(files), TempDir::new().unwrap());
    let checkpoint = open_hub(model(&hub.endpoint, cache.path())).unwrap();
    assert_eq!(checkpoint.capabilities.embed.as_ref().unwrap().dim, 2);
    let crate::checkpoint::HeadSource::Dense { modules, .. } = &checkpoint.head else {
        panic!("it has a dense module")
    };
    let crate::checkpoint::VectorModule::Dense(dense) = &modules[0] else { panic!("{modules:?}") };
    assert_eq!(dense.bias.as_deref(), Some(&[1.0, 2.0][..]));
    assert_eq!(checkpoint.weights.read::<f32>(NAME, &SHAPE).unwrap(), weight(&fixture("bert-mean-tiny")).unwrap());
}

#[test]
fn of_two_files_of_a_module_one_is_downloaded() {
    let mut files = repository("bert-mean-tiny");
    for name in ["1_Pooling/pytorch_model.bin", "1_Pooling/model.safetensors"] {
        files.files.insert(name.to_owned(), saved(&BTreeMap::new()));
    }
    let safetensors = safetensors::serialize::<&str, TensorView<'_>, _>([], None).unwrap();
    files.files.insert("1_Pooling/model.safetensors".to_owned(), safetensors);
    let (hub, cache) = (super::hub::Hub::start(files), TempDir::new().unwrap());
    open_hub(model(&hub.endpoint, cache.path())).unwrap();
    assert!(!hub.lines().iter().any(|line| line.contains("pytorch_model.bin")), "{:?}", hub.lines());
}
