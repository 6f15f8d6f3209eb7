//! Encoders in `config.json`.

use super::common::{self, FILE, activation, check_musts, first_of};
use super::encoder_families::{Bias, FAMILIES, Family, Gate, Mark, Positions, Rotary};
use super::{disentangled, rope, windows};
use crate::LoadError;
use crate::config::{
    AdapterTask, AdaptersConfig, AttentionConfig, ClassifierHead, DistanceBias, EmbeddingsConfig, ExpertsConfig,
    FeedForwardConfig, LearnedPositions, MaskConfig, NormConfig, NormKind, PositionsConfig, RelativeBuckets,
    TransformerConfig,
};
use crate::json::Fields;
use prefold_core::Pooling;
use prefold_kernels::Activation;
use serde_json::Value;

/// Adapters of a model at most, and rows of a first factor.
const MAX_ADAPTERS: usize = 64;
const MAX_RANK: usize = 1024;
/// Limit of an adapter's scale times its rank, far above any model.
const MAX_ALPHA: f64 = 65536.0;
/// Bytes of a task's name and of its instruction at most.
const MAX_TASK: usize = 128;
const MAX_INSTRUCTION: usize = 16 << 10;

/// MPNet's distance from which all distances are alike, which no config says.
const MAX_DISTANCE: usize = 128;

