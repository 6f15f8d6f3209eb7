//! Configs, purposes and prompts of the reference checkpoints.

use super::{copy_of, fixture, open, options, read_json, rope, write_json};
use crate::checkpoint::capabilities::head::Routes;
use crate::checkpoint::{Checkpoint, HeadSource, RerankToken, VectorModule};
use crate::config::{
    AttentionConfig, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, HeadActivation, MaskConfig, NormConfig,
    NormKind, NormPlacement, PositionsConfig, RopeConfig, RopeScaling, TransformerConfig, names,
};
use crate::formats::config_json;
use crate::options::{DefaultPrompt, EmbeddedFile, LoadOptions, ModelSource};
use prefold_core::{Capabilities, Classify, Embed, LogitActivation, Pooling, Prompts, RerankRecipe, Task};
use prefold_kernels::Activation;
use serde_json::{Value, json};
use std::fs;

/// Attention of all tiny checkpoints, except for the differences of a family.
const ATTENTION: AttentionConfig = AttentionConfig {
    num_heads: 4,
    num_kv_heads: 2,
    head_dim: 16,
    qkv_bias: false,
    output_bias: false,
    qk_norm: false,
    qk_width_norm: false,
    scale: None,
    mask: MaskConfig::Causal,
    softcap: None,
    distance_bias: None,
};

/// Their norms.
const NORM: NormConfig =
    NormConfig { kind: NormKind::RmsNorm, placement: NormPlacement::Pre, first_attention: true, eps: 1e-6 };

/// Config of all tiny checkpoints, except for the differences of a family.
fn tiny(model_type: &str) -> TransformerConfig {
    TransformerConfig {
        model_type: model_type.to_owned(),
        vocab_size: 1024,
        hidden_size: 64,
        output_size: 64,
        num_layers: 3,
        norm: NORM,
        embeddings: EmbeddingsConfig { size: 64, token_types: 0, norm: false, scale: 1.0 },
        attention: ATTENTION,
        feed_forward: FeedForwardConfig {
            intermediate_size: 128,
            input_bias: false,
            output_bias: false,
            ffn_glu: true,
            activation: Activation::Silu,
            experts: None,
        },
        positions: PositionsConfig::Rotary(RopeConfig { theta: 1e6, scaling: RopeScaling::None }.into()),
        convolutions: None,
        convolution_layers: vec![],
        sliding_windows: vec![None; 3],
        tie_word_embeddings: false,
        logit_softcap: None,
        max_position_embeddings: 1024,
        names: names::DECODER,
        classifier: DECODER_HEAD,
        adapters: None,
    }
}

fn qwen3() -> TransformerConfig {
    let attention = AttentionConfig { head_dim: 32, qk_norm: true, ..ATTENTION };
    TransformerConfig { attention, tie_word_embeddings: true, ..tiny("qwen3") }
}

fn llama() -> TransformerConfig {
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 64,
    };
    let positions = PositionsConfig::Rotary(RopeConfig { theta: 5e5, scaling }.into());
    TransformerConfig { norm: NormConfig { eps: 1e-5, ..NORM }, positions, ..tiny("llama") }
}

/// Capabilities and head of an embedding model without dense layers.
fn embeds(pooling: Pooling, max_input_length: usize) -> (Capabilities, HeadSource) {
    let pooling = vec![pooling];
    let embed = Embed { dim: 64, token_dim: 64, pooling: pooling.clone(), ..Embed::default() };
    (
        Capabilities::embedding(embed, max_input_length),
        HeadSource::Dense { pooling, modules: vec![], routes: Routes::default() },
    )
}

fn classifies(names: &[&str]) -> (Capabilities, HeadSource) {
    let labels = names.iter().map(|name| (*name).to_owned()).collect();
    let capabilities = Capabilities::classifier(Classify::of_labels(labels, Prompts::default()), 1024);
    (capabilities, HeadSource::Classifier { num_labels: names.len() })
}

/// Reading of a checkpoint, or the reason of its refusal.
fn read(name: &str, change: impl FnOnce(&mut LoadOptions)) -> Result<(Capabilities, HeadSource), String> {
    let mut options = options(ModelSource::Path(fixture(name)));
    change(&mut options);
    let checkpoint = Checkpoint::open(&options).map_err(|error| error.to_string())?;
    Ok((Capabilities::clone(&checkpoint.capabilities), checkpoint.head))
}

