//! Selection of modules by an adapter's config.

use super::LoraConfig;
use serde_json::{Value, json};

const Q: &str = "model.layers.3.self_attn.q_proj";

fn contains(config: Value, name: &str) -> bool {
    LoraConfig::read(config.to_string().as_bytes()).unwrap().targets.contain(&[name]).unwrap()
}

#[test]
fn modules_by_list_expression_and_layer() {
    let targets = |targets: Value| contains(json!({"target_modules": targets}), Q);
    assert!(targets(json!(["k_proj", "q_proj"])) && targets(json!(["self_attn.q_proj"])) && targets(json!([Q])));
    assert!(!targets(json!(["proj"])) && !targets(json!([])) && !targets(json!(null)));
    assert!(targets(json!(r".*\.(q|v)_proj")) && targets(json!("all-linear")) && targets(json!("ALL-linear")));
    assert!(!targets(json!("q_proj")), "an expression matches the whole name");
    // As Unsloth writes them: the expression looks ahead.
    assert!(targets(json!(r"^(?!.*vision)(?:.*?\.self_attn\.(?:q_proj|k_proj))$")));
    let layers = |numbers: Value, pattern: Value| {
        let config = json!({"target_modules": ["q_proj"], "layers_to_transform": numbers, "layers_pattern": pattern});
        contains(config, Q)
    };
    assert!(layers(json!([1, 3]), json!(null)) && layers(json!(3), json!("layers")) && layers(json!([]), json!(null)));
    assert!(!layers(json!([1]), json!(null)) && !layers(json!(3), json!(["h", "blocks"])));
    assert!(layers(json!(3), json!(["h", "layers"])));
    let ignores_layers = json!({"target_modules": ".*q_proj", "layers_to_transform": [1]});
    assert!(contains(ignores_layers, Q));
}

#[test]
fn excluded_and_replaced_modules_have_no_lora() {
    let with = |field: &str, value: Value| contains(json!({"target_modules": ["q_proj"], field: value}), Q);
    assert!(with("exclude_modules", json!(["v_proj"])) && !with("exclude_modules", json!(["q_proj"])));
    assert!(!with("exclude_modules", json!(r"model\.layers\.3\..*")));
    assert!(with("modules_to_save", json!(["score"])) && !with("modules_to_save", json!(["self_attn"])));
    assert!(with("modules_to_save", json!(["attn"])), "a name is a component");
}

#[test]
fn expressions_have_limits() {
    let read = |expression: &str| {
        let config = json!({"target_modules": expression});
        let config = LoraConfig::read(config.to_string().as_bytes());
        config.map_err(|error| error.to_string())
    };
    assert!(read("(").unwrap_err().contains("cannot be read"));
    assert!(read(&"x".repeat(5000)).unwrap_err().contains("5000 bytes"));
    assert!(read("(x{900}){900}").unwrap_err().contains("cannot be read"));
    let slow = read(r"(?:(?=(a+))a)*(?!.*c)(?:a|b|ab)*\1d").unwrap();
    let refused = slow.targets.contain(&["ab".repeat(2000).as_str()]).unwrap_err().to_string();
    assert!(refused.contains("cannot be matched"), "{refused}");
}

#[test]
fn plain_patterns_are_no_expressions() {
    let count = |config: Value| LoraConfig::read(config.to_string().as_bytes()).unwrap().expressions();
    let many: serde_json::Map<String, Value> = (0..2000).map(|i| (format!("layers.{i}.q_proj"), json!(2))).collect();
    assert_eq!(count(json!({"target_modules": ["q_proj"], "rank_pattern": many})), 0);
    assert_eq!(count(json!({"target_modules": ".*q", "alpha_pattern": {"^x": 1}, "modules_to_save": ["a"]})), 3);
    let config = json!({"target_modules": [], "rank_pattern": {"self_attn.q_proj": 3, "attn.k_proj": 5}});
    let config = LoraConfig::read(config.to_string().as_bytes()).unwrap();
    assert_eq!(config.rank_and_scale(&[Q]).unwrap().0, 3);
    assert_eq!(config.rank_and_scale(&["x.self_attn.k_proj"]).unwrap().0, 8, "an end begins after a dot");
    assert_eq!(config.rank_and_scale(&["x.attn_k_proj"]).unwrap().0, 5, "a dot is any character");
}
