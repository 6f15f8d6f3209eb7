//! Rotary positions: bases, scalings in both spellings, and the fields of each kind.

use super::*;
use crate::config::{PositionsConfig, RopeScaling, RotaryConfig, Yarn};

fn rotary(config: &TransformerConfig) -> &RotaryConfig {
    match &config.positions {
        PositionsConfig::Rotary(rotary) => rotary,
        _ => panic!("no rotary positions"),
    }
}

fn base(config: &TransformerConfig) -> Value {
    json!(rotary(config).full.theta)
}

fn windowed_base(config: &TransformerConfig) -> Value {
    json!(rotary(config).windowed.theta)
}

/// The scaling of the layers without a window: its kind, and its numbers in the order of their definition.
fn scaling(config: &TransformerConfig) -> Value {
    match rotary(config).full.scaling {
        RopeScaling::None => json!("none"),
        RopeScaling::Linear { factor } => json!(["linear", factor]),
        RopeScaling::Ntk { factor } => json!(["ntk", factor]),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor: low,
            high_freq_factor: high,
            original_max_position_embeddings: original,
        } => {
            json!(["llama3", factor, low, high, original])
        }
        RopeScaling::Yarn(yarn) => {
            let Yarn {
                factor,
                attention_factor,
                beta_fast,
                beta_slow,
                original_max_position_embeddings: original,
                truncate,
            } = yarn;
            json!(["yarn", factor, attention_factor, beta_fast, beta_slow, original, truncate])
        }
        RopeScaling::Factors(_) => json!("factors"),
    }
}

/// The factor on scores, relative to the default factor for the width of a head.
fn score_factor(config: &TransformerConfig) -> Value {
    let root = (config.attention.head_dim as f32).sqrt();
    json!(config.attention.scale.map(|scale| scale * root))
}

/// `1 + 0.1 ln(factor)`, of the paper on YaRN, where a factor on it is 1.
fn mscale(of: f64, factor: f64) -> f64 {
    0.1 * of * factor.ln() + 1.0
}

const BASES: [f64; 5] = [100.0, 5000.0, 25_000.0, 500_000.0, 1e7];

/// Decoders with all kinds of scaling. Ministral 3 has its own parameters in addition.
const SCALED: [&[&str]; 7] = [LLAMA, EUROBERT, QWEN3, QWEN2, &["mistral-tiny"], GEMMA2, LFM2];

pub(super) fn cases() -> Vec<Case> {
    [base_cases(), two_base_cases(), kind_cases(), field_cases(), growth_cases()].into_iter().flatten().collect()
}

fn base_cases() -> Vec<Case> {
    let plain = json!({"rope_scaling": null, "rope_parameters": null});
    let newer: Vec<Value> =
        BASES.iter().map(|base| json!([{"rope_theta": base, "rope_type": "default"}, base])).collect();
    let older: Vec<Value> = BASES.iter().map(|base| json!([{"rope_theta": base, "type": "default"}, base])).collect();
    let with_defaults: &[&[&str]] = &[LLAMA, EUROBERT, GEMMA2, &["gte-base-tiny"]];
    let required: &[&[&str]] = &[QWEN3, QWEN2, &["mistral-tiny"]];
    let of_code: &[&[&str]] = &[NOMIC, &["jina-v3-tiny"]];
    let all = [SCALED.concat(), NEW.to_vec(), of_code.concat()].concat();
    vec![
        same(&[&SCALED.concat(), NEW], "rope_theta", plain.clone(), json!(BASES), base),
        gives(
            with_defaults,
            "rope_theta",
            plain.clone(),
            json!([[null, 10_000.0], [0.0, REFUSED], [-1.0, REFUSED]]),
            base,
        ),
        gives(required, "rope_theta", plain.clone(), json!([[null, REFUSED]]), base),
        gives(&[LFM2], "rope_theta", plain.clone(), json!([[null, 1e6]]), base),
        gives(&[&["gte"]], "rope_theta", plain.clone(), json!([[null, 160_000.0]]), base),
        same(of_code, "rotary_emb_base", plain.clone(), json!(BASES), base),
        gives(of_code, "rotary_emb_base", plain.clone(), json!([[null, 10_000.0]]), base),
        gives(&[NOMIC], "rotary_emb_base", and(&plain, json!({"auto_map": null})), json!([[null, 1_000.0]]), base),
        same(of_code, "rope_theta", and(&plain, json!({"rotary_emb_base": null})), json!(BASES), base),
        gives(
            of_code,
            "rope_theta",
            and(&plain, json!({"rotary_emb_base": 5.0})),
            json!([[5.0, 5.0], [6.0, REFUSED]]),
            base,
        ),
        gives(&[&all], "rope_parameters", plain.clone(), json!(newer), base),
        gives(&[&all], "rope_scaling", plain, json!(older), base),
        same(&[&["ministral3-tiny"]], "rope_parameters.rope_theta", json!({"rope_theta": 3.0}), json!(BASES), base),
        gives(
            &[&["ministral3-tiny"]],
            "rope_parameters.rope_theta",
            json!({"rope_theta": 3.0}),
            json!([[null, 3.0]]),
            base,
        ),
        same(&[&["ministral3-tiny"]], "rope_theta", ministral(json!({})), json!(BASES), base),
    ]
}