#[test]
fn every_reference_checkpoint_is_read_as_it_is_meant() {
    let template = RerankRecipe::builtin(RerankRecipe::QWEN3).unwrap().template;
    let reranker = (Capabilities::prompted_reranker(template, 1024), HeadSource::TokenRows(vec![]));
    let attention = AttentionConfig { qkv_bias: true, ..ATTENTION };
    let qwen2 = TransformerConfig { attention, ..tiny("qwen2") };
    let cases = [
        ("qwen3-tiny", qwen3(), embeds(Pooling::LastToken, 1024)),
        ("qwen2-tiny", qwen2, embeds(Pooling::LastToken, 512)),
        ("llama-tiny", llama(), embeds(Pooling::Mean, 512)),
        (
            "mistral-tiny",
            TransformerConfig { norm: NormConfig { eps: 1e-5, ..NORM }, ..tiny("mistral") },
            embeds(Pooling::LastToken, 1024),
        ),
        ("qwen3-reranker-tiny", qwen3(), reranker),
        ("llama-seqcls-tiny", llama(), classifies(&["LABEL_0"])),
        ("qwen3-seqcls-tiny", qwen3(), classifies(&["negative", "neutral", "positive"])),
    ];
    for (name, mut config, (mut capabilities, mut head)) in cases {
        let padding = &read_json(&fixture(name).join("config.json"))["pad_token_id"];
        config.classifier.padding = padding.as_u64().map(|id| id as u32);
        let expected = read_json(&fixture(name).join("expected.json"));
        if let HeadSource::TokenRows(tokens) = &mut head {
            let token = |text: &str| {
                let id = expected[format!("{text}_token_id")].as_u64().unwrap() as u32;
                RerankToken { text: text.to_owned(), id }
            };
            *tokens = vec![token("no"), token("yes")];
        }
        if let Some(embed) = &mut capabilities.embed {
            let prompts = read_json(&fixture(name).join("config_sentence_transformers.json"))["prompts"].clone();
            embed.prompts.by_name = serde_json::from_value(prompts).unwrap();
            embed.normalizes = name != "llama-tiny";
        }
        let checkpoint = open(fixture(name)).unwrap();
        assert_eq!(checkpoint.config, config, "{name}");
        assert_eq!(checkpoint.capabilities.warnings, [""; 0], "{name}");
        assert_eq!(*checkpoint.capabilities, capabilities, "{name}");
        assert_eq!(checkpoint.head, head, "{name}");
        assert_eq!(checkpoint.weights.stored_dtype(&names::DECODER.first_projection()), "float32", "{name}");
        for case in expected["cases"].as_array().unwrap() {
            let text = case["prompt"].as_str().or(case["text"].as_str());
            let Some(text) = text else { continue };
            let ids = checkpoint.tokenizer.encode(text, true).unwrap();
            assert_eq!(json!(ids.get_ids()), case["input_ids"], "{name}: {text}");
        }
    }
}

#[test]
fn the_built_in_model_is_read_from_embedded_files() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../router/builtin");
    let from_directory = open(model).unwrap();
    let files = ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json", "model.safetensors"];
    let embedded: Vec<EmbeddedFile> = files
        .into_iter()
        .map(|name| EmbeddedFile { name, bytes: fs::read(format!("{model}/{name}")).unwrap().leak() })
        .collect();
    let checkpoint = Checkpoint::open(&options(ModelSource::Embedded(embedded.leak()))).unwrap();
    assert_eq!(checkpoint.config, from_directory.config);
    assert_eq!(
        checkpoint.head,
        HeadSource::Dense { pooling: vec![Pooling::LastToken], modules: vec![], routes: Routes::default() }
    );
    assert_eq!(checkpoint.weights.stored_dtype(&names::DECODER.first_projection()), "bfloat16");
    let shape = [checkpoint.config.hidden_size];
    let name = "model.norm.weight";
    assert_eq!(
        checkpoint.weights.read::<f32>(name, &shape).unwrap(),
        from_directory.weights.read::<f32>(name, &shape).unwrap()
    );
}

/// The config of a copied checkpoint with some fields changed; null removes one.
pub(super) fn config_with(name: &str, changes: &[(&str, serde_json::Value)]) -> TransformerConfig {
    let mut config = read_json(&fixture(name).join("config.json"));
    for (key, value) in changes {
        if value.is_null() {
            config.as_object_mut().unwrap().remove(*key);
        } else {
            config[*key] = value.clone();
        }
    }
    config_json::read(&config).unwrap()
}

