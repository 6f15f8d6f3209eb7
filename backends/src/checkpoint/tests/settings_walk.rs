//! Walk over the list of settings: each row's mark is what loading does.

use super::{TEXTS, copy_of, fixture, open, read_json, write_json};
use crate::formats::config_json;
use crate::settings::{File, Mark, groups, warning};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Rows that the walk cannot probe, with the test that does.
const ELSEWHERE: [(File, &str, &str); 20] = [
    (File::TokenizerConfig, "legacy", "rebuilt_tokenizers"),
    (File::TokenizerConfig, "trim_offsets", "rebuilt_tokenizers"),
    (File::TokenizerConfig, "unk_id", "rebuilt_tokenizers"),
    (File::TokenizerConfig, "extra_ids", "tokenizer_settings"),
    (File::TokenizerConfig, "do_basic_tokenize", "vocab_txt"),
    (File::TokenizerConfig, "*_token", "tokenizer_settings"),
    (File::Transformer, "module_output_name", "with `pooler_output`: configs"),
    (File::SpecialTokens, "*_token", "tokenizer_settings"),
    (File::SpecialTokens, "additional_special_tokens", "tokenizer_settings"),
    (File::SpecialTokens, "extra_special_tokens", "tokenizer_settings"),
    (File::AddedTokens, "*", "tokenizer_settings"),
    (File::AdapterConfig, "base_model_name_or_path", "adapters"),
    (File::AdapterConfig, "revision", "the hub"),
    (File::AdapterConfig, "layers_pattern", "formats::lora::targets"),
    (File::Config, "max_length", "static embeddings"),
    (File::Config, "tokenizer_class", "bert_normalizer"),
    (File::Config, "auto_map", "newer_families"),
    (File::Config, "pooler_hidden_size", "newer_families"),
    (File::Config, "_name_or_path", "newer_families"),
    (File::Prompts, "model_type", "cross_encoders"),
];

const MARKS: [Mark; 5] = [Mark::Followed, Mark::Refused, Mark::Named, Mark::NamedInSome, Mark::Inert];

/// Fields without a walk: lists and files that are read as a whole, routers, and GGUF metadata (`gguf_settings`).
const WHOLE: [File; 5] = [File::Tokenizer, File::Index, File::Gguf, File::Other, File::Router];

/// Unusual values of any field, `None` being its absence.
fn samples(field: &str) -> Vec<Option<Value>> {
    let special = match field {
        "rope_parameters" | "rope_scaling" => json!({"rope_type": "linear", "rope_theta": 77.0, "factor": 3.0}),
        "quantization_config" => json!({"quant_method": "awq"}),
        "rank_pattern" | "alpha_pattern" => json!({"query": 2}),
        "added_tokens_decoder" => json!({"4": {"content": "red", "special": true}}),
        "pooling_mode" => json!("max"),
        "layer_types" => json!(["sliding_attention"]),
        "processing_kwargs" => json!({"text": {"max_length": 5}}),
        "tokenizer_args" | "processor_kwargs" => json!({"model_max_length": 5}),
        "model_args" | "model_kwargs" => json!({"x": 1}),
        "modality_config" => json!({"text": {"method": "forward", "method_output_name": "x"}}),
        "prompts" => json!({"walk": "Walk: "}),
        "sentence_transformers" => json!({"activation_fn": "torch.nn.modules.linear.Identity"}),
        "activation_fn" | "sbert_ce_default_activation_function" => json!("torch.nn.modules.linear.Identity"),
        "problem_type" => json!("regression"),
        "truncation_side" => json!("left"),
        "tokenizer_class" => json!("PreTrainedTokenizerFast"),
        "target_modules" | "exclude_modules" | "modules_to_save" => json!(["value"]),
        "classifier_pooling" | "clf_pooling" | "pooling" => json!("mean"),
        "position_embedding_type" => json!("rotary"),
        "pos_att_type" => json!("c2p"),
        "norm_rel_ebd" => json!("none"),
        "model_input_names" => json!(["input_ids"]),
        "type" => json!("x.Custom"),
        _ => json!("walk"),
    };
    let generic = [json!(true), json!(false), json!(3), json!(0.25), json!(["walk"]), json!({"walk": "walk"})];
    [None, Some(special)].into_iter().chain(generic.map(Some)).collect()
}

/// Further fields with which some rows have an effect.
fn contexts(file: File) -> Vec<Value> {
    match file {
        File::Config => vec![
            json!({}),
            json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0, "layer_types": null}),
            json!({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}, "rope_parameters": null}),
            json!({"rotary_scaling_factor": 2.0}),
            json!({"layer_types": null}),
        ],
        File::TokenizerConfig => vec![
            json!({}),
            json!({"tokenizer_class": "DebertaV2Tokenizer"}),
            json!({"tokenizer_class": "LlamaTokenizer"}),
            json!({"model_max_length": null}),
        ],
        File::Prompts => vec![json!({}), json!({"model_type": "CrossEncoder", "prompts": {"walk": "x"}})],
        _ => vec![json!({})],
    }
}