/// The parameters of Ministral 3 without a base, in the older spelling, with further fields.
fn ministral(changes: Value) -> Value {
    let plain = json!({"rope_type": "yarn", "factor": 4.0, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 16});
    json!({"rope_parameters": null, "rope_theta": 10_000.0, "max_position_embeddings": 512, "rope_scaling": and(&plain, changes)})
}

fn two_base_cases() -> Vec<Case> {
    let plain = json!({"rope_scaling": null, "rope_parameters": null});
    let of = |layers: &str| -> Value {
        json!(
            BASES
                .iter()
                .map(|base| json!([{layers: {"rope_theta": base, "rope_type": "default"}}, base]))
                .collect::<Vec<_>>()
        )
    };
    let default = |base: f64| json!([[null, base]]);
    let older: Vec<Value> = BASES.iter().map(|base| json!([{"rope_theta": base, "type": "default"}, base])).collect();
    // transformers applies it to layers without a window alone.
    let of_full: Vec<Value> = older.iter().map(|case| json!([case[0], 10_000.0])).collect();
    let both: &[&[&str]] = &[GEMMA3, MODERNBERT];
    vec![
        same(&[GEMMA3], "rope_theta", plain.clone(), json!(BASES), base),
        gives(&[GEMMA3], "rope_theta", plain.clone(), default(1e6), base),
        same(&[GEMMA3], "rope_local_base_freq", plain.clone(), json!(BASES), windowed_base),
        gives(&[GEMMA3], "rope_local_base_freq", plain.clone(), default(10_000.0), windowed_base),
        same(&[MODERNBERT], "global_rope_theta", plain.clone(), json!(BASES), base),
        gives(&[MODERNBERT], "global_rope_theta", plain.clone(), default(160_000.0), base),
        same(&[MODERNBERT], "local_rope_theta", plain.clone(), json!(BASES), windowed_base),
        gives(&[MODERNBERT], "local_rope_theta", plain.clone(), default(10_000.0), windowed_base),
        gives(both, "rope_parameters", plain.clone(), of("full_attention"), base),
        gives(both, "rope_parameters", plain.clone(), of("sliding_attention"), windowed_base),
        gives(both, "rope_scaling", plain.clone(), json!(older), base),
        gives(&[MODERNBERT], "rope_scaling", plain.clone(), json!(older), windowed_base),
        gives(&[GEMMA3], "rope_scaling", plain.clone(), json!(of_full), windowed_base),
        gives(&[GEMMA3, MODERNBERT, NOMIC, &["jina-v3-tiny"]], "rope_scaling", plain.clone(), unscaled(), base),
        gives(&[NOMIC, &["jina-v3-tiny"]], "rope_parameters", plain, unscaled(), base),
    ]
}

/// Kinds that families without scaling refuse, even without the fields of the kind.
fn unscaled() -> Value {
    json!([[{"rope_type": "linear", "factor": 2.0}, REFUSED], [{"rope_type": "dynamic"}, REFUSED], [{"type": "yarn"}, REFUSED],
        [{"rope_type": "llama3"}, REFUSED], [{"type": "ntk"}, REFUSED]])
}