#[test]
fn sliding_windows_follow_the_family() {
    let windows = |name: &str, changes: &[_]| config_with(name, changes).sliding_windows;
    let on = ("use_sliding_window", json!(true));
    // Layers from `max_window_layers` (2) on.
    assert_eq!(windows("qwen2-tiny", std::slice::from_ref(&on)), [None, None, Some(32)]);
    let types = json!(["sliding_attention", "full_attention", "sliding_attention"]);
    assert_eq!(windows("qwen2-tiny", &[on, ("layer_types", types)]), [Some(32), None, Some(32)]);
    let full = json!(["full_attention", "full_attention", "full_attention"]);
    assert_eq!(windows("qwen2-tiny", &[("layer_types", full)]), [None; 3]);
    assert_eq!(windows("mistral-tiny", &[("sliding_window", json!(8))]), [Some(8); 3]);
    // Absent is not null: the class has a default.
    assert_eq!(windows("mistral-tiny", &[("sliding_window", json!(null))]), [Some(4096); 3]);
    // With types transformers takes the model for Ministral's.
    let types = ("layer_types", json!(["sliding_attention", "full_attention", "sliding_attention"]));
    let window = ("sliding_window", json!(8));
    assert_eq!(windows("mistral-tiny", &[types.clone(), window]), [Some(8), None, Some(8)]);
    assert_eq!(windows("mistral-tiny", &[types, ("sliding_window", json!(null))]), [Some(4096), None, Some(4096)]);
    assert_eq!(windows("llama-tiny", &[("sliding_window", json!(8))]), [None; 3]);
}

/// Biases of the q, k and v projections, and of the output projection.
fn biases(config: &TransformerConfig) -> (bool, bool) {
    (config.attention.qkv_bias, config.attention.output_bias)
}

#[test]
fn biases_and_head_dim_follow_the_family() {
    let bias = [("attention_bias", json!(true))];
    let (qwen3, llama) = (config_with("qwen3-tiny", &bias), config_with("llama-tiny", &bias));
    assert!(biases(&qwen3) == (true, true) && biases(&llama) == (true, true));
    let qwen2 = config_with("qwen2-tiny", &[]);
    assert!(biases(&qwen2) == (true, false) && !qwen2.feed_forward.input_bias);
    assert!(config_with("llama-tiny", &[("mlp_bias", json!(true))]).feed_forward.output_bias);
    assert_eq!(config_with("qwen3-tiny", &[("head_dim", json!(null))]).attention.head_dim, 128);
    assert_eq!(config_with("llama-seqcls-tiny", &[("head_dim", json!(null))]).attention.head_dim, 16);
    assert_eq!(config_with("llama-tiny", &[("num_key_value_heads", json!(null))]).attention.num_kv_heads, 4);
}

#[test]
fn usual_names_overrule_those_of_the_class() {
    let heads = |model, name, value: usize| config_with(model, &[(name, json!(value))]).attention.num_heads;
    assert_eq!((heads("distilbert-tiny", "n_heads", 2), heads("distilbert-tiny", "num_attention_heads", 8)), (2, 8));
    assert_eq!((heads("t5-tiny", "num_heads", 2), heads("t5-tiny", "num_attention_heads", 8)), (2, 8));
}

#[test]
fn both_spellings_of_rope_mean_the_same() {
    let linear = RopeConfig { theta: 5e5, scaling: RopeScaling::Linear { factor: 4.0 } };
    let older = json!({"type": "linear", "factor": 4.0});
    assert_eq!(rope(&config_with("llama-tiny", &[("rope_scaling", older.clone())])), &linear);
    let newer = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5});
    let both = [("rope_scaling", older), ("rope_parameters", newer)];
    assert_eq!(rope(&config_with("llama-tiny", &both)), &linear);
    let plain = config_with("llama-tiny", &[("rope_scaling", json!(null)), ("rope_theta", json!(null))]);
    assert_eq!(rope(&plain), &RopeConfig { theta: 1e4, scaling: RopeScaling::None });
}

