//! Five values of each followed field of `config.json` in each family that reads it, with what the family's class in transformers, or the
//! code of published checkpoints, makes of them.

mod decoders;
mod encoders;
mod files;
mod rotations;
mod sizes;
mod windows;

use super::settings_walk::{Effect, effect_on_config, rows};
use super::{fixture, read_json};
use crate::config::TransformerConfig;
use crate::formats::config_json;
use crate::json::hiding;
use crate::settings::{File, Mark};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Families with learned positions and the usual spellings.
const ABSOLUTE: &[&str] = &[
    "bert-mean-tiny",
    "roberta-tiny",
    "xlm-roberta-tiny",
    "xlm-roberta-flash",
    "camembert",
    "xlm-roberta-xl-tiny",
    "mpnet-tiny",
    "electra-tiny",
];
/// Those whose first position follows the padding token.
const AFTER_PADDING: &[&str] =
    &["roberta-tiny", "xlm-roberta-tiny", "xlm-roberta-flash", "camembert", "xlm-roberta-xl-tiny"];
/// Families with other positions and the usual spellings.
const OTHERS: &[&str] =
    &["deberta-v2-tiny", "jina-v2-tiny", "jina-v2-code-tiny", "jina-v3-tiny", "gte-base-tiny", "gte"];
const NEW: &[&str] = &["gte-base-tiny", "gte"];
const DISTILBERT: &[&str] = &["distilbert-tiny"];
const MODERNBERT: &[&str] = &["modernbert-tiny"];
const NOMIC: &[&str] = &["nomic-tiny", "nomic-moe-tiny"];
const T5: &[&str] = &["t5-tiny", "mt5", "umt5-tiny"];
const LLAMA: &[&str] = &["llama-tiny", "llama-bidirec-tiny"];
const EUROBERT: &[&str] = &["eurobert-tiny", "jina-v5-nano-tiny", "jina-v5-eurobert"];
const QWEN3: &[&str] = &["qwen3-tiny", "qwen3-bidirectional-tiny", "jina-v5-small-tiny", "pplx-tiny", "bidirlm-tiny"];
const QWEN2: &[&str] = &["qwen2-tiny", "gte-qwen2"];
const MISTRAL: &[&str] = &["mistral-tiny", "ministral3-tiny"];
const GEMMA3: &[&str] = &["gemma3-causal-tiny", "embeddinggemma-tiny"];
const GEMMA2: &[&str] = &["gemma2-tiny"];
const LFM2: &[&str] = &["lfm2-tiny", "lfm2-bidirectional-tiny", "lfm2_bidirectional"];
const DECODERS: [&[&str]; 8] = [LLAMA, EUROBERT, QWEN3, QWEN2, MISTRAL, GEMMA3, GEMMA2, LFM2];
const ENCODERS: [&[&str]; 6] = [ABSOLUTE, OTHERS, DISTILBERT, MODERNBERT, NOMIC, T5];

