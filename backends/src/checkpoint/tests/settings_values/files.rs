//! Values of each followed field of the other files, against what transformers 5 and sentence-transformers 6 made of them
//! (tests/fixtures/settings_values).

use super::super::gguf_encoders::loaded;
use super::super::{copy_of, fixture, open, options, read_json, write_json};
use crate::json::hiding;
use crate::options::{DeviceChoice, LoadOptions, ModelSource};
use crate::settings::{File, Mark, groups};
use prefold_core::{
    Batch, Capabilities, LoadedModel, LogitActivation, OutputKind, Outputs, RaggedBatch, RerankRecipe, TaskId, Tokens,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tokenizers::{TruncationDirection, TruncationParams};

/// The question of a case to a model.
type Ask = fn(&Value, &Path) -> Value;

fn cases() -> Vec<Value> {
    read_json(&fixture("settings_values/values.json")).as_array().unwrap().clone()
}

/// Sets or removes a field at a path; the whole file without one.
fn edit(path: &Path, field: &str, value: Option<&Value>) {
    if field.is_empty() {
        match value {
            Some(value) => write_json(path, value),
            None => drop(std::fs::remove_file(path)),
        }
        return;
    }
    let mut content = if path.exists() { read_json(path) } else { json!({}) };
    let (objects, last) = field.rsplit_once('/').unwrap_or(("", field));
    let mut inner = &mut content;
    for name in objects.split('/').filter(|name| !name.is_empty()) {
        inner = match name.parse::<usize>() {
            Ok(index) => &mut inner[index],
            Err(_) => &mut inner[name],
        };
    }
    match value {
        Some(value) => inner[last] = value.clone(),
        None => drop(inner.as_object_mut().unwrap().remove(last)),
    }
    write_json(path, &content);
}

/// Ids of texts, types of a pair, the limit and the side.
fn tokens(case: &Value, dir: &Path) -> Value {
    let checkpoint = match open(dir) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let texts: Vec<&str> = case["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let tokenizer = &checkpoint.tokenizer;
    let ids: Vec<_> = texts.iter().map(|text| tokenizer.encode(*text, true).unwrap().get_ids().to_vec()).collect();
    let pair = tokenizer.encode((texts[0], *texts.last().unwrap()), true).unwrap();
    let types = if checkpoint.token_types > 1 { pair.get_type_ids().to_vec() } else { vec![0; pair.len()] };
    let is_left = tokenizer.get_truncation().is_some_and(|it| it.direction == TruncationDirection::Left);
    let side = if is_left { "left" } else { "right" };
    let mut found =
        json!({"ids": ids, "types": types, "limit": checkpoint.capabilities.max_input_length, "side": side});
    if case["offsets"] == true {
        let encoding = tokenizer.encode_char_offsets(texts[0], true).unwrap();
        found["offsets"] = json!(encoding.get_offsets());
    }
    found
}

/// The values of a text's output, or of a pair's; `skipped` tokens of its prompt are not pooled.
fn output(model: &mut LoadedModel, encoding: &tokenizers::Encoding, task: TaskId, skipped: usize) -> Vec<f32> {
    let info = model.backend.info().clone();
    let types = if info.limits().token_types > 1 { encoding.get_type_ids().to_vec() } else { vec![0; encoding.len()] };
    let tokens = Tokens::new(encoding.get_ids().to_vec()).with_token_types(types).unwrap().with_task(task);
    let mut ragged = RaggedBatch::default();
    ragged.push(tokens.as_slice()).unwrap();
    let wanted = Outputs::of_head(&info.capabilities).skipping(skipped as u32);
    let answers = model.backend.forward(&Batch { ragged, wanted: vec![wanted] }, None).unwrap();
    let kind = if info.capabilities.embed.is_some() { OutputKind::Embedding } else { OutputKind::Logits };
    answers[0].get(kind).unwrap().data.clone()
}

fn refusal(dir: &Path) -> Option<Value> {
    open(dir).err().map(|error| json!({"error": error.to_string()}))
}

/// The direction of a text's vector with the prompt and the limit of its task.
fn embedding(case: &Value, dir: &Path) -> Value {
    if let Some(refused) = refusal(dir) {
        return refused;
    }
    let mut model = loaded(dir);
    let Capabilities { embed: Some(embed), max_input_length, .. } =
        Capabilities::clone(&model.backend.info().capabilities)
    else {
        return json!("no embedding");
    };
    let number = embed.tasks.iter().position(|profile| case["task"] == *profile.task);
    let profile = number.map(|number| &embed.tasks[number]);
    let prompt = match profile {
        Some(profile) => profile.instruction.clone(),
        None => embed.prompts.default.clone().unwrap_or_default(),
    };
    let max_length = profile.and_then(|it| it.max_input_length).unwrap_or(max_input_length);
    let mut tokenizer = model.tokenizers.first().clone();
    let skipped = if embed.prompts.excluded { tokenizer.encode(prompt.as_str(), true).unwrap().len() - 1 } else { 0 };
    tokenizer.with_truncation(Some(TruncationParams { max_length, ..TruncationParams::default() })).unwrap();
    let text = [prompt.as_str(), case["texts"][0].as_str().unwrap()].concat();
    let encoding = tokenizer.encode(text, true).unwrap();
    let task = TaskId(number.map_or(0, |number| number as u8 + 1));
    let mut vector = output(&mut model, &encoding, task, skipped);
    vector.truncate(embed.default_dim());
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    json!({"vector": vector.iter().map(|value| value / length).collect::<Vec<_>>()})
}

/// The score of a pair, with the activation of the files.
fn score(case: &Value, dir: &Path) -> Value {
    if let Some(refused) = refusal(dir) {
        return refused;
    }
    let mut model = loaded(dir);
    let classify = model.backend.info().capabilities.classify.clone().unwrap();
    let text = |index: usize| case["texts"][index].as_str().unwrap();
    let first = [&*classify.prompts.default.unwrap_or_default(), text(0)].concat();
    let encoding = model.tokenizers.first().encode((first.as_str(), text(1)), true).unwrap();
    let logit = output(&mut model, &encoding, TaskId(0), 0)[0];
    json!({"score": if classify.pair_activation == LogitActivation::Sigmoid { 1.0 / (1.0 + (-logit).exp()) } else { logit }})
}

/// The logits of two tokens after a text.
fn logits(case: &Value, dir: &Path) -> Value {
    let token = |index: usize| case["tokens"][index].as_str().unwrap().to_owned();
    let builtin = RerankRecipe::builtin(RerankRecipe::QWEN3).unwrap();
    let recipe = RerankRecipe { negative: Some(token(0)), positive: token(1), ..builtin };
    let source = ModelSource::Path(dir.to_owned());
    let options = LoadOptions { rerank_recipe: Some(recipe), device: Some(DeviceChoice::Cpu), ..options(source) };
    let mut model = match crate::load(&options) {
        Ok(model) => model,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let encoding = model.tokenizers.first().encode(case["texts"][0].as_str().unwrap(), true).unwrap();
    json!({"logits": output(&mut model, &encoding, TaskId(0), 0)})
}

fn ask(case: &Value) -> Ask {
    match case["ask"].as_str().unwrap() {
        "tokens" => tokens,
        "embedding" => embedding,
        "score" => score,
        "logits" => logits,
        other => panic!("{other}"),
    }
}

/// Equality up to the sixth digit, but of the fifth in vectors.
fn is_close(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| is_close(found, expected))
        }
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && expected
                    .iter()
                    .all(|(name, expected)| found.get(name).is_some_and(|found| is_close(found, expected)))
        }
        (Value::Number(found), Value::Number(expected)) => {
            (found.as_f64().unwrap() - expected.as_f64().unwrap()).abs() <= 2e-5
        }
        (found, expected) => found == expected,
    }
}

