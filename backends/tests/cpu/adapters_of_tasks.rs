//! jina-embeddings-v5: an adapter for each task in a folder of its own, against the values that peft computed, in any batch.
#![allow(clippy::unwrap_used, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};
use prefold_core::{Batch, LoadedModel, ModelBackend, Outputs, RadixPlan, RaggedBatch, TaskId, Tokens};
use serde_json::{Value, json};

const MODELS: [&str; 2] = ["jina-v5-small-tiny", "jina-v5-nano-tiny"];

fn tasks(model: &LoadedModel) -> Vec<String> {
    model.backend.info().capabilities.embed.as_ref().unwrap().tasks.iter().map(|it| it.task.clone()).collect()
}

fn with_task(case: &Value, tasks: &[String]) -> Tokens {
    let number = case["task"].as_str().map_or(0, |task| 1 + tasks.iter().position(|it| it == task).unwrap());
    Tokens::new(ids(case)).with_task(TaskId(number as u8))
}

fn vectors(model: &mut LoadedModel, sequences: &[Tokens], compaction: Compaction) -> Vec<Vec<f32>> {
    let mut ragged = RaggedBatch::default();
    sequences.iter().for_each(|tokens| ragged.push(tokens.as_slice()).unwrap());
    let plan = match compaction {
        Compaction::On { multiple } if matches!(model.backend, ModelBackend::Prefix(_)) => {
            Some(RadixPlan::new(&ragged, multiple))
        }
        _ => None,
    };
    let wanted = vec![Outputs::of_head(&model.backend.info().capabilities); sequences.len()];
    let outputs = model.backend.forward(&Batch { wanted, ragged }, plan.as_ref()).unwrap();
    outputs.iter().map(|output| output.all().next().unwrap().data.clone()).collect()
}

#[test]
fn a_task_selects_its_adapter() {
    for name in MODELS {
        let expected = expected(&fixture(name));
        let cases = cases(&expected, "task_cases");
        for (dtype, least) in [(Dtype::Float32, 0.999_999), (Dtype::Bfloat16, 0.999), (Dtype::Int8, 0.985)] {
            let mut model = load(&LoadOptions { dtype: Some(dtype), ..options(fixture(name)) });
            let tasks = tasks(&model);
            let sequences: Vec<Tokens> = cases.iter().map(|case| with_task(case, &tasks)).collect();
            let together = COMPACTIONS.map(|compaction| vectors(&mut model, &sequences, compaction));
            for (i, case) in cases.iter().enumerate() {
                let what = format!("{name}, {dtype}, {}", case["name"]);
                let alone = vectors(&mut model, &sequences[i..=i], Compaction::Off).remove(0);
                assert!(together.iter().all(|vectors| vectors[i] == alone), "{what}: other bits in a batch");
                let unit = floats(&case["last_normalized"]);
                let cosine: f32 = normalized(&alone).iter().zip(&unit).map(|(a, b)| a * b).sum();
                assert!(cosine >= least, "{what}: cosine {cosine}");
                if dtype == Dtype::Float32 {
                    assert_close(&what, &normalized(&alone), &unit, 1e-4);
                }
            }
        }
    }
}

#[test]
fn tasks_their_prompts_and_the_adapter_of_other_texts() {
    let names = ["retrieval.query", "retrieval.passage", "text-matching", "retrieval", "clustering", "classification"];
    for name in MODELS {
        let directory = tempfile::tempdir().unwrap();
        copy_files(&fixture(name), directory.path());
        let prompts = json!({"prompts": {"query": "Q: ", "document": "D: "}, "default_prompt_name": "document"});
        std::fs::write(directory.path().join("config_sentence_transformers.json"), prompts.to_string()).unwrap();
        let mut model = load(&options(directory.path().to_owned()));
        assert_eq!(tasks(&model), names, "{name}");
        let capabilities = model.backend.info().capabilities.clone();
        let embed = capabilities.embed.as_ref().unwrap();
        let instructions: Vec<&str> = embed.tasks.iter().map(|it| it.instruction.as_str()).collect();
        assert_eq!(instructions, ["Q: ", "D: ", "D: ", "D: ", "D: ", "D: "], "{name}");
        assert!(embed.normalizes && embed.tasks.iter().all(|it| it.normalizes), "{name}");
        assert!(capabilities.warnings.iter().any(|it| it.contains("have the adapter `retrieval`")), "{name}");
        let tokens = Tokens::new(vec![5, 6, 7, 8]);
        let [none, retrieval, other] = [0, 4, 3].map(|task| tokens.clone().with_task(TaskId(task)));
        let found = vectors(&mut model, &[none, retrieval, other], Compaction::Off);
        assert_eq!(found[0], found[1], "{name}");
        assert_ne!(found[0], found[2], "{name}");
    }
}
