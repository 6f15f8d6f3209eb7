//! Seeds of the corpora: small valid inputs of every kind, and some nearly valid ones.

mod encoder;
mod gguf;
mod requests;

use prefold_core::RerankRecipe;
use prefold_fuzz::checkpoint::{DESCRIPTIONS, WEIGHTS, base, config_json, tensors, tensors_file, tokenizer_json};
use safetensors::Dtype;
use serde_json::{Value, json};

/// Inputs by name.
pub(crate) type Seeds = Vec<(String, Vec<u8>)>;

/// All seeds by target.
pub(crate) fn all() -> [(&'static str, Seeds); 8] {
    [
        ("config", config()),
        ("encoder", encoder::seeds()),
        ("gguf", gguf::seeds()),
        ("pytorch", pytorch()),
        ("radix", radix()),
        ("recipe", recipe()),
        ("requests", requests::seeds()),
        ("safetensors", safetensors()),
    ]
}

/// Copy of a JSON value with another value at a JSON pointer.
pub(crate) fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[key] = new;
    value
}

fn config() -> Seeds {
    let mut seeds = Seeds::new();
    let mut add = |file: &str, name: &str, content: &[u8]| {
        let number = DESCRIPTIONS.iter().position(|known| *known == file).unwrap();
        let name = format!("{}-{name}", file.replace('/', "-"));
        seeds.push((name, [&[number as u8], content].concat()));
    };
    for file in DESCRIPTIONS {
        match base().get(file) {
            Some(content) => add(file, "base", content),
            None => {
                let map: serde_json::Map<_, _> =
                    tensors().into_iter().map(|(tensor, _)| (tensor, json!("a.safetensors"))).collect();
                add(file, "base", json!({"metadata": {}, "weight_map": map}).to_string().as_bytes());
            }
        }
    }
    for (name, pointer, value) in [
        ("classifier", "/architectures", json!(["Qwen3ForSequenceClassification"])),
        ("llama", "/model_type", json!("llama")),
        ("mistral", "/model_type", json!("mistral")),
        (
            "scaled",
            "/rope_scaling",
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16}),
        ),
        ("linear", "/rope_parameters", json!({"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4})),
        ("window", "/layer_types", json!(["sliding_attention"])),
        ("long", "/max_position_embeddings", json!(1u64 << 31)),
        ("labels", "/id2label", json!({"0": "a", "1": "b"})),
    ] {
        add("config.json", name, with(config_json(), pointer, value).to_string().as_bytes());
    }
    for (name, pointer, value) in [
        ("bert", "/post_processor", json!({"type": "BertProcessing", "sep": ["<|im_end|>", 9], "cls": ["a", 0]})),
        (
            "roberta",
            "/post_processor",
            json!({"type": "RobertaProcessing", "sep": ["<|im_end|>", 9], "cls": ["a", 0],
            "trim_offsets": true, "add_prefix_space": true}),
        ),
        (
            "split",
            "/pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "\\s+|."}, "behavior": "Isolated",
            "invert": false}),
        ),
        ("replace", "/normalizer", json!({"type": "Replace", "pattern": {"String": "a"}, "content": "b"})),
        ("wordlevel", "/model", json!({"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"})),
        (
            "unigram",
            "/model",
            json!({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0], ["b", -2.0]],
            "byte_fallback": false}),
        ),
        (
            "wordpiece",
            "/model",
            json!({"type": "WordPiece", "vocab": {"a": 0, "##b": 1}, "unk_token": "a",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}),
        ),
        (
            "truncates",
            "/truncation",
            json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst",
            "stride": 0}),
        ),
    ] {
        add("tokenizer.json", name, with(tokenizer_json(), pointer, value).to_string().as_bytes());
    }
    let llama = json!({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true, "bos_token": "<|im_start|>",
        "eos_token": {"content": "<|im_end|>"}, "model_max_length": 1e30});
    add("tokenizer_config.json", "llama", llama.to_string().as_bytes());
    add("1_Pooling/config.json", "newer", br#"{"pooling_mode": "cls", "include_prompt": false}"#);
    seeds
}

fn safetensors() -> Seeds {
    let file = |dtype| tensors_file(&tensors(), dtype);
    let mut classifier = tensors();
    classifier.push(("score.weight".to_owned(), vec![2, 8]));
    let mut wrong = tensors();
    wrong[3].1.reverse();
    let odd = [("a".to_owned(), vec![]), ("b.weight".to_owned(), vec![0, 7]), ("c".to_owned(), vec![1, 1, 1, 1])];
    let [float32, float16, bfloat16] = [Dtype::F32, Dtype::F16, Dtype::BF16].map(file);
    let cut = float16[..float16.len() - 1].to_vec();
    let huge = [&u64::MAX.to_le_bytes()[..], &float16[8..]].concat();
    assert_eq!(Some(&float32), base().get(WEIGHTS));
    [
        ("float32", float32),
        ("float16", float16),
        ("bfloat16", bfloat16),
        ("int8", file(Dtype::I8)),
        ("classifier", tensors_file(&classifier, Dtype::BF16)),
        ("wrong-shape", tensors_file(&wrong, Dtype::BF16)),
        ("odd-shapes", tensors_file(&odd, Dtype::F32)),
        ("cut", cut),
        ("huge-header", huge),
        ("empty", b"\x02\0\0\0\0\0\0\0{}".to_vec()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

fn pytorch() -> Seeds {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/pytorch");
    let read = |name: &str| std::fs::read(format!("{fixtures}/{name}.bin")).unwrap();
    ["archive", "older", "model"].map(|name| (name.to_owned(), read(name))).into()
}

fn radix() -> Seeds {
    let deep: Vec<u8> = (0..200u8).flat_map(|i| [0xf0, i, i.wrapping_mul(37), i % 16, i % 7]).collect();
    [
        ("two", vec![0, 1, 2, 3, 0xf8, 1, 2, 4]),
        ("prefixes", vec![7, 1, 2, 3, 4, 0xf0, 0, 2, 0xf0, 0, 3, 9, 0xf0, 1, 255, 5, 6]),
        ("positions", vec![3, 1, 2, 0xfc, 3, 0xf8, 1, 2, 3, 0xf0, 0, 3, 0xff, 3]),
        ("deep", deep),
        ("long", (0..255).cycle().take(1000).map(|i: u8| i % 0xf0).collect()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

fn recipe() -> Seeds {
    let builtin = RerankRecipe::names().map(|name| {
        let path = format!("{}/../../core/recipes/{name}.json", env!("CARGO_MANIFEST_DIR"));
        (name.to_owned(), std::fs::read(path).unwrap())
    });
    let small = [
        ("small", r#"{"positive": "1", "template": {"document": "{query}{document}"}}"#),
        ("twice", r#"{"positive": "1", "template": {"document": "{document}{query}{document}"}}"#),
        (
            "braces",
            r#"{"positive": "1", "template": {"before": ["{{query}}"], "document": "{instruction}{document}"}}"#,
        ),
    ];
    builtin.chain(small.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))).collect()
}