/// The wrong values of a case.
fn wrong(case: &Value) -> Vec<String> {
    let dir = copy_of(case["model"].as_str().unwrap());
    let text = |name: &str| case[name].as_str().unwrap();
    if case["adapter"] == true {
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            std::fs::copy(fixture("settings_values/adapter").join(file), dir.path().join(file)).unwrap();
        }
    }
    for change in case["edits"].as_array().unwrap() {
        let value = Some(&change[2]).filter(|value| !value.is_null());
        edit(&dir.path().join(change[0].as_str().unwrap()), change[1].as_str().unwrap(), value);
    }
    let path = dir.path().join(text("file"));
    let before = path.exists().then(|| read_json(&path));
    let mut wrong = Vec::new();
    for entry in case["values"].as_array().unwrap() {
        edit(&path, text("field"), entry.get("value"));
        let found = ask(case)(case, dir.path());
        let is_right = match entry.get("found") {
            Some(expected) => is_close(&found, expected),
            None => found.get("error").is_some(),
        };
        if !is_right {
            let value = entry.get("value").unwrap_or(&Value::Null);
            let expected = entry.get("found").map_or_else(|| "a refusal".to_owned(), Value::to_string);
            let place = format!("{} {} `{}`", text("model"), text("file"), text("field"));
            wrong.push(format!("{place} {value}: {found:.300}, not {expected:.300}"));
        }
        edit(&path, "", before.as_ref());
    }
    wrong
}

