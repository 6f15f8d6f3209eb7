//! Encoders: every unmodified file, and every family, pooling and head.

use super::{Seeds, with};
use prefold_fuzz::encoder::{DESCRIPTIONS, base, config_json, tokenizer_json};
use serde_json::{Value, json};

pub(super) fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    let mut add = |file: &str, name: &str, content: &[u8]| {
        let number = DESCRIPTIONS.iter().position(|known| *known == file).unwrap();
        seeds.push((format!("{}-{name}", file.replace('/', "-")), [&[number as u8], content].concat()));
    };
    for file in DESCRIPTIONS {
        add(file, "base", &base()[file]);
    }
    for name in ["roberta", "xlm-roberta", "camembert", "mpnet", "distilbert", "electra"] {
        add("config.json", name, family(name, "Model").to_string().as_bytes());
        add("config.json", &format!("{name}-head"), family(name, "ForSequenceClassification").to_string().as_bytes());
    }
    let classifier = with(config_json(), "/architectures", json!(["BertForSequenceClassification"]));
    let several = with(classifier.clone(), "/problem_type", json!("multi_label_classification"));
    let scored =
        with(classifier.clone(), "/sbert_ce_default_activation_function", json!("torch.nn.modules.linear.Identity"));
    let changed = |field: &str, value: Value| with(config_json(), field, value);
    for (name, config) in [
        ("bert-head", classifier),
        ("several", several),
        ("identity", scored),
        ("gelu_new", changed("/hidden_act", json!("gelu_new"))),
        ("relative", changed("/position_embedding_type", json!("relative_key"))),
        ("decoder", changed("/is_decoder", json!(true))),
    ] {
        add("config.json", name, config.to_string().as_bytes());
    }
    let template = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}});
    add("tokenizer.json", "template", with(tokenizer_json(), "/post_processor", template).to_string().as_bytes());
    add("vocab.txt", "crlf", b"[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n##a\r\n");
    add(
        "tokenizer_config.json",
        "inputs",
        br#"{"model_input_names": ["input_ids"], "strip_accents": false, "tokenize_chinese_chars": false}"#,
    );
    for mode in ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"] {
        add("1_Pooling/config.json", mode, json!({"pooling_mode": mode}).to_string().as_bytes());
    }
    let pooler = json!({"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
        "module_output_name": "sentence_embedding"});
    add("sentence_bert_config.json", "pooler", pooler.to_string().as_bytes());
    seeds
}

fn family(name: &str, class: &str) -> Value {
    let prefix = match name {
        "roberta" => "Roberta",
        "xlm-roberta" => "XLMRoberta",
        "camembert" => "Camembert",
        "mpnet" => "MPNet",
        "distilbert" => "DistilBert",
        _ => "Electra",
    };
    let config = with(config_json(), "/model_type", json!(name));
    with(config, "/architectures", json!([format!("{prefix}{class}")]))
}
