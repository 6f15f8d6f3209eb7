//! Real weights: SmolLM2-135M-Instruct as GGUF Q4_1, dequantised to float32.
//!
//! `PREFOLD_SMOLLM2_GGUF` names the file; `make test` fetches it and sets the variable. Without it,
//! these tests are skipped.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};
use prefold_core::Pooling;
use serde_json::Value;

fn gguf() -> Option<std::path::PathBuf> {
    let Some(path) = std::env::var_os("PREFOLD_SMOLLM2_GGUF") else {
        eprintln!("skipped: PREFOLD_SMOLLM2_GGUF is not set");
        return None;
    };
    let path = std::path::PathBuf::from(path);
    assert!(path.is_file(), "PREFOLD_SMOLLM2_GGUF={} is not a file", path.display());
    Some(path)
}

fn check(what: &str, found: &[f32], expected: &Value) {
    let l2 = expected["l2"].as_f64().unwrap() as f32;
    assert_close(&format!("{what}: l2"), &[norm(found)], &[l2], 1e-4 * l2);
    let sum = expected["sum"].as_f64().unwrap() as f32;
    assert_close(&format!("{what}: sum"), &[found.iter().sum()], &[sum], 1e-3 * l2);
    let (prefix, key) = if expected["full"].is_array() { (found, "full") } else { (&found[..32], "first32") };
    assert_close(what, prefix, &floats(&expected[key]), 1e-4 * l2);
}

#[test]
fn smollm2_last_and_mean_in_every_way() {
    let Some(path) = gguf() else { return };
    let expected = expected(&fixture("smollm2-135m"));
    let cases = cases(&expected, "cases");
    let sequences: Vec<_> = cases.iter().map(ids).collect();
    for (pooling, name) in [(Pooling::LastToken, "last"), (Pooling::Mean, "mean")] {
        for attention in ATTENTION_MODES {
            let mut model = load(&LoadOptions { pooling: Some(pooling), attention, ..options(path.clone()) });
            run_every_way(&mut model.backend, &sequences, |way, i, found| {
                check(&format!("{}, {name}, {attention:?}, {way}", cases[i]["name"]), found, &cases[i][name]);
            });
        }
    }
}

#[test]
fn smollm2_tokenizer() {
    let Some(path) = gguf() else { return };
    let model = load(&LoadOptions { pooling: Some(Pooling::Mean), ..options(path) });
    let expected = expected(&fixture("smollm2-135m"));
    for case in cases(&expected, "cases").iter().chain(cases(&expected, "tokenizer_only")) {
        let Some(text) = case["text"].as_str() else { continue };
        let found = model.tokenizers.first().encode(text, true).unwrap();
        assert_eq!(found.get_ids(), ids(case), "{text:?}");
    }
}

#[test]
fn smollm2_in_bfloat16_points_the_same_way() {
    let Some(path) = gguf() else { return };
    let expected = expected(&fixture("smollm2-135m"));
    let cases = cases(&expected, "cases");
    let sequences: Vec<_> = cases.iter().map(ids).collect();
    let load = |dtype| load(&LoadOptions { pooling: Some(Pooling::Mean), dtype: Some(dtype), ..options(path.clone()) });
    let exact = run(&mut load(Dtype::Float32).backend, &sequences, Compaction::Off);
    let found = run(&mut load(Dtype::Bfloat16).backend, &sequences, Compaction::On { multiple: 1 });
    for ((found, exact), case) in found.iter().zip(&exact).zip(cases) {
        let cosine: f32 = normalized(found).iter().zip(normalized(exact)).map(|(a, b)| a * b).sum();
        assert!(cosine >= 0.9995, "{}: cosine {cosine}", case["name"]);
    }
}
