//! Metadata under the names that `config.json` has for them.

use super::classifier::CLASS_BIAS;
use super::file::{CLASS_ROWS, GgufFile};
use crate::config::MaskConfig;
use crate::config::poolings::flag;
use crate::error::LoadError;
use crate::formats::families::{BIDIRECTIONAL, Family, Windows};
use candle_core::quantized::gguf_file::Value;
use prefold_core::Pooling;
use serde_json::{Map, Value as Json, json};

const PATTERN: &str = "attention.sliding_window_pattern";

impl GgufFile {
    /// The fields of `config.json` with the file's settings, for those that no key or tensor name of its family covers.
    ///
    /// # Errors
    /// A value is malformed, or cannot be expressed.
    pub(super) fn fields(&self, family: &Family) -> Result<Json, LoadError> {
        let architecture = self.architecture()?;
        let key = |name: &str| format!("{architecture}.{name}");
        let mut fields = Map::new();
        if family.mask == MaskConfig::Causal && self.mask()? == MaskConfig::Full {
            let (field, value) = if family.bidirectional_field { (BIDIRECTIONAL, true) } else { ("is_causal", false) };
            fields.insert(field.to_owned(), json!(value));
        }
        match family.windows {
            Windows::Local => {
                self.windows(&mut fields, ["local_attention", "global_attn_every_n_layers"], 3)?;
            }
            Windows::Alternating => self.windows(&mut fields, ["sliding_window", "sliding_window_pattern"], 6)?,
            Windows::Never
            | Windows::AllLayers(_)
            | Windows::AllOrNone
            | Windows::SomeLayers
            | Windows::EverySecond => {}
        }
        if family.experts {
            let names = [
                ("num_experts", "expert_count"),
                ("moe_top_k", "expert_used_count"),
                ("moe_every_n_layers", "moe_every_n_layers"),
            ];
            for (name, gguf) in names {
                let value = self.usize(&key(gguf))?.ok_or_else(|| self.lacks(&key(gguf)))?;
                fields.insert(name.to_owned(), json!(value));
            }
        }
        for name in ["hidden_act", "hidden_activation"] {
            if let (Some(activation), [field, ..]) = (self.str(&key(name))?, family.keys.activation.json) {
                fields.insert((*field).to_owned(), json!(activation));
            }
        }
        self.head(&mut fields, family)?;
        self.scale(&mut fields, family, &key("attention.scale"))?;
        Ok(Json::Object(fields))
    }

    /// The window and the layers that have it, under these names. Without a window the pattern is 1: no layer has one.
    fn windows(
        &self,
        fields: &mut Map<String, Json>,
        [window_name, pattern_name]: [&str; 2],
        default: usize,
    ) -> Result<(), LoadError> {
        let architecture = self.architecture()?;
        let (size, pattern) = (format!("{architecture}.attention.sliding_window"), format!("{architecture}.{PATTERN}"));
        let Some(window) = self.usize(&size)?.filter(|&window| window > 0) else {
            fields.insert(pattern_name.to_owned(), json!(1));
            fields.insert(window_name.to_owned(), json!(1));
            return Ok(());
        };
        fields.insert(window_name.to_owned(), json!(window));
        let Some(Value::Array(layers)) = self.get(&pattern) else {
            let every = self.usize(&pattern)?.unwrap_or(default);
            if every == 0 {
                return Err(self.wrong(&pattern, "above 0"));
            }
            fields.insert(pattern_name.to_owned(), json!(every));
            return Ok(());
        };
        self.check_layers(&pattern, layers.len())?;
        let types = layers.iter().map(|slides| match slides {
            Value::Bool(true) => Ok("sliding_attention"),
            Value::Bool(false) => Ok("full_attention"),
            _ => Err(self.wrong(&pattern, "a number, or true or false for each layer")),
        });
        fields.insert("layer_types".to_owned(), types.collect::<Result<Vec<_>, _>>()?.into());
        Ok(())
    }

    /// Pooling and biases of a classifier's head, in families whose config has fields for them.
    fn head(&self, fields: &mut Map<String, Json>, family: &Family) -> Result<(), LoadError> {
        if !family.gguf.is_some_and(|gguf| gguf.classifier) {
            return Ok(());
        }
        let is_classifier = self.tensor(CLASS_ROWS).is_some();
        if is_classifier && family.classifier_pooling.is_none() && self.class_pooling()? == Some(Pooling::Mean) {
            let what = format!("`{}` 1", self.class_pooling_key()?);
            return Err(LoadError::unsupported(self.name(), what, "2 cls, the first token, before the head"));
        }
        if let Some(field) = family.classifier_bias {
            fields.insert(field.to_owned(), json!(self.tensor(CLASS_BIAS).is_some()));
        }
        if let Some(([field, ..], _)) = family.classifier_pooling {
            let pooling = self.class_pooling()?.unwrap_or(Pooling::Mean);
            fields.insert((*field).to_owned(), json!(flag(pooling)));
        }
        Ok(())
    }

    /// Checks the length of a list with an entry for each layer, before anything is made of its entries.
    fn check_layers(&self, key: &str, entries: usize) -> Result<(), LoadError> {
        let count = format!("{}.block_count", self.architecture()?);
        let layers = self.usize(&count)?.ok_or_else(|| self.lacks(&count))?;
        let tensors = self.tensor_names().count();
        let other = match entries {
            _ if entries != layers => format!("`{count}` is {layers}"),
            // Every layer has tensors, whose number the header limits.
            _ if entries > tensors => format!("the file has only {tensors} tensors"),
            _ => return Ok(()),
        };
        Err(LoadError::invalid(self.name(), format!("metadata `{key}` has {entries} entries, {other}")))
    }

    /// The factor on the scores, in families that name another than the root of the head's width.
    fn scale(&self, fields: &mut Map<String, Json>, family: &Family, key: &str) -> Result<(), LoadError> {
        let scale = self.f64(key)?;
        if let Some(scale) = scale.filter(|&scale| scale <= 0.0) {
            return Err(self.wrong(key, &format!("above 0, it is {scale}")));
        }
        match (family.query_pre_attn_scalar, scale) {
            (Some(name), Some(scale)) => {
                fields.insert(name.to_owned(), json!((scale * scale).recip()));
            }
            (Some(name), None) => {
                let width = format!("{}.attention.key_length", self.architecture()?);
                fields.insert(name.to_owned(), json!(self.usize(&width)?.ok_or_else(|| self.lacks(&width))?));
            }
            (None, Some(scale)) => {
                let supported = "the reciprocal of the root of the head's width";
                return Err(LoadError::unsupported(self.name(), format!("`{key}` {scale}"), supported));
            }
            (None, None) => {}
        }
        Ok(())
    }
}
