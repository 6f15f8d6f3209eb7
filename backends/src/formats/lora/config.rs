//! `adapter_config.json` of peft.

use super::files::CONFIG;
use super::patterns::{Expressions, Pattern, Place};
use super::targets::{Layers, Targets};
use crate::error::LoadError;
use crate::json::{Fields, names_in_order, parse_json, shown};
use serde_json::Value;

/// Maximum rank of an adapter, and of its scale times the rank.
const MAX_RANK: usize = 1 << 14;
const MAX_ALPHA: f64 = 1e6;
/// Maximum patterns of a field.
const MAX_PATTERNS: usize = 2048;

/// Fields that change the computation in another way than LoRA; supported where they are absent, null, false or empty.
const OTHERS: [&str; 11] = [
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "megatron_config",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
];
/// Values of `task_type` of classifiers.
const CLASSIFIERS: [&str; 2] = ["SEQ_CLS", "TOKEN_CLS"];
/// Initialisations that leave the model's own weights as they are.
const INITIALISATIONS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// The adapter's settings.
#[derive(Debug)]
pub(crate) struct LoraConfig {
    pub(super) targets: Targets,
    rank: usize,
    alpha: f64,
    /// The scale is `alpha / sqrt(rank)` instead of `alpha / rank`.
    use_rslora: bool,
    /// Ranks and alphas of some modules; the first pattern that matches counts.
    ranks: Vec<(Pattern, usize)>,
    alphas: Vec<(Pattern, f64)>,
    /// The `B` of a layer has a bias.
    pub(super) lora_bias: bool,
    /// The adapter was trained with the head of a classifier.
    pub(super) has_classifier: bool,
}

impl LoraConfig {
    /// Reads the file.
    ///
    /// # Errors
    /// It is malformed, or asks for another change than LoRA.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, LoadError> {
        let json = parse_json(CONFIG, bytes)?;
        let fields = &Fields::new(CONFIG, &json)?;
        check(fields)?;
        // In the order of the file: the first that matches counts.
        let patterns = |name: &str| -> Result<Vec<(String, Value)>, LoadError> {
            let Some(object) = fields.object(name)? else { return Ok(vec![]) };
            limited(fields, name, object.entries().count())?;
            let value = |key: String| object.get(&key).cloned().map(|value| (key, value));
            Ok(names_in_order(CONFIG, bytes, name)?.into_iter().filter_map(value).collect())
        };
        let rank = |value: Option<usize>| match value {
            Some(rank @ 1..=MAX_RANK) => Ok(rank),
            other => Err(fields.problem("r", &format!("must be from 1 to {MAX_RANK}, it is {other:?}"))),
        };
        let alpha = |value: Option<f64>| match value {
            Some(alpha) if alpha.abs() <= MAX_ALPHA => Ok(alpha),
            other => Err(fields.problem("lora_alpha", &format!("must be at most {MAX_ALPHA}, it is {other:?}"))),
        };
        let all = &mut Expressions::new(fields);
        let mut ranks = Vec::new();
        for (key, value) in patterns("rank_pattern")? {
            ranks.push((all.pattern("rank_pattern", Place::End, &key)?, rank(value.as_u64().map(|it| it as usize))?));
        }
        let mut alphas = Vec::new();
        for (key, value) in patterns("alpha_pattern")? {
            alphas.push((all.pattern("alpha_pattern", Place::End, &key)?, alpha(value.as_f64())?));
        }
        Ok(Self {
            targets: Targets {
                modules: names(fields, all, "target_modules")?,
                excluded: names(fields, all, "exclude_modules")?,
                saved: list(fields, all, "modules_to_save")?,
                layers: layers(fields, all)?,
            },
            rank: rank(Some(fields.or("r", 8)?))?,
            alpha: alpha(Some(fields.or("lora_alpha", 8.0)?))?,
            use_rslora: fields.or("use_rslora", false)?,
            ranks,
            alphas,
            lora_bias: fields.or("lora_bias", false)?,
            has_classifier: matches!(fields.get("task_type"), Some(Value::String(task)) if CLASSIFIERS.contains(&&**task)),
        })
    }

    /// Rank and scale of an adapter that treats all linear layers alike and changes nothing else.
    ///
    /// # Errors
    /// It does not; the error names the field.
    pub(crate) fn uniform(&self) -> Result<(usize, f32), LoadError> {
        let Targets { excluded, saved, layers, .. } = &self.targets;
        let others = [
            ("rank_pattern", !self.ranks.is_empty()),
            ("alpha_pattern", !self.alphas.is_empty()),
            ("exclude_modules", excluded.is_some()),
            ("modules_to_save", !saved.is_empty()),
            ("layers_to_transform", layers.is_some()),
            ("lora_bias", self.lora_bias),
        ];
        match others.iter().find(|(_, is_used)| *is_used) {
            Some((field, _)) => {
                let supported =
                    "the same rank and scale in all linear layers, and nothing else, in the adapter of a task";
                Err(LoadError::unsupported(CONFIG, format!("`{field}`"), supported))
            }
            None => Ok(self.rank_and_scale(&[])),
        }
    }

    /// Time to compare one byte of a module's name with all patterns, relative to a plain comparison.
    pub(super) fn cost(&self) -> u64 {
        let patterns = self.ranks.iter().map(|(it, _)| it).chain(self.alphas.iter().map(|(it, _)| it));
        patterns.chain(self.targets.patterns()).map(Pattern::cost).sum()
    }

    /// Rank and scale of a module, by its names with and without the class's prefix.
    pub(super) fn rank_and_scale(&self, module: &[&str]) -> (usize, f32) {
        let rank = first(&self.ranks, module).unwrap_or(self.rank);
        let alpha = first(&self.alphas, module).unwrap_or(self.alpha);
        let divisor = if self.use_rslora { (rank as f64).sqrt() } else { rank as f64 };
        (rank, (alpha / divisor) as f32)
    }
}