/// Families that are not among the fixtures: a fixture, and its changes.
fn derived(name: &str) -> (&str, Value) {
    match name {
        "xlm-roberta-flash" => {
            let class = "jinaai/xlm-roberta-flash-implementation--configuration_xlm_roberta.XLMRobertaFlashConfig";
            ("xlm-roberta-tiny", json!({"auto_map": {"AutoConfig": class}}))
        }
        "camembert" => ("xlm-roberta-tiny", json!({"model_type": "camembert", "architectures": ["CamembertModel"]})),
        "gte" => ("gte-base-tiny", json!({"model_type": "gte", "architectures": ["GteModel"], "auto_map": null})),
        "mt5" => ("t5-gated-tiny", json!({"model_type": "mt5", "architectures": ["MT5EncoderModel"]})),
        "jina-v5-eurobert" => ("jina-v5-nano-tiny", json!({"model_type": "eurobert", "is_decoder": null})),
        "gte-qwen2" => ("qwen2-tiny", json!({"auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}})),
        "lfm2_bidirectional" => {
            ("lfm2-bidirectional-tiny", json!({"model_type": "lfm2_bidirectional", "auto_map": null}))
        }
        other => (other, json!({})),
    }
}

fn config_of(name: &str) -> Value {
    let (fixture_name, changes) = derived(name);
    with(&read_json(&fixture(fixture_name).join("config.json")), &changes)
}

/// A config with other fields; those that are null are left out.
fn with(config: &Value, changes: &Value) -> Value {
    let mut config = config.clone();
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    config.as_object_mut().unwrap().retain(|name, _| changes.get(name).is_none_or(|value| !value.is_null()));
    config
}

/// Changes, and further ones.
fn and(changes: &Value, more: Value) -> Value {
    let mut changes = changes.clone();
    changes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    changes
}

/// A value that is refused.
const REFUSED: &str = "refused";

/// Values of a field in some families.
struct Case {
    models: Vec<&'static str>,
    /// Path of the field.
    field: &'static str,
    /// Other fields that the field needs.
    with: Value,
    /// Values, each with what is read; null is the absence of the field.
    values: Vec<(Value, Value)>,
    reading: fn(&TransformerConfig) -> Value,
}

/// Values that are read as they are.
fn same(
    models: &[&[&'static str]],
    field: &'static str,
    with: Value,
    values: Value,
    reading: fn(&TransformerConfig) -> Value,
) -> Case {
    let pairs: Vec<Value> = values.as_array().unwrap().iter().map(|value| json!([value, value])).collect();
    gives(models, field, with, json!(pairs), reading)
}

/// Pairs of a value and what is read.
fn gives(
    models: &[&[&'static str]],
    field: &'static str,
    with: Value,
    pairs: Value,
    reading: fn(&TransformerConfig) -> Value,
) -> Case {
    let values = pairs.as_array().unwrap().iter().map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Case { models: models.concat(), field, with, values, reading }
}

/// The value of a field at a path.
fn set(config: &mut Value, path: &str, value: &Value) {
    match path.split_once('.') {
        Some((object, rest)) => set(&mut config[object], rest, value),
        None if value.is_null() => drop(config.as_object_mut().unwrap().remove(path)),
        None => config[path] = value.clone(),
    }
}

/// Equality of what is read and what is expected; numbers are read in single precision.
fn is_same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| is_same(found, expected))
        }
        (Value::Number(found), Value::Number(expected)) => {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            (found - expected).abs() <= 1e-6 * expected.abs()
        }
        (found, expected) => found == expected,
    }
}

fn cases() -> Vec<Case> {
    [sizes::cases(), encoders::cases(), decoders::cases(), windows::cases(), rotations::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// The wrong values of cases.
fn wrong<'a>(cases: impl Iterator<Item = &'a Case>) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases {
        for model in &case.models {
            for (value, expected) in &case.values {
                let mut config = with(&config_of(model), &case.with);
                set(&mut config, case.field, value);
                let found = match config_json::read(&config) {
                    Ok(config) => (case.reading)(&config),
                    Err(error) if expected == REFUSED => {
                        let name = case.field.rsplit('.').next().unwrap();
                        json!(if error.to_string().contains(name) { REFUSED } else { "refused without its name" })
                    }
                    Err(error) => json!(error.to_string()),
                };
                if !is_same(&found, expected) {
                    wrong.push(format!("{model}: `{}` {value} gives {found}, not {expected}", case.field));
                }
            }
        }
    }
    wrong
}

#[test]
fn values_are_read_as_the_families_classes_read_them() {
    let wrong = wrong(cases().iter());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn without_the_code_of_a_field_its_values_are_wrong() {
    let cases = cases();
    let mut silent = Vec::new();
    for field in rows(File::Config, Mark::Followed).filter(|field| !IDENTITY.contains(field)) {
        let mut of_field = cases.iter().filter(|case| case.field.split('.').next() == Some(field)).peekable();
        if of_field.peek().is_some() && hiding("config.json", field, || wrong(of_field).is_empty()) {
            silent.push(field);
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}

/// Fields that say which family it is; the tests of the families read them.
const IDENTITY: [&str; 5] = ["model_type", "architectures", "auto_map", "_name_or_path", "position_embedding_type"];

#[test]
fn each_field_has_values_in_each_family_that_reads_it() {
    let known: HashSet<(&str, &str)> = cases()
        .iter()
        .flat_map(|case| case.models.iter().map(|model| (*model, case.field.split('.').next().unwrap())))
        .collect();
    let mut missing = Vec::new();
    for model in ENCODERS.iter().chain(&DECODERS).copied().flatten() {
        let config = config_of(model);
        for field in rows(File::Config, Mark::Followed).filter(|field| !IDENTITY.contains(field)) {
            let Effect { has_effect, .. } = effect_on_config(field, &config);
            if has_effect && !known.contains(&(*model, field)) {
                missing.push(format!("{model}: {field}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