#[test]
fn task_and_pooling_overrule_the_checkpoint() {
    let pooled = read("qwen3-reranker-tiny", |o| o.pooling = Some(Pooling::Mean));
    assert_eq!(pooled, Ok(embeds(Pooling::Mean, 1024)));
    assert_eq!(read("llama-tiny", |o| o.pooling = Some(Pooling::Cls)), Ok(embeds(Pooling::Cls, 512)));
    let classifier = read("llama-seqcls-tiny", |o| o.task = Some(Task::Rerank));
    assert_eq!(classifier, Ok(classifies(&["LABEL_0"])));
    assert!(matches!(read("qwen3-tiny", |o| o.task = Some(Task::Rerank)), Ok((_, HeadSource::TokenRows(_)))));

    let refused = |name, change: fn(&mut LoadOptions)| read(name, change).unwrap_err();
    assert!(refused("qwen3-seqcls-tiny", |o| o.task = Some(Task::Rerank)).contains("3 labels"));
    assert!(refused("qwen3-reranker-tiny", |o| o.task = Some(Task::Embed)).contains("--pooling"));
    assert!(refused("llama-seqcls-tiny", |o| o.pooling = Some(Pooling::Mean)).contains("--pooling"));
    assert!(refused("llama-tiny", |o| o.task = Some(Task::Rerank)).contains("--rerank-recipe"));
}

#[test]
fn prompts_and_instructions_of_the_options_replace_the_models_own() {
    let default = |prompt: DefaultPrompt| move |o: &mut LoadOptions| o.default_prompt = Some(prompt);
    let text = || DefaultPrompt::Text("x: ".to_owned());
    let named = || DefaultPrompt::Named("query".to_owned());
    let embedder = read("qwen3-tiny", default(text())).unwrap().0;
    assert_eq!(embedder.embed.unwrap().prompts.default.as_deref(), Some("x: "));
    let classifier = read("qwen3-seqcls-tiny", default(text())).unwrap().0;
    assert_eq!(classifier.classify.unwrap().prompts.default.as_deref(), Some("x: "));
    for name in ["llama-tiny", "qwen3-reranker-tiny", "qwen3-seqcls-tiny"] {
        let refused = read(name, default(named())).unwrap_err();
        assert_eq!(refused, "`--default-prompt-name query` is not a prompt of the model; it has: none", "{name}");
    }
    let prompts = read("qwen3-tiny", default(named())).unwrap().0.embed.unwrap().prompts;
    assert_eq!(prompts.default.as_ref(), Some(&prompts.by_name["query"]));
    let refused = read("qwen3-tiny", default(DefaultPrompt::Named("passage".to_owned()))).unwrap_err();
    assert!(refused.ends_with("it has: document, query"), "{refused}");

    let strict = |o: &mut LoadOptions| o.rerank_instruction = Some("Be strict".to_owned());
    let reranker = read("qwen3-reranker-tiny", strict).unwrap().0;
    assert_eq!(reranker.rerank_template().unwrap().default_instruction.as_deref(), Some("Be strict"));
    for name in ["qwen3-tiny", "llama-seqcls-tiny"] {
        assert!(read(name, strict).unwrap_err().contains("--rerank-instruction"), "{name}");
    }
}

#[test]
fn a_recipe_makes_any_language_model_a_reranker() {
    let reranker = |name: &str, recipe: RerankRecipe, task| {
        read(name, |options| (options.rerank_recipe, options.task) = (Some(recipe), task))
    };
    let recipe = || RerankRecipe::builtin("mxbai-rerank-v2").unwrap();
    let (capabilities, HeadSource::TokenRows(tokens)) = reranker("qwen2-tiny", recipe(), None).unwrap() else {
        panic!("a reranker")
    };
    assert_eq!(capabilities, Capabilities::prompted_reranker(recipe().template, 512));
    assert_eq!(tokens.len(), 2);
    let again = reranker("qwen2-tiny", recipe(), Some(Task::Rerank));
    assert_eq!(again, Ok((capabilities, HeadSource::TokenRows(tokens))));
    let alone = reranker("llama-tiny", RerankRecipe { negative: None, ..recipe() }, None);
    assert!(matches!(alone, Ok((_, HeadSource::TokenRows(tokens))) if tokens.len() == 1));

    for task in [None, Some(Task::Rerank)] {
        let refused = reranker("llama-seqcls-tiny", recipe(), task).unwrap_err();
        assert!(refused.contains("is a sequence classifier") && refused.contains("--rerank-recipe"), "{refused}");
    }
    let refused = reranker("qwen2-tiny", recipe(), Some(Task::Embed)).unwrap_err();
    assert!(refused.contains("--rerank-recipe is for reranking"), "{refused}");
    let long = RerankRecipe { positive: "one two three".to_owned(), ..recipe() };
    let refused = reranker("qwen2-tiny", long, None).unwrap_err();
    assert!(refused.contains("\"one two three\" of the rerank recipe is"), "{refused}");
}