/// Fixtures that have a kind of file, and its path there.
fn places(file: File) -> Vec<(&'static str, &'static str)> {
    let of = |models: &[&'static str], path: &'static str| models.iter().map(|&model| (model, path)).collect();
    match file {
        File::Config => {
            of(&["bert-reranker-tiny", "bert-nli-tiny", "llama-bidirec-tiny", "eurobert-mean-tiny"], "config.json")
        }
        File::TokenizerConfig => {
            of(&["bert-mean-tiny", "roberta-tiny", "deberta-v2-tiny", "llama-tiny"], "tokenizer_config.json")
        }
        File::Prompts => of(&["bert-mean-tiny", "bert-reranker-tiny"], "config_sentence_transformers.json"),
        File::Transformer => of(&["bert-mean-tiny", "bert-cls-tiny"], "sentence_bert_config.json"),
        File::Pooling => of(&["bert-mean-tiny", "bert-cls-tiny", "bert-legacy-tiny"], "1_Pooling/config.json"),
        File::Dense => of(&["embeddinggemma-tiny"], "2_Dense/config.json"),
        _ => vec![],
    }
}

/// Everything that loading makes of a model, or its error; and the warnings.
fn outcome(dir: &Path) -> (Result<String, String>, Vec<String>) {
    let checkpoint = match open(dir) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return (Err(error.to_string()), vec![]),
    };
    let mut capabilities = prefold_core::Capabilities::clone(&checkpoint.capabilities);
    let warnings = std::mem::take(&mut capabilities.warnings);
    let encode = |text: &&str| checkpoint.tokenizer.encode(*text, true).map(|it| it.get_ids().to_vec()).ok();
    let tokens: Vec<_> = TEXTS.iter().map(encode).collect();
    let cut = checkpoint.tokenizer.get_truncation().map(|it| it.direction);
    let weight = checkpoint.config.typical_weight();
    let found = format!(
        "{:?} {capabilities:?} {:?} {tokens:?} {cut:?} {} {:?} {weight}",
        checkpoint.config, checkpoint.head, checkpoint.token_types, checkpoint.unpooled
    );
    (Ok(found), warnings)
}

fn changed(json: &Value, field: &str, sample: Option<&Value>) -> Value {
    let mut json = json.clone();
    let fields = json.as_object_mut().unwrap();
    let field = field.replace('*', "walk");
    match sample {
        Some(value) => drop(fields.insert(field, value.clone())),
        None => drop(fields.remove(&field)),
    }
    json
}

fn merged(json: &Value, context: &Value) -> Value {
    let mut json = json.clone();
    for (name, value) in context.as_object().unwrap() {
        json[name] = value.clone();
    }
    // A field that is null may hide its older spelling.
    json.as_object_mut().unwrap().retain(|name, _| context.get(name).is_none_or(|value| !value.is_null()));
    json
}

/// A kind of file in one model, which is edited and restored.
struct Probe {
    dir: TempDir,
    path: &'static str,
    json: Value,
    known: HashMap<String, (Result<String, String>, Vec<String>)>,
}

impl Probe {
    fn new((model, path): (&str, &'static str)) -> Self {
        let dir = copy_of(model);
        let file = dir.path().join(path);
        let json = if file.exists() { read_json(&file) } else { Value::Object(Map::new()) };
        Self { dir, path, json, known: HashMap::new() }
    }

    fn outcome(&mut self, json: &Value) -> (Result<String, String>, Vec<String>) {
        let key = json.to_string();
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        write_json(&self.dir.path().join(self.path), json);
        let found = outcome(self.dir.path());
        self.known.insert(key, found.clone());
        found
    }
}

/// Effect of a field on loading.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Effect {
    /// A value changes the model, or an error names the field.
    pub(super) has_effect: bool,
    /// An error names the field.
    is_refused: bool,
    /// A warning names the field.
    is_named: bool,
}

impl Effect {
    fn of(field: &str, before: &Result<String, String>, after: &Result<String, String>, warnings: &[String]) -> Self {
        let field = field.trim_start_matches('*');
        let names = |text: &String| text.contains(&format!("{field}`")) || text.contains(&format!(".{field}"));
        let is_refused = before.is_ok() && after.as_ref().is_err_and(names);
        let was_missing = after.is_ok() && before.as_ref().is_err_and(names);
        let differs = matches!((before, after), (Ok(before), Ok(after)) if before != after);
        Self {
            has_effect: is_refused || was_missing || differs,
            is_refused,
            is_named: after.is_ok() && warnings.iter().any(names),
        }
    }

    fn join(self, other: Self) -> Self {
        Self {
            has_effect: self.has_effect | other.has_effect,
            is_refused: self.is_refused | other.is_refused,
            is_named: self.is_named | other.is_named,
        }
    }
}

/// The effect of a field of `config.json` on a config, without loading its model.
pub(super) fn effect_on_config(field: &str, config: &Value) -> Effect {
    let read = |json: &Value| config_json::read(json).map(|it| format!("{it:?}")).map_err(|error| error.to_string());
    let mut effect = Effect::default();
    for context in contexts(File::Config) {
        let config = merged(config, &context);
        let before = read(&config);
        for sample in samples(field) {
            let after = changed(&config, field, sample.as_ref());
            let warnings: Vec<String> = warning(File::Config, "config.json", &after).into_iter().collect();
            effect = effect.join(Effect::of(field, &before, &read(&after), &warnings));
        }
    }
    effect
}

