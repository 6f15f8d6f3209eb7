//! Selection of modules by an adapter's config.

use super::LoraConfig;
use serde_json::{Value, json};

const Q: &str = "model.layers.3.self_attn.q_proj";

fn contains(config: Value, name: &str) -> bool {
    LoraConfig::read(config.to_string().as_bytes()).unwrap().targets.contain(&[name])
}

#[test]
fn modules_by_list_expression_and_layer() {
    let targets = |targets: Value| contains(json!({"target_modules": targets}), Q);
    assert!(targets(json!(["k_proj", "q_proj"])) && targets(json!(["self_attn.q_proj"])) && targets(json!([Q])));
    assert!(!targets(json!(["proj"])) && !targets(json!([])) && !targets(json!(null)));
    assert!(targets(json!(r".*\.(q|v)_proj")) && targets(json!("all-linear")) && targets(json!("ALL-linear")));
    assert!(!targets(json!("q_proj")), "an expression matches the whole name");
    // As Unsloth writes them.
    let long = r"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|k_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|k_proj)))";
    assert!(targets(json!(long)));
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
    let read = |config: Value| LoraConfig::read(config.to_string().as_bytes()).map_err(|error| error.to_string());
    let refused = |expression: &str| read(json!({"target_modules": expression})).unwrap_err();
    for expression in [
        "(",
        "(x{900}){900}",
        "((?=.)){18446744073709551614}",
        "(?:(?=a)aaaaa){18446744073709551615}",
        r"^(?!.*vision).*q_proj",
        r"(a)\1",
    ] {
        let refused = refused(expression);
        assert!(refused.contains("`target_modules`") && refused.contains("cannot be compiled"), "{refused}");
    }
    assert!(refused("(?!x)y").contains("look-around"));
    assert!(refused(&"x".repeat(5000)).contains("5000 bytes"));
    // In the expression itself, whatever is put around it.
    let layers = |expression: &str| {
        let fields = json!({"target_modules": ["q"], "layers_to_transform": [1], "layers_pattern": expression});
        read(fields)
    };
    let whole = |expression: &str| read(json!({"target_modules": expression}));
    for read in [&whole as &dyn Fn(&str) -> Result<LoraConfig, String>, &layers] {
        assert!(read(&"(x)".repeat(16)).is_ok());
        assert!(read(&"(x)".repeat(17)).unwrap_err().contains("with 17 groups, the limit is 16"));
    }
    // In all fields together.
    let many = |n: usize, expression: &dyn Fn(usize) -> String| {
        let patterns: serde_json::Map<String, Value> = (0..n).map(|i| (expression(i), json!(2))).collect();
        read(json!({"target_modules": ".*q", "rank_pattern": patterns}))
    };
    assert!(many(31, &|i| format!("^x{i}")).is_ok());
    let refused = many(32, &|i| format!("^x{i}")).unwrap_err();
    assert!(refused.contains("too many regular expressions"), "{refused}");
    assert!(many(16, &|i| format!("^{}{i:02}", "x".repeat(4093))).unwrap_err().contains("too many regular"));
}

#[test]
fn numbers_and_lists_have_limits() {
    let read = |field: &str, value: Value| {
        let mut config = json!({"target_modules": ["q"], "layers_to_transform": [1]});
        config[field] = value;
        LoraConfig::read(config.to_string().as_bytes()).map(drop).map_err(|error| error.to_string())
    };
    read("r", json!(1 << 14)).unwrap();
    assert!(read("r", json!((1 << 14) + 1)).unwrap_err().contains("`r` must be from 1 to 16384"));
    read("lora_alpha", json!(-1e6)).unwrap();
    assert!(read("lora_alpha", json!(-1e6 - 1.0)).unwrap_err().contains("`lora_alpha` must be at most 1000000"));
    let numbers = |count: usize| json!((0..count).collect::<Vec<_>>());
    let names = |count: usize| json!((0..count).map(|i| format!("x{i}")).collect::<Vec<_>>());
    let object =
        |count: usize| (0..count).map(|i| (format!("x{i}"), json!(2))).collect::<serde_json::Map<_, _>>().into();
    for (field, of) in [
        ("target_modules", &names as &dyn Fn(usize) -> Value),
        ("exclude_modules", &names),
        ("modules_to_save", &names),
        ("layers_pattern", &names),
        ("layers_to_transform", &numbers),
        ("rank_pattern", &object),
        ("alpha_pattern", &object),
    ] {
        read(field, of(2048)).unwrap();
        let refused = read(field, of(2049)).unwrap_err();
        assert!(refused.contains(&format!("`{field}` has 2049 entries, the limit is 2048")), "{refused}");
    }
}

#[test]
fn plain_patterns_are_no_expressions() {
    let cost = |config: Value| LoraConfig::read(config.to_string().as_bytes()).unwrap().cost();
    let many: serde_json::Map<String, Value> = (0..2000).map(|i| (format!("layers.{i}.q_proj"), json!(2))).collect();
    assert_eq!(cost(json!({"target_modules": ["q_proj"], "rank_pattern": many})), 2001);
    assert_eq!(cost(json!({"target_modules": ".*q", "alpha_pattern": {"^x": 1}, "modules_to_save": ["a"]})), 2049);
    assert!(cost(json!({"target_modules": "(x{2000})"})) > 1024, "a large expression counts more");
    let config = json!({"target_modules": [], "rank_pattern": {"self_attn.q_proj": 3, "attn.k_proj": 5}});
    let config = LoraConfig::read(config.to_string().as_bytes()).unwrap();
    assert_eq!(config.rank_and_scale(&[Q]).0, 3);
    assert_eq!(config.rank_and_scale(&["x.self_attn.k_proj"]).0, 8, "an end begins after a dot");
    assert_eq!(config.rank_and_scale(&["x.attn_k_proj"]).0, 5, "a dot is any character");
}

/// A plain pattern finds what its expression finds.
#[test]
fn plain_patterns_are_like_their_expressions() {
    for plain in ["q_proj", "self_attn", "model", "attn.q_proj", "layers", "x", "model.layers", "self.attn", "3", "é"]
    {
        for name in [Q, "q_proj", "layers.4.x", "a.layers.x.layers.5.y", "model", "é.3.q_proj", ""] {
            let both = |make: &dyn Fn(&str) -> Value| {
                let [plain, expression] =
                    [plain.to_owned(), format!("{plain}{{1}}")].map(|it| contains(make(&it), name));
                assert_eq!(plain, expression, "{} in {name}", make("..."));
            };
            both(&|it| json!({"target_modules": it}));
            both(&|it| json!({"target_modules": "all-linear", "modules_to_save": [it]}));
            let ends = ["q_proj", "x", "y"];
            both(&|it| json!({"target_modules": ends, "layers_to_transform": [3, 4, 5], "layers_pattern": it}));
        }
    }
}