#[test]
fn a_language_model_with_a_class_of_its_own_is_not_guessed_at() {
    for (class, guessed) in [("AutoConfig", false), ("AutoTokenizer", true)] {
        let dir = copy_of("qwen3-reranker-tiny");
        let mut config = read_json(&dir.path().join("config.json"));
        config["auto_map"] = json!({class: "modeling_zeranker.ZEConfig"});
        write_json(&dir.path().join("config.json"), &config);
        match open(dir.path()) {
            Ok(checkpoint) => assert!(guessed && matches!(checkpoint.head, HeadSource::TokenRows(_)), "{class}"),
            Err(error) => assert!(!guessed && error.to_string().contains("--task, or --rerank-recipe"), "{error}"),
        }
        let options = LoadOptions { task: Some(Task::Rerank), ..options(ModelSource::Path(dir.path().to_owned())) };
        assert!(matches!(Checkpoint::open(&options).unwrap().head, HeadSource::TokenRows(_)));
    }
}

#[test]
fn a_model_without_the_head_of_a_classifier_does_not_classify() {
    let options = LoadOptions { task: Some(Task::Classify), ..options(ModelSource::Path(fixture("qwen3-tiny"))) };
    let refused = Checkpoint::open(&options).err().unwrap().to_string();
    assert!(refused.contains("has no classifier head") && refused.contains("--task classify"), "{refused}");
}