fn effect_on_models(field: &str, probes: &mut [Probe], file: File, few: bool) -> Effect {
    let mut effect = Effect::default();
    for probe in probes {
        for context in contexts(file) {
            let json = merged(&probe.json, &context);
            let (before, _) = probe.outcome(&json);
            let all = samples(field);
            for sample in if few { &all[1..4] } else { &all[..] } {
                let after = changed(&json, field, sample.as_ref());
                let (after, warnings) = probe.outcome(&after);
                effect = effect.join(Effect::of(field, &before, &after, &warnings));
                if !few && effect.has_effect {
                    return effect;
                }
            }
            if few {
                break;
            }
        }
    }
    effect
}

fn configs() -> Vec<Value> {
    let folders = fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().path().join("config.json"));
    folders.filter(|path| path.exists()).map(|path| read_json(&path)).collect()
}

/// The rows of a file and mark.
pub(super) fn rows(file: File, mark: Mark) -> impl Iterator<Item = &'static str> {
    let of_file = groups().filter(move |group| group.file == file && group.mark == mark);
    let fields = of_file.flat_map(|group| group.fields.iter().map(|(name, _)| *name));
    fields.filter(move |field| !ELSEWHERE.iter().any(|(of, name, _)| of == &file && name == field))
}

#[test]
fn every_row_of_config_json_is_as_marked() {
    let configs = configs();
    let mut probes: Vec<Probe> = places(File::Config).into_iter().map(Probe::new).collect();
    let mut wrong = Vec::new();
    for mark in MARKS {
        for field in rows(File::Config, mark) {
            let each = configs.iter().map(|config| effect_on_config(field, config));
            let mut effect = each.fold(Effect::default(), Effect::join);
            if mark == Mark::Followed && !effect.has_effect {
                effect = effect_on_models(field, &mut probes, File::Config, false);
            }
            let is_right = match mark {
                Mark::Followed => effect.has_effect && !effect.is_named,
                Mark::Refused => effect.is_refused && !effect.is_named,
                Mark::Named => effect.is_named && !effect.has_effect,
                Mark::NamedInSome => !effect.has_effect,
                Mark::Inert => !effect.has_effect && !effect.is_named,
            };
            if !is_right {
                wrong.push(format!("{field}: marked {mark:?}, found {effect:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_of_the_other_files_is_as_marked() {
    let mut wrong = Vec::new();
    let mut files: Vec<File> = groups().map(|group| group.file).filter(|file| !WHOLE.contains(file)).collect();
    files.sort_unstable();
    files.dedup();
    for file in files.into_iter().filter(|&file| file != File::Config) {
        let mut probes: Vec<Probe> = places(file).into_iter().map(Probe::new).collect();
        if probes.is_empty() {
            continue;
        }
        for mark in MARKS {
            for field in rows(file, mark) {
                let few = matches!(mark, Mark::Inert | Mark::Named | Mark::NamedInSome);
                let effect = effect_on_models(field, &mut probes, file, few);
                let is_right = match mark {
                    Mark::Followed => effect.has_effect,
                    Mark::Refused => effect.is_refused,
                    Mark::Named => effect.is_named && !effect.has_effect,
                    Mark::NamedInSome => !effect.has_effect,
                    Mark::Inert => !effect.has_effect && !effect.is_named,
                };
                if !is_right {
                    wrong.push(format!("{}: {field}: marked {mark:?}, found {effect:?}", file.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn published_files_have_no_field_that_the_list_lacks() {
    let mut unknown = Vec::new();
    for folder in fs::read_dir(fixture("published")).unwrap().map(|entry| entry.unwrap().path()) {
        for file in [File::Config, File::TokenizerConfig, File::Prompts, File::Transformer] {
            let path = folder.join(file.name());
            if path.exists() {
                unknown.extend(warning(file, &path.display().to_string(), &read_json(&path)));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn fields_of_a_new_release_are_named() {
    let dir = copy_of("bert-mean-tiny");
    for (path, field) in [
        ("config.json", "new_of_config"),
        ("tokenizer_config.json", "new_of_tokenizer"),
        ("config_sentence_transformers.json", "new_of_prompts"),
        ("sentence_bert_config.json", "new_of_transformer"),
        ("1_Pooling/config.json", "new_of_pooling"),
        ("special_tokens_map.json", "new_of_tokens"),
    ] {
        let file = dir.path().join(path);
        let json = if file.exists() { read_json(&file) } else { json!({"max_seq_length": 64}) };
        write_json(&file, &changed(&json, field, Some(&json!(7))));
    }
    let warnings = open(dir.path()).unwrap().capabilities.warnings.join("\n");
    for kind in ["config", "tokenizer", "prompts", "transformer", "pooling"] {
        assert!(warnings.contains(&format!("`new_of_{kind}`: 7 is ignored")), "{kind}: {warnings}");
    }
}
