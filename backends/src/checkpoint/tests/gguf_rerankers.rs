//! Rerankers in GGUF: converters keep only the rows of "yes" and "no" of an untied head.

use super::gguf::{Gguf, quantized};
use super::{Stored, copy_of, edit_tensors, fixture, open, options, read_json, tensors_of, write_json};
use crate::checkpoint::HeadSource;
use crate::load;
use crate::options::{DeviceChoice, LoadOptions, ModelSource};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use prefold_core::{Batch, OutputKind, Outputs, RaggedBatch, RerankRecipe, Task};
use safetensors::Dtype;
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

const NAME: &str = "qwen3-reranker-tiny";
const WIDTH: usize = 64;

/// Logits of "no" and "yes" after some tokens.
fn logits(path: &Path, recipe: Option<RerankRecipe>) -> Result<Vec<f32>, String> {
    let options = LoadOptions {
        device: Some(DeviceChoice::Cpu),
        task: Some(Task::Rerank),
        rerank_recipe: recipe,
        ..options(ModelSource::Path(path.to_owned()))
    };
    let mut model = load(&options).map_err(|error| error.to_string())?;
    let ragged = RaggedBatch::from_sequences(&[vec![5, 6, 7, 8, 9]]).unwrap();
    let batch = Batch { ragged, wanted: vec![Outputs::LOGITS] };
    let mut outputs = model.backend.forward(&batch, None).unwrap();
    Ok(outputs[0].take(OutputKind::Logits).unwrap().data)
}

fn written(gguf: &Gguf) -> TempDir {
    let dir = TempDir::new().unwrap();
    gguf.write(&dir.path().join("model.gguf"));
    dir
}

/// A head different from the embeddings, row by row.
fn head() -> Vec<f32> {
    (0..1024 * WIDTH).map(|i| (i as f32 * 0.37).sin()).collect()
}

/// The ids of "yes" and "no".
fn yes_no() -> [usize; 2] {
    let expected = read_json(&fixture(NAME).join("expected.json"));
    ["yes_token_id", "no_token_id"].map(|name| expected[name].as_u64().unwrap() as usize)
}

/// The fixture with the rows `ids` of `head` and these labels.
fn with_rows(head: &[f32], ids: &[usize], labels: &[&str]) -> Gguf {
    let mut gguf = Gguf::from_fixture(NAME, "qwen2");
    let rows: Vec<f32> = ids.iter().flat_map(|&id| &head[id * WIDTH..][..WIDTH]).copied().collect();
    gguf.tensors.insert("cls.output.weight".to_owned(), quantized(&rows, &[ids.len(), WIDTH], GgmlDType::F32));
    if !labels.is_empty() {
        let labels = labels.iter().map(|label| Value::String((*label).to_owned())).collect();
        gguf.set("qwen3.classifier.output_labels", Value::Array(labels));
    }
    gguf
}

#[test]
fn an_untied_head_is_that_of_the_safetensors() {
    let original = copy_of(NAME);
    let mut config = read_json(&original.path().join("config.json"));
    config["tie_word_embeddings"] = json!(false);
    write_json(&original.path().join("config.json"), &config);
    edit_tensors(original.path(), |tensors| {
        let bytes = head().iter().flat_map(|x| x.to_le_bytes()).collect();
        tensors.insert("lm_head.weight".to_owned(), Stored { dtype: Dtype::F32, shape: vec![1024, WIDTH], bytes });
    });
    let expected = logits(original.path(), None).unwrap();
    assert_ne!(logits(&fixture(NAME), None).unwrap(), expected, "the head matters");

    let [yes, no] = yes_no();
    for (ids, labels) in [([yes, no], ["yes", "no"]), ([no, yes], ["no", "yes"])] {
        let dir = written(&with_rows(&head(), &ids, &labels));
        assert_eq!(logits(dir.path(), None).unwrap(), expected, "{labels:?}");
    }
    let mut whole = Gguf::from_fixture(NAME, "qwen2");
    whole.tensors.insert("output.weight".to_owned(), quantized(&head(), &[1024, WIDTH], GgmlDType::F32));
    assert_eq!(logits(written(&whole).path(), None).unwrap(), expected);
}