/// Each kind, in each spelling of the object.
fn kind_cases() -> Vec<Case> {
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64});
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    let kinds = json!([
        [{"rope_type": "linear", "factor": 2.5}, ["linear", 2.5]],
        [llama3, ["llama3", 8.0, 1.0, 4.0, 64]],
        [yarn, ["yarn", 4.0, mscale(1.0, 4.0), 32.0, 1.0, 64, true]],
        [{"rope_type": "dynamic", "factor": 2.0}, "none"],
        [{"rope_type": "default"}, "none"],
        [{"type": "linear", "factor": 4.0}, ["linear", 4.0]],
        [{"rope_type": "longrope", "factor": 4.0}, REFUSED],
        [null, "none"],
    ]);
    let ntk = json!([
        [{"type": "ntk", "factor": 1.5}, ["ntk", 1.5]],
        [{"type": "ntk", "factor": 2.0}, ["ntk", 2.0]],
        [{"type": "ntk", "factor": 4.0}, ["ntk", 4.0]],
        [{"rope_type": "ntk", "factor": 8.0}, ["ntk", 8.0]],
        [{"type": "ntk", "factor": 16.0}, ["ntk", 16.0]],
        [{"type": "ntk", "factor": 2.0, "mixed_b": 0.1}, REFUSED],
        [null, "none"],
    ]);
    let plain = json!({"rope_scaling": null, "rope_parameters": null, "rope_theta": 10_000.0,
        "original_max_position_embeddings": null});
    // The name of the kind is in the object, which the message names.
    let (older, newer) = ("rope_scaling", "rope_parameters");
    vec![
        gives(&SCALED, older, plain.clone(), kinds.clone(), scaling),
        gives(&SCALED, newer, plain.clone(), kinds, scaling),
        gives(&[NEW], older, plain.clone(), ntk.clone(), scaling),
        gives(&[NEW], newer, plain, ntk, scaling),
    ]
}

/// The fields of each kind.
fn field_cases() -> Vec<Case> {
    let within = |object: Value| {
        json!({"rope_parameters": null, "rope_scaling": object, "rope_theta": 10_000.0, "original_max_position_embeddings": null,
            "max_position_embeddings": 512})
    };
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64});
    let lengthless = and(&llama3, json!({"original_max_position_embeddings": null}));
    let plain = json!({"rope_type": "yarn", "factor": 4.0});
    let yarn = and(&plain, json!({"original_max_position_embeddings": 64}));
    let outside = "original_max_position_embeddings";
    let mscales = json!({"rope_type": "yarn", "factor": 4.0, "mscale": 0.5, "mscale_all_dim": 0.25});
    let all_dims = |of: f64| mscale(0.5, 4.0) / mscale(of, 4.0);
    let ones = |of: f64| mscale(of, 4.0) / mscale(0.25, 4.0);
    let squared = |values: [f64; 5]| json!(values.iter().map(|it| json!([it, it * it])).collect::<Vec<_>>());
    let attention: fn(&TransformerConfig) -> Value = |it| scaling(it)[2].clone();
    let factor: fn(&TransformerConfig) -> Value = |it| scaling(it)[1].clone();
    let lengths = json!([16, 32, 64, 128, 4096]);
    let of_all = |field, object: &Value, values, reading| same(&SCALED, field, within(object.clone()), values, reading);
    vec![
        of_all("rope_scaling.factor", &json!({"rope_type": "linear"}), json!([0.5, 1.5, 2.0, 8.0, 40.0]), factor),
        of_all("rope_scaling.factor", &llama3, json!([1.5, 2.0, 8.0, 16.0, 32.0]), factor),
        of_all("rope_scaling.low_freq_factor", &llama3, json!([0.5, 1.0, 1.5, 2.0, 3.9]), |it| scaling(it)[2].clone()),
        of_all("rope_scaling.high_freq_factor", &llama3, json!([1.5, 2.0, 4.0, 8.0, 32.0]), |it| {
            scaling(it)[3].clone()
        }),
        of_all("rope_scaling.original_max_position_embeddings", &llama3, lengths.clone(), |it| scaling(it)[4].clone()),
        of_all("max_position_embeddings", &lengthless, lengths.clone(), |it| scaling(it)[4].clone()),
        of_all(outside, &lengthless, lengths.clone(), |it| scaling(it)[4].clone()),
        // Outside of the object it has priority.
        of_all(outside, &llama3, lengths.clone(), |it| scaling(it)[4].clone()),
        of_all(outside, &yarn, lengths.clone(), |it| scaling(it)[5].clone()),
        of_all("rope_scaling.factor", &yarn, json!([1.5, 2.0, 4.0, 16.0, 40.0]), factor),
        of_all("rope_scaling.beta_fast", &yarn, json!([2.0, 8.0, 16.0, 32.0, 64.0]), |it| scaling(it)[3].clone()),
        of_all("rope_scaling.beta_slow", &yarn, json!([0.5, 1.0, 2.0, 4.0, 31.0]), |it| scaling(it)[4].clone()),
        of_all("rope_scaling.original_max_position_embeddings", &yarn, lengths.clone(), |it| scaling(it)[5].clone()),
        of_all("max_position_embeddings", &plain, lengths, |it| scaling(it)[5].clone()),
        of_all("rope_scaling.attention_factor", &yarn, json!([0.5, 1.0, 1.25, 2.0, 3.0]), attention),
        gives(
            &SCALED,
            "rope_scaling.truncate",
            within(yarn.clone()),
            json!([[true, true], [false, false], [null, true]]),
            |it| scaling(it)[6].clone(),
        ),
        gives(
            &SCALED,
            "rope_scaling.mscale",
            within(mscales.clone()),
            json!([
                [0.5, ones(0.5)],
                [0.707, ones(0.707)],
                [1.0, ones(1.0)],
                [2.0, ones(2.0)],
                [0.0, mscale(1.0, 4.0)],
                [null, mscale(1.0, 4.0)]
            ]),
            attention,
        ),
        gives(
            &SCALED,
            "rope_scaling.mscale_all_dim",
            within(mscales),
            json!([
                [0.5, all_dims(0.5)],
                [0.707, all_dims(0.707)],
                [1.0, all_dims(1.0)],
                [2.0, all_dims(2.0)],
                [0.0, mscale(1.0, 4.0)],
                [null, mscale(1.0, 4.0)]
            ]),
            attention,
        ),
        // Without a factor it is the ratio of the two lengths.
        gives(
            &SCALED,
            "max_position_embeddings",
            within(json!({"rope_type": "yarn", "original_max_position_embeddings": 64})),
            json!([[128, 2.0], [256, 4.0], [640, 10.0], [1024, 16.0], [2560, 40.0]]),
            factor,
        ),
        gives(
            &[LLAMA, EUROBERT, QWEN3, QWEN2, &["mistral-tiny"]],
            "rope_scaling.attention_factor",
            within(yarn),
            squared([0.5, 1.25, 1.5, 2.0, 3.0]),
            score_factor,
        ),
    ]
}

