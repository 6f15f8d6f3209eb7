//! The feed-forward block of a family.

use super::convolutions;
use super::family::{Activations, Family, FfnGlu, Rule};
use super::settings::{Settings, first_of};
use crate::config::{ExpertsConfig, FeedForwardConfig};
use crate::error::LoadError;
use crate::json::Fields;
use prefold_kernels::Activation;

/// Reads the block.
///
/// # Errors
/// A setting is missing, malformed or not supported.
pub(super) fn read(settings: &impl Settings, family: &Family) -> Result<FeedForwardConfig, LoadError> {
    let fields = settings.json();
    let key = first_of(fields, family.keys.activation.json);
    let (ffn_glu, activation) = match family.ffn_glu {
        FfnGlu::Never => (false, one_of(fields, key, family.activations)?),
        FfnGlu::Always => (true, one_of(fields, key, family.activations)?),
        FfnGlu::ByName => match fields.or(key, "swiglu".to_owned())?.as_str() {
            "swiglu" | "silu" => (true, Activation::Silu),
            "geglu" => (true, Activation::Gelu),
            other => return Err(fields.unsupported(key, &format!("\"{other}\""), "swiglu, geglu")),
        },
        FfnGlu::ByPrefix(default) => by_prefix(fields, key, default)?,
    };
    let (layer, names) = (family.names.layer(0), &family.names);
    let bias = |rule: Rule, name: &str| settings.decide(rule, &format!("{layer}{name}.bias"));
    let (input, output) = (family.biases.feed_forward_input, family.biases.feed_forward_output);
    Ok(FeedForwardConfig {
        intermediate_size: match settings.required(&family.keys.intermediate_size)? {
            width if family.adjusts_intermediate_size => convolutions::adjusted(fields, width)?,
            width => width,
        },
        input_bias: bias(input, names.up)? || ffn_glu && bias(input, names.gate)?,
        output_bias: bias(output, names.down)?,
        ffn_glu,
        activation,
        experts: if family.experts { experts(fields)? } else { None },
    })
}

/// The gate and the activation of T5: `gated-` before the activation's name, overridden by the fields that its class derives from
/// the two and saves.
fn by_prefix(fields: &Fields<'_>, key: &str, default: &str) -> Result<(bool, Activation), LoadError> {
    const ACTIVATION: &str = "dense_act_fn";
    let named = fields.or(key, default.to_owned())?;
    let gated = named.strip_prefix("gated-");
    let own = match gated.unwrap_or(&named) {
        // T5 1.1's.
        "gelu" if gated.is_some() => "gelu_new",
        name => name,
    };
    let field = if fields.get(ACTIVATION).is_some() { ACTIVATION } else { key };
    let name = fields.or(ACTIVATION, own.to_owned())?;
    Ok((fields.or("is_gated_act", gated.is_some())?, by_name(fields, field, &name)?))
}

/// The activation that a field names, if the family has it.
fn one_of(fields: &Fields<'_>, field: &str, known: Activations) -> Result<Activation, LoadError> {
    match known {
        Activations::Any(default) => activation(fields, field, default),
        Activations::Only(name, only) if activation(fields, field, only)? != only => {
            let found: String = fields.or(field, String::new())?;
            Err(fields.unsupported(field, &format!("\"{found}\""), name))
        }
        Activations::Only(_, only) => Ok(only),
    }
}

/// The activation that a field names.
///
/// # Errors
/// It is not known.
pub(super) fn activation(fields: &Fields<'_>, field: &str, default: Activation) -> Result<Activation, LoadError> {
    let Some(name) = fields.optional::<String>(field)? else { return Ok(default) };
    by_name(fields, field, &name)
}

/// The activation of a name in a field.
fn by_name(fields: &Fields<'_>, field: &str, name: &str) -> Result<Activation, LoadError> {
    match name {
        "gelu" | "gelu_python" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_python_tanh" | "gelu_accurate" => {
            Ok(Activation::GeluTanh)
        }
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        _ => Err(fields.unsupported(field, &format!("\"{name}\""), "gelu, gelu_new, relu, silu")),
    }
}

/// The experts that the config names.
fn experts(fields: &Fields<'_>) -> Result<Option<ExpertsConfig>, LoadError> {
    let limits = [("num_experts", 1 << 10), ("moe_top_k", 1 << 6), ("moe_every_n_layers", 1 << 12)];
    let [num_experts, top_k, every_n_layers] = limits.map(|(name, limit)| match fields.or::<usize>(name, 0) {
        Ok(value) if value > limit => Err(fields.problem(name, &format!("must be at most {limit}, it is {value}"))),
        value => value,
    });
    let (num_experts, top_k, every_n_layers) = (num_experts?, top_k?, every_n_layers?);
    if num_experts == 0 || every_n_layers == 0 {
        return Ok(None);
    }
    match top_k {
        0 => Err(fields.problem("moe_top_k", "must be above 0")),
        _ if top_k > num_experts => {
            Err(fields.problem("moe_top_k", &format!("({top_k}) must be at most `num_experts` ({num_experts})")))
        }
        _ => Ok(Some(ExpertsConfig { num_experts, top_k, every_n_layers })),
    }
}