/// The family of a config with this `model_type`.
///
/// # Errors
/// `auto_map` is malformed.
pub(super) fn family(fields: &Fields<'_>, model_type: &str) -> Result<Option<&'static Family>, LoadError> {
    let class = code(fields)?;
    let is_meant = |family: &&Family| {
        family.model_type == model_type
            && match family.only_with {
                None => true,
                Some(Mark::Field(name, wanted)) => fields.get(name).and_then(Value::as_str) == Some(wanted),
                Some(Mark::Code(wanted)) => class.as_deref().map(class_name) == Some(wanted),
                Some(Mark::Repository(wanted)) => {
                    let origin = fields.get("_name_or_path").and_then(Value::as_str);
                    let of_class = class.as_deref().and_then(|class| class.split_once("--")).map(|(origin, _)| origin);
                    [origin, of_class].contains(&Some(wanted))
                }
            }
    };
    Ok(FAMILIES.iter().find(is_meant))
}

/// The `model_type` that a config without one has by the code that it names.
///
/// # Errors
/// `auto_map` is malformed.
pub(super) fn model_type_of_code(fields: &Fields<'_>) -> Result<Option<String>, LoadError> {
    let Some(code) = code(fields)? else { return Ok(None) };
    let is_meant = |family: &&Family| matches!(family.only_with, Some(Mark::Code(class)) if class == class_name(&code));
    Ok(FAMILIES.iter().find(is_meant).map(|family| family.model_type.to_owned()))
}

/// The class that `AutoConfig` is in `auto_map`: repository, module and name.
fn code(fields: &Fields<'_>) -> Result<Option<String>, LoadError> {
    Ok(fields.object("auto_map")?.map(|map| map.optional("AutoConfig")).transpose()?.flatten())
}

/// A class without its module.
fn class_name(code: &str) -> &str {
    code.rsplit('.').next().unwrap_or(code)
}

/// Reads the config of an encoder.
///
/// # Errors
/// One of its features is not supported; a field is missing, malformed or out of range.
pub(super) fn read(fields: &Fields<'_>, family: &Family) -> Result<TransformerConfig, LoadError> {
    common::refuse_unsupported(fields, family.own_code.then_some(family.prefix))?;
    refuse_adapters(fields)?;
    check_musts(fields, family.musts)?;
    let keys = family.keys;
    let required = |keys: &[&'static str]| fields.required(first_of(fields, keys));
    let (hidden_size, num_heads) = (required(keys.hidden_size)?, required(keys.num_heads)?);
    let num_layers = required(keys.num_layers)?;
    let (positions, max_position_embeddings) = positions(fields, family)?;
    let biases = &family.biases;
    let head_dim = head_dim(fields, family, hidden_size, num_heads)?;
    let config = TransformerConfig {
        model_type: family.model_type.to_owned(),
        vocab_size: fields.required("vocab_size")?,
        hidden_size,
        output_size: hidden_size,
        num_layers,
        norm: NormConfig {
            kind: if bias(fields, biases.norm)? { NormKind::Layer } else { NormKind::LayerUnbiased },
            placement: family.placement,
            first_attention: family.first_attention_norm,
            eps: fields.or(first_of(fields, keys.norm_eps), family.norm_eps)? as f32,
        },
        embeddings: EmbeddingsConfig {
            size: embedding_size(fields, family, hidden_size)?,
            token_types: match family.token_types {
                Some(default) => fields.or("type_vocab_size", default)?,
                None => 0,
            },
            norm: true,
            scale: 1.0,
        },
        attention: AttentionConfig {
            num_heads,
            num_kv_heads: num_heads,
            head_dim,
            qkv_bias: bias(fields, biases.qkv)?,
            output_bias: bias(fields, biases.attention_output)?,
            qk_norm: false,
            qk_width_norm: family.qk_width_norm,
            scale: match &positions {
                PositionsConfig::Disentangled(it) => Some(1.0 / ((head_dim * it.terms()) as f32).sqrt()),
                _ => None,
            },
            mask: MaskConfig::Full,
            distance_bias: distance_bias(fields, family)?,
        },
        feed_forward: feed_forward(fields, family)?,
        positions,
        sliding_windows: vec![],
        tie_word_embeddings: true,
        max_position_embeddings,
        names: family.names,
        classifier: classifier(fields, family)?,
        adapters: if family.adapters { adapters(fields)? } else { None },
    };
    config.validate(FILE)?;
    // Validated before, because this allocates by the number of layers.
    let sliding_windows = match family.local_attention {
        true => windows::local_attention(fields, num_layers)?,
        false => vec![None; num_layers],
    };
    Ok(TransformerConfig { sliding_windows, ..config })
}

/// Refuses adapters beside the weights.
fn refuse_adapters(fields: &Fields<'_>) -> Result<(), LoadError> {
    match fields.object("adapters")? {
        Some(_) => Err(fields.unsupported("adapters", "", "weights with the adapters merged into them")),
        None => Ok(()),
    }
}

/// The adapters that the config names, each with the instruction of its task.
fn adapters(fields: &Fields<'_>) -> Result<Option<AdaptersConfig>, LoadError> {
    const NAMES: &str = "lora_adaptations";
    let names: Vec<String> = fields.or(NAMES, vec![])?;
    if names.is_empty() {
        return Ok(None);
    }
    if names.len() > MAX_ADAPTERS {
        return Err(fields.problem(NAMES, &format!("has {} tasks, the limit is {MAX_ADAPTERS}", names.len())));
    }
    if let Some((index, name)) =
        (0..).zip(&names).find(|(index, name)| name.is_empty() || names[..*index].contains(name))
    {
        return Err(fields.problem(NAMES, &format!("has `{name}` as task {index}; a task needs a name of its own")));
    }
    let instructions = fields.object("task_instructions")?;
    let task = |name: String| {
        let instruction = instructions.as_ref().map(|it| it.or(&name, String::new())).transpose()?.unwrap_or_default();
        for (what, found, limit) in
            [("name", name.len(), MAX_TASK), ("instruction", instruction.len(), MAX_INSTRUCTION)]
        {
            if found > limit {
                return Err(
                    fields.problem(NAMES, &format!("has a task whose {what} has {found} bytes, the limit is {limit}"))
                );
            }
        }
        Ok(AdapterTask { name, instruction })
    };
    let tasks = names.into_iter().map(task).collect::<Result<_, _>>()?;
    let rank: usize = fields.required("lora_rank")?;
    if rank == 0 || rank > MAX_RANK {
        return Err(fields.problem("lora_rank", &format!("must be from 1 to {MAX_RANK}, it is {rank}")));
    }
    let alpha = fields.or("lora_alpha", 1.0)?;
    if !(0.0..=MAX_ALPHA).contains(&alpha) {
        return Err(fields.problem("lora_alpha", &format!("must be from 0 to {MAX_ALPHA}, it is {alpha}")));
    }
    Ok(Some(AdaptersConfig { tasks, rank, scale: (alpha / rank as f64) as f32 }))
}

fn bias(fields: &Fields<'_>, bias: Bias) -> Result<bool, LoadError> {
    match bias {
        Bias::Always => Ok(true),
        Bias::Never => Ok(false),
        Bias::Field(name, default) => fields.or(name, default),
    }
}

fn feed_forward(fields: &Fields<'_>, family: &Family) -> Result<FeedForwardConfig, LoadError> {
    let key = first_of(fields, family.keys.activation);
    let (gated, activation) = match family.gate {
        Gate::Never => (false, activation(fields, key, Activation::Gelu)?),
        Gate::Always => (true, activation(fields, key, Activation::Gelu)?),
        Gate::ByName => match fields.or(key, "swiglu".to_owned())?.as_str() {
            "swiglu" | "silu" => (true, Activation::Silu),
            "geglu" => (true, Activation::Gelu),
            other => return Err(fields.unsupported(key, &format!("\"{other}\""), "swiglu, geglu")),
        },
    };
    Ok(FeedForwardConfig {
        intermediate_size: fields.required(first_of(fields, family.keys.intermediate_size))?,
        input_bias: bias(fields, family.biases.feed_forward_input)?,
        output_bias: bias(fields, family.biases.feed_forward_output)?,
        gated,
        activation,
        experts: if family.experts { experts(fields)? } else { None },
    })
}

/// The experts that the config names.
fn experts(fields: &Fields<'_>) -> Result<Option<ExpertsConfig>, LoadError> {
    let limits = [("num_experts", 1 << 10), ("moe_top_k", 1 << 6), ("moe_every_n_layers", 1 << 12)];
    let [count, top, every] = limits.map(|(name, limit)| match fields.or::<usize>(name, 0) {
        Ok(value) if value > limit => Err(fields.problem(name, &format!("must be at most {limit}, it is {value}"))),
        value => value,
    });
    let (count, top, every) = (count?, top?, every?);
    if count == 0 || every == 0 {
        return Ok(None);
    }
    match top {
        0 => Err(fields.problem("moe_top_k", "must be above 0")),
        _ if top > count => {
            Err(fields.problem("moe_top_k", &format!("({top}) must be at most `num_experts` ({count})")))
        }
        _ => Ok(Some(ExpertsConfig { count, top, every })),
    }
}

/// The positions and the tokens of the longest input.
fn positions(fields: &Fields<'_>, family: &Family) -> Result<(PositionsConfig, usize), LoadError> {
    let key = first_of(fields, family.keys.max_positions);
    let rows: usize = fields.required(key)?;
    let padding_id = match family.positions {
        Positions::FromZero => None,
        Positions::AfterPadding => Some(fields.or("pad_token_id", 1)?),
        Positions::AfterOne => Some(1),
        Positions::Alibi => return Ok((PositionsConfig::Biases, rows)),
        Positions::Disentangled => return Ok((disentangled::read(fields, rows)?, rows)),
        Positions::Rotary(Rotary::OneBase { key, default, kinds }) => {
            let rope = rope::read(fields, rope::Base { key, default }, kinds)?;
            let longest = match family.scaled_beyond {
                Some((factor, trained)) if fields.get(factor).is_some() => rows.min(fields.or(trained, 2048)?),
                _ => rows,
            };
            return Ok((PositionsConfig::Rotary(rope.into()), longest));
        }
        Positions::Rotary(Rotary::TwoBases { full, windowed }) => {
            return Ok((PositionsConfig::Rotary(rope::read_two(fields, full, windowed)?), rows));
        }
    };
    let positions = LearnedPositions { rows, padding_id };
    match positions.max_input_length() {
        0 => {
            let problem = format!("is {}, which leaves no row for a token", positions.rows);
            Err(fields.problem(key, &problem))
        }
        longest => Ok((PositionsConfig::Learned(positions), longest)),
    }
}

/// The head of classifiers, with the pooling and the activation that the config says.
fn classifier(fields: &Fields<'_>, family: &Family) -> Result<ClassifierHead, LoadError> {
    let Some([key, activation_key]) = family.classifier_fields else { return Ok(family.classifier) };
    let activation = activation(fields, activation_key, Activation::Gelu)?;
    let pooling = match fields.or(key, "cls".to_owned())?.as_str() {
        "cls" => Pooling::Cls,
        "mean" => Pooling::Mean,
        other => return Err(fields.unsupported(key, &format!("\"{other}\""), "cls, mean")),
    };
    Ok(ClassifierHead { pooling, activation: Some(activation), ..family.classifier })
}

fn embedding_size(fields: &Fields<'_>, family: &Family, hidden_size: usize) -> Result<usize, LoadError> {
    const NAME: &str = "embedding_size";
    if !family.projected_embeddings {
        return Ok(hidden_size);
    }
    match fields.or(NAME, hidden_size)? {
        size if size <= hidden_size => Ok(size),
        size => Err(fields.unsupported(NAME, &size.to_string(), format!("up to `hidden_size`, {hidden_size}"))),
    }
}

fn head_dim(fields: &Fields<'_>, family: &Family, hidden_size: usize, num_heads: usize) -> Result<usize, LoadError> {
    if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
        let [size, heads] = [family.keys.hidden_size, family.keys.num_heads].map(|keys| first_of(fields, keys));
        let problem = format!("({hidden_size}) must be a multiple of `{heads}` ({num_heads})");
        return Err(fields.problem(size, &problem));
    }
    Ok(hidden_size / num_heads)
}

fn distance_bias(fields: &Fields<'_>, family: &Family) -> Result<Option<DistanceBias>, LoadError> {
    const NAME: &str = "relative_attention_num_buckets";
    if matches!(family.positions, Positions::Alibi) {
        return Ok(Some(DistanceBias::Alibi));
    }
    if !family.relative_bias {
        return Ok(None);
    }
    match fields.or(NAME, 32)? {
        buckets @ 4..=4096 if buckets % 4 == 0 => {
            Ok(Some(DistanceBias::Buckets(RelativeBuckets { buckets, max_distance: MAX_DISTANCE })))
        }
        buckets => Err(fields.problem(NAME, &format!("must be a multiple of 4 from 4 to 4096, it is {buckets}"))),
    }
}