#[test]
fn values_have_the_effect_that_they_have_in_the_libraries() {
    let wrong: Vec<String> = cases().iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rows whose values are elsewhere: other spellings or a file of their own, with the test.
const ELSEWHERE: [(File, &str, &str); 26] = [
    (File::TokenizerConfig, "legacy", "rebuilt_tokenizers"),
    (File::TokenizerConfig, "do_basic_tokenize", "vocab_txt"),
    (File::TokenizerConfig, "add_bos_token", "configs: transformers 5 ignores it"),
    (File::TokenizerConfig, "add_eos_token", "configs: transformers 5 ignores it"),
    (File::LayerNorm, "dimension", "vector_modules"),
    (File::LogitScore, "true_token_id", "logit_score"),
    (File::LogitScore, "false_token_id", "logit_score"),
    (File::Router, "types", "hub_routers"),
    (File::Router, "structure", "hub_routers"),
    (File::Router, "parameters", "router_prompts"),
    (File::RouterParameters, "default_route", "hub_routers"),
    (File::RouterParameters, "allow_empty_key", "hub_routers"),
    (File::RouterParameters, "route_mappings", "hub_routers"),
    (File::SpecialToken, "content", "`*_token`"),
    (File::SpecialToken, "lstrip", "described_token"),
    (File::SpecialToken, "rstrip", "described_token"),
    (File::SpecialToken, "normalized", "described_token"),
    (File::SpecialToken, "single_word", "described_token"),
    (File::SpecialToken, "special", "described_token"),
    (File::AdapterConfig, "base_model_name_or_path", "adapters"),
    (File::AdapterConfig, "revision", "hub_adapters"),
    (File::AdapterConfig, "modules_to_save", "adapters"),
    (File::AdapterConfig, "lora_bias", "adapters"),
    (File::Index, "weight_map", "tensors"),
    (File::TokenizerConfig, "split_special_tokens", "three values: true, false and absence"),
    (File::Dense, "bias", "three values: true, false and absence"),
];

/// Cases by the row of the list, with the number of their values.
fn by_row() -> BTreeMap<(File, &'static str), Vec<Value>> {
    let mut found: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    let followed = groups().filter(|group| {
        // `config` has values of the objects in `config.json`.
        let is_elsewhere = matches!(group.file, File::Config | File::Rope | File::Tokenizer | File::Gguf | File::Other);
        group.mark == Mark::Followed && !is_elsewhere
    });
    for (file, row) in followed.flat_map(|group| group.fields.iter().map(|(row, _)| (group.file, *row))) {
        let is_case = |case: &&Value| {
            let (path, field) = (case["file"].as_str().unwrap(), case["field"].as_str().unwrap());
            let is_file = path == file.name() || path.rsplit_once('_').is_some_and(|(_, path)| path == file.name());
            let field = field.rsplit('/').next().unwrap();
            is_file && row.strip_prefix('*').map_or(field == row, |end| field.ends_with(end))
        };
        found.insert((file, row), cases().iter().filter(is_case).cloned().collect());
    }
    found
}

#[test]
fn each_followed_field_has_five_values() {
    let mut few = Vec::new();
    for ((file, row), cases) in by_row() {
        let count: usize = cases.iter().map(|case| case["values"].as_array().unwrap().len()).sum();
        let is_elsewhere = ELSEWHERE.iter().any(|(of, name, _)| (*of, *name) == (file, row));
        if count < 5 && !is_elsewhere {
            few.push(format!("{}: `{row}` has {count}", file.name()));
        }
    }
    assert!(few.is_empty(), "{}", few.join("\n"));
}

#[test]
fn without_the_code_of_a_field_its_values_are_wrong() {
    let mut silent = Vec::new();
    for ((file, row), cases) in by_row() {
        let is_noticed = |case: &Value| {
            let (path, field) = (case["file"].as_str().unwrap(), case["field"].as_str().unwrap());
            hiding(path, field.rsplit('/').next().unwrap(), || !wrong(case).is_empty())
        };
        if !cases.is_empty() && !cases.iter().any(is_noticed) {
            silent.push(format!("{}: `{row}`", file.name()));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