#[test]
fn rows_that_do_not_say_what_they_stand_for_are_refused_unless_the_head_is_tied() {
    let [yes, no] = yes_no();
    for (ids, labels) in [(&[yes, no][..], &[][..]), (&[yes, no], &["Yes", "No"]), (&[yes], &["LABEL_0"])] {
        let refused = logits(written(&with_rows(&head(), ids, labels)).path(), None).unwrap_err();
        assert!(refused.contains("cls.output.weight") && refused.contains("no, yes"), "{refused}");
        assert!(labels.iter().all(|label| refused.contains(label)), "{refused}");
    }
    let tensors = super::read_tensors(&fixture(NAME).join("model.safetensors"));
    let embeddings = tensors.iter().find(|(name, _)| name.ends_with("embed_tokens.weight")).unwrap().1.values();
    let tied = written(&with_rows(&embeddings, &[yes, no], &[]));
    let expected = logits(&fixture(NAME), None).unwrap();
    assert_eq!(logits(tied.path(), None).unwrap(), expected);

    // The rows of other tokens than the recipe's.
    let dir = written(&with_rows(&head(), &[yes, no], &["yes", "no"]));
    let recipe = |positive: &str, negative: &str| {
        let recipe = RerankRecipe::builtin(RerankRecipe::QWEN3).unwrap();
        Some(RerankRecipe { positive: positive.to_owned(), negative: Some(negative.to_owned()), ..recipe })
    };
    let refused = logits(dir.path(), recipe("1", "0")).unwrap_err();
    assert!(refused.contains("for yes, no") && refused.contains("0, 1"), "{refused}");
}

#[test]
fn malformed_rows_and_labels_are_named() {
    let [yes, no] = yes_no();
    let refused = |gguf: &Gguf, words: &str| {
        let refused = logits(written(gguf).path(), None).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    };
    refused(&with_rows(&head(), &[yes, no], &["yes"]), "`cls.output.weight` has 2 rows for 1 labels");
    let mut gguf = with_rows(&head(), &[yes, no], &[]);
    gguf.set("qwen3.classifier.output_labels", Value::Array(vec![Value::U32(1), Value::U32(2)]));
    refused(&gguf, "`qwen3.classifier.output_labels` must be a list of strings");
    let mut gguf = with_rows(&head(), &[yes, no], &["yes", "no"]);
    gguf.tensors.insert("cls.output.weight".to_owned(), quantized(&[0.0; 64], &[2, 32], GgmlDType::F32));
    refused(&gguf, "`cls.output.weight` has shape [2, 32]");
}

#[test]
fn rows_are_those_of_the_whole_matrix() {
    for dtype in [GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16, GgmlDType::Q8_0, GgmlDType::Q4_1, GgmlDType::Q6K] {
        let mut gguf = Gguf::from_fixture(NAME, "qwen2");
        let values: Vec<f32> = (0..30 * 512).map(|i| (i as f32 * 0.37).sin()).collect();
        gguf.tensors.insert("blk.0.ffn_up.weight".to_owned(), quantized(&values, &[30, 512], dtype));
        let dir = written(&gguf);
        let weights = tensors_of(dir.path());
        let name = "model.layers.0.mlp.up_proj.weight";
        let whole = weights.read::<f32>(name, &[30, 512]).unwrap();
        let rows = weights.f32_rows(name, [30, 512], &[29, 0, 7]).unwrap();
        let expected: Vec<f32> = [29, 0, 7].into_iter().flat_map(|i| &whole[i * 512..][..512]).copied().collect();
        assert_eq!(rows, expected, "{dtype:?}");
        assert!(weights.f32_rows(name, [30, 512], &[30]).is_err());
    }
}

#[test]
fn a_file_is_taken_for_a_reranker_only_when_it_says_so() {
    let mut gguf = Gguf::from_fixture(NAME, "qwen2");
    for (pooling, reranks) in [(None, false), (Some(0), false), (Some(4), true)] {
        pooling.into_iter().for_each(|pooling| gguf.set("qwen3.pooling_type", Value::U32(pooling)));
        match open(written(&gguf).path()) {
            Ok(checkpoint) => assert!(reranks && matches!(checkpoint.head, HeadSource::TokenRows(_)), "{pooling:?}"),
            Err(error) => assert!(!reranks && error.to_string().contains("--task"), "{pooling:?}: {error}"),
        }
    }
}

#[test]
fn another_prompt_in_the_file_is_named() {
    let mut gguf = Gguf::from_fixture(NAME, "qwen2");
    gguf.set("qwen3.pooling_type", Value::U32(4));
    // As llama.cpp's converter writes it.
    let prompt = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note \
                  that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve \
                  relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n\
                  <think>\n\n</think>\n\n";
    for (prompt, is_named) in [(prompt, false), ("{query} {document}", true)] {
        gguf.set("tokenizer.chat_template.rerank", Value::String(prompt.to_owned()));
        let warnings = open(written(&gguf).path()).unwrap().capabilities.warnings.clone();
        assert_eq!(warnings.iter().any(|it| it.contains("tokenizer.chat_template.rerank")), is_named, "{warnings:?}");
    }
}