fn growth_cases() -> Vec<Case> {
    let model: &[&[&str]] = &[&["ministral3-tiny"]];
    let growth: fn(&TransformerConfig) -> Value =
        |it| json!(rotary(it).query_growth.map(|it| [it.beta, it.every as f64]));
    let every = json!([
        [1, [0.5, 1.0]],
        [16, [0.5, 16.0]],
        [64, [0.5, 64.0]],
        [8192, [0.5, 8192.0]],
        [16_384, [0.5, 16_384.0]],
        [0, REFUSED],
        [null, REFUSED]
    ]);
    let beta = json!([
        [0.0, [0.0, 16.0]],
        [0.1, [0.1, 16.0]],
        [0.5, [0.5, 16.0]],
        [1.0, [1.0, 16.0]],
        [10.0, [10.0, 16.0]],
        [-1.0, REFUSED],
        [null, REFUSED]
    ]);
    vec![
        same(model, "rope_scaling.factor", ministral(json!({})), json!([1.5, 2.0, 4.0, 16.0, 40.0]), |it| {
            scaling(it)[1].clone()
        }),
        same(model, "rope_scaling.attention_factor", ministral(json!({})), json!([0.5, 1.0, 1.25, 2.0, 3.0]), |it| {
            scaling(it)[2].clone()
        }),
        same(model, "rope_scaling.beta_fast", ministral(json!({})), json!([2.0, 8.0, 16.0, 32.0, 64.0]), |it| {
            scaling(it)[3].clone()
        }),
        same(model, "rope_scaling.beta_slow", ministral(json!({})), json!([0.5, 1.0, 2.0, 4.0, 31.0]), |it| {
            scaling(it)[4].clone()
        }),
        gives(model, "rope_parameters.llama_4_scaling_beta", json!({}), beta.clone(), growth),
        gives(model, "rope_scaling.llama_4_scaling_beta", ministral(json!({})), beta, growth),
        gives(model, "rope_parameters.original_max_position_embeddings", json!({}), every.clone(), growth),
        gives(model, "rope_scaling.original_max_position_embeddings", ministral(json!({})), every, growth),
        same(model, "original_max_position_embeddings", ministral(json!({})), json!([16, 32, 64, 128, 4096]), |it| {
            scaling(it)[5].clone()
        }),
        same(model, "original_max_position_embeddings", ministral(json!({})), json!([16, 32, 64, 128, 4096]), |it| {
            json!(rotary(it).query_growth.map_or(0, |it| it.every))
        }),
    ]
}