/// The value of the first pattern that matches one of the names.
fn first<T: Copy>(patterns: &[(Pattern, T)], names: &[&str]) -> Option<T> {
    let matches = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
    patterns.iter().find(|(pattern, _)| matches(pattern)).map(|(_, value)| *value)
}

/// Refuses what is not LoRA.
fn check(fields: &Fields<'_>) -> Result<(), LoadError> {
    let kind: String = fields.or("peft_type", "LORA".to_owned())?;
    if kind != "LORA" {
        return Err(fields.unsupported(
            "peft_type",
            &shown(&kind.as_str().into()),
            "LORA; or the adapter merged into the weights",
        ));
    }
    let is_off = |value: &Value| match value {
        Value::Bool(value) => !value,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        other => other.is_null(),
    };
    for name in OTHERS {
        if let Some(value) = fields.get(name).filter(|value| !is_off(value)) {
            return Err(fields.unsupported(name, &shown(value), "plain LoRA; or the adapter merged into the weights"));
        }
    }
    if let Some(Value::String(name)) = fields.get("init_lora_weights")
        && !INITIALISATIONS.contains(&name.to_lowercase().as_str())
    {
        let supported = "true, false, gaussian, eva, orthogonal; others change the model's own weights; peft can convert the adapter to plain LoRA";
        return Err(fields.unsupported("init_lora_weights", &format!("\"{name}\""), supported));
    }
    match fields.or("bias", "none".to_owned())?.as_str() {
        "none" | "all" | "lora_only" => Ok(()),
        other => Err(fields.problem("bias", &format!("must be none, all or lora_only, it is \"{other}\""))),
    }
}

fn limited(fields: &Fields<'_>, name: &str, count: usize) -> Result<(), LoadError> {
    if count <= MAX_PATTERNS {
        return Ok(());
    }
    Err(fields.problem(name, &format!("has {count} entries, the limit is {MAX_PATTERNS}")))
}

/// Names of modules: a list of their ends, or a regular expression.
fn names(fields: &Fields<'_>, all: &mut Expressions<'_>, name: &str) -> Result<Option<Pattern>, LoadError> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::String(all)) if all.to_lowercase() == "all-linear" => Ok(Some(Pattern::All)),
        Some(Value::String(expression)) => all.pattern(name, Place::Whole, expression).map(Some),
        Some(_) => {
            let ends: Vec<String> = fields.required(name)?;
            limited(fields, name, ends.len()).map(|()| Some(Pattern::Ends(ends)))
        }
    }
}

/// The patterns of `modules_to_save`, each of which matches a module and what is inside it.
fn list(fields: &Fields<'_>, all: &mut Expressions<'_>, name: &str) -> Result<Vec<Pattern>, LoadError> {
    let names: Vec<String> = fields.or(name, vec![])?;
    limited(fields, name, names.len())?;
    names.iter().map(|it| all.pattern(name, Place::Inside, it)).collect()
}

/// The layers that the adapter changes; `None` for all.
fn layers(fields: &Fields<'_>, all: &mut Expressions<'_>) -> Result<Option<Layers>, LoadError> {
    const NAME: &str = "layers_to_transform";
    let numbers: Vec<usize> = match fields.get(NAME) {
        None => return Ok(None),
        Some(Value::Array(_)) => fields.required(NAME)?,
        Some(_) => vec![fields.required(NAME)?],
    };
    limited(fields, NAME, numbers.len())?;
    if numbers.is_empty() {
        return Ok(None);
    }
    const PATTERN: &str = "layers_pattern";
    let patterns: Vec<String> = match fields.get(PATTERN) {
        None => vec![],
        Some(Value::Array(_)) => fields.required(PATTERN)?,
        Some(_) => vec![fields.required(PATTERN)?],
    };
    limited(fields, PATTERN, patterns.len())?;
    let pattern = |pattern: &String| all.pattern(PATTERN, Place::Layer, pattern);
    let patterns = patterns.iter().filter(|it| !it.is_empty()).map(pattern).collect::<Result<_, _>>()?;
    Ok(Some(Layers { numbers, patterns }))
}