#[test]
fn prompts_and_dense_layers_are_read() {
    let dir = copy_of("qwen3-tiny");
    let modules = json!([
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
        {"path": "3_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]);
    write_json(&dir.path().join("modules.json"), &modules);
    let dense = json!({"in_features": 64, "out_features": 2, "bias": true,
        "activation_function": "torch.nn.modules.activation.Tanh"});
    let weight: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let tensors = |bias: f32| {
        let stored = |shape: &[usize], values: &[f32]| super::Stored {
            dtype: safetensors::Dtype::F32,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        let weight = stored(&[2, 64], &weight);
        [("linear.weight".to_owned(), weight), ("linear.bias".to_owned(), stored(&[2], &[bias, 2.0]))].into()
    };
    for (folder, bias) in [("2_Dense", 1.0), ("2_Dense_other", 7.0)] {
        write_json(&dir.path().join(folder).join("config.json"), &dense);
        super::write_tensors(&dir.path().join(folder).join("model.safetensors"), &tensors(bias));
    }
    let prompts = json!({"prompts": {"query": "Q: ", "document": ""}, "default_prompt_name": "query"});
    write_json(&dir.path().join("config_sentence_transformers.json"), &prompts);

    for (dense_path, bias) in [(None, 1.0), (Some("2_Dense_other".to_owned()), 7.0)] {
        let mut options = options(ModelSource::Path(dir.path().to_owned()));
        options.dense_path = dense_path;
        let checkpoint = Checkpoint::open(&options).unwrap();
        let HeadSource::Dense { modules: dense, .. } = checkpoint.head else { panic!("not an embedding model") };
        let VectorModule::Dense(dense) = &dense[0] else { panic!("not a Dense") };
        assert_eq!((dense.in_features, dense.out_features), (64, 2));
        assert_eq!(dense.weight, weight);
        assert_eq!(dense.bias, Some(vec![bias, 2.0]));
        assert_eq!(dense.activation, HeadActivation::Tanh);
        assert_eq!(checkpoint.capabilities.embed.as_ref().unwrap().prompts.default.as_deref(), Some("Q: "));
        assert_eq!(checkpoint.capabilities.embed.as_ref().unwrap().prompts.by_name["document"], "");
    }
}

#[test]
fn arguments_without_effect_are_not_refused() {
    let dir = copy_of("qwen3-tiny");
    let args = json!({"config_args": {"trust_remote_code": true}, "config_kwargs": {}, "model_args": {"a": 1}});
    write_json(&dir.path().join("sentence_bert_config.json"), &args);
    let checkpoint = open(dir.path()).unwrap();
    assert!(checkpoint.capabilities.warnings[0].contains("`model_args`"), "{:?}", checkpoint.capabilities.warnings);
}

#[test]
fn a_llama_tokenizer_config_overrules_the_template() {
    let dir = copy_of("mistral-tiny");
    let path = dir.path().join("tokenizer_config.json");
    let mut config = read_json(&path);
    config["tokenizer_class"] = json!("LlamaTokenizerFast");
    config["add_bos_token"] = json!(true);
    config["add_eos_token"] = json!(false);
    write_json(&path, &config);
    let check = || {
        let checkpoint = open(dir.path()).unwrap();
        let warnings = checkpoint.capabilities.warnings.join("\n");
        assert!(
            warnings.contains("`add_eos_token`: false overrules") && !warnings.contains("`add_bos_token`"),
            "{warnings}"
        );
        let tokenizer = checkpoint.tokenizer;
        let single = tokenizer.encode("a", true).unwrap();
        let pair = tokenizer.encode(("a", "a"), true).unwrap();
        let a = single.get_ids()[1];
        assert_eq!(single.get_ids(), [1, a]);
        assert_eq!(pair.get_ids(), [1, a, 1, a]);
    };
    check();
    // Tokens at the ends of a padded or truncated text are not the template's.
    let path = dir.path().join("tokenizer.json");
    let mut tokenizer = read_json(&path);
    for direction in ["Left", "Right"] {
        tokenizer["padding"] = json!({"strategy": {"Fixed": 8}, "direction": direction, "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"});
        write_json(&path, &tokenizer);
        check();
    }
    tokenizer["padding"] = json!(null);
    tokenizer["truncation"] = json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0});
    write_json(&path, &tokenizer);
    check();
}

#[test]
fn classifiers_say_what_makes_their_scores() {
    use LogitActivation::{Identity, Sigmoid, Softmax};
    let activations = |name: &str, changes: &[(&str, Value)]| {
        let directory = copy_of(name);
        let path = directory.path().join("config.json");
        let mut config = read_json(&path);
        changes.iter().for_each(|(key, value)| config[*key] = value.clone());
        write_json(&path, &config);
        let capabilities = open(directory.path()).unwrap().capabilities;
        let classify = capabilities.classify.as_ref().unwrap();
        (classify.activation, classify.pair_activation, capabilities.warnings.len())
    };
    let st = |name: &str| ("sentence_transformers", json!({"activation_fn": name}));
    let older = |name: &str| ("sbert_ce_default_activation_function", json!(name));
    let (one, three) = ("bert-reranker-tiny", "bert-nli-tiny");
    assert_eq!(activations(one, &[]), (Sigmoid, Identity, 0), "as the fixture says");
    assert_eq!(activations(one, &[st("torch.nn.modules.activation.Sigmoid")]), (Sigmoid, Sigmoid, 0));
    let none = ("sentence_transformers", json!(null));
    assert_eq!(activations(one, std::slice::from_ref(&none)), (Sigmoid, Sigmoid, 0));
    assert_eq!(activations(one, &[none.clone(), older("sentence_transformers.util.Identity")]), (Sigmoid, Identity, 0));
    assert_eq!(activations(one, &[none, older("x.Softplus")]), (Sigmoid, Sigmoid, 1), "with a warning");
    let version = ("sentence_transformers", json!({"version": "5.1.0"}));
    assert_eq!(activations(one, &[version, older("torch.nn.modules.linear.Identity")]), (Sigmoid, Identity, 0));
    let null = ("sentence_transformers", json!({"activation_fn": null}));
    assert_eq!(activations(one, &[null, older("torch.nn.modules.linear.Identity")]), (Sigmoid, Sigmoid, 0));
    // The newest versions have it in a file of their own, which comes first.
    let newest = |name: &str| {
        let directory = copy_of(one);
        let path = directory.path().join("config_sentence_transformers.json");
        write_json(&path, &json!({"model_type": "CrossEncoder", "activation_fn": name}));
        let capabilities = open(directory.path()).unwrap().capabilities;
        capabilities.classify.as_ref().unwrap().pair_activation
    };
    assert_eq!(newest("torch.nn.modules.activation.Sigmoid"), Sigmoid);
    assert_eq!(newest("torch.nn.modules.linear.Identity"), Identity);
    assert_eq!(activations(one, &[("problem_type", json!("regression"))]), (Identity, Identity, 0));
    assert_eq!(activations(three, &[]), (Softmax, Sigmoid, 0));
    let many = ("problem_type", json!("multi_label_classification"));
    assert_eq!(activations(three, &[many]), (Sigmoid, Sigmoid, 0));
}
