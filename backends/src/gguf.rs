//! GGUF files: metadata, config and tensors.

use crate::LoadError;
use crate::model::config::{DecoderConfig, RopeConfig, RopeScaling};
use crate::model::weights::{Element, FileBytes, check_shape, decode_bf16, decode_f16, decode_f32};
use candle_core::CpuStorage;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value};
use half::bf16;
use prefold_core::Pooling;
use rayon::prelude::*;
use std::borrow::Cow;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Architectures (`general.architecture`) that are read. Mistral's files say `llama`.
const ARCHITECTURES: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// Parts of a layer: GGUF's name and Hugging Face's.
const LAYER_PARTS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Tensors outside the layers: GGUF's name and Hugging Face's.
const WHOLE_PARTS: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// Tensors without a Hugging Face name: RoPE divisors, read into the config, and the copied head rows of a
/// reranker, which are computed from the embeddings instead.
const OTHER_PARTS: [&str; 2] = ["rope_freqs.weight", "cls.output.weight"];

/// An open GGUF file.
pub(crate) struct GgufFile {
    name: String,
    bytes: FileBytes,
    content: Content,
}

impl std::fmt::Debug for GgufFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GgufFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl GgufFile {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, its header is malformed, or a tensor's type or place is impossible.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.display().to_string());
        let bytes = FileBytes::map(path)?;
        // The reader rounds up to a multiple of `general.alignment` without looking at it first, and panics at 0.
        let read = catch_unwind(AssertUnwindSafe(|| Content::read(&mut Cursor::new(&*bytes))));
        let content = match read {
            Ok(Ok(content)) => content,
            Ok(Err(error)) => {
                return Err(LoadError::invalid(name, format!("not a GGUF file that can be read: {error}")));
            }
            Err(_) => return Err(LoadError::invalid(name, "not a GGUF file that can be read: malformed header")),
        };
        let file = Self { name, bytes, content };
        for (name, info) in &file.content.tensor_infos {
            file.tensor_bytes(name, info)?;
        }
        Ok(file)
    }

    /// The file's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A value of the metadata.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.content.metadata.get(key)
    }

    /// A whole number, whatever its width.
    ///
    /// # Errors
    /// The value is something else.
    pub(crate) fn usize(&self, key: &str) -> Result<Option<usize>, LoadError> {
        let wide: i128 = match self.get(key) {
            None => return Ok(None),
            Some(&Value::U8(v)) => v.into(),
            Some(&Value::I8(v)) => v.into(),
            Some(&Value::U16(v)) => v.into(),
            Some(&Value::I16(v)) => v.into(),
            Some(&Value::U32(v)) => v.into(),
            Some(&Value::I32(v)) => v.into(),
            Some(&Value::U64(v)) => v.into(),
            Some(&Value::I64(v)) => v.into(),
            Some(_) => return Err(self.wrong(key, "a whole number")),
        };
        usize::try_from(wide).map(Some).map_err(|_| self.wrong(key, "a whole number from 0 up"))
    }

    /// A number.
    ///
    /// # Errors
    /// The value is something else.
    pub(crate) fn f64(&self, key: &str) -> Result<Option<f64>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::F32(v)) if v.is_finite() => Ok(Some(v.into())),
            Some(&Value::F64(v)) if v.is_finite() => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "a finite number")),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// The value is something else.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Bool(v)) => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// The value is something else.
    pub(crate) fn str(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(v)) => Ok(Some(v)),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// An error about a value of the wrong type.
    pub(crate) fn wrong(&self, key: &str, what: &str) -> LoadError {
        LoadError::invalid(&self.name, format!("metadata `{key}` must be {what}"))
    }

    /// An error about a value that is not there.
    pub(crate) fn lacks(&self, key: &str) -> LoadError {
        LoadError::invalid(&self.name, format!("metadata `{key}` is missing"))
    }

    /// `general.architecture`, if it is one of those supported.
    ///
    /// # Errors
    /// It is missing or not supported.
    pub(crate) fn architecture(&self) -> Result<&str, LoadError> {
        let key = "general.architecture";
        let architecture = self.str(key)?.ok_or_else(|| self.lacks(key))?;
        match ARCHITECTURES.contains(&architecture) {
            true => Ok(architecture),
            false => {
                let what = format!("`{key}` \"{architecture}\"");
                Err(LoadError::unsupported(&self.name, what, ARCHITECTURES.join(", ")))
            }
        }
    }

    /// The pooling that the file asks for, if it asks for any that an embedding model has.
    ///
    /// # Errors
    /// The type of pooling is not known.
    pub(crate) fn pooling(&self) -> Result<Option<Pooling>, LoadError> {
        let key = format!("{}.pooling_type", self.architecture()?);
        match self.usize(&key)? {
            // 0 is none; 4 is a reranker's, whose scores are taken from the language model's head.
            None | Some(0 | 4) => Ok(None),
            Some(1) => Ok(Some(Pooling::Mean)),
            Some(2) => Ok(Some(Pooling::Cls)),
            Some(3) => Ok(Some(Pooling::LastToken)),
            Some(other) => Err(LoadError::unsupported(&self.name, format!("`{key}` {other}"), "1 mean, 2 cls, 3 last")),
        }
    }

    fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.content.tensor_infos.get(name)
    }

    /// The decoder's config.
    ///
    /// # Errors
    /// A value is missing or malformed, or the file asks for something that is not supported.
    pub(crate) fn config(&self) -> Result<DecoderConfig, LoadError> {
        let architecture = self.architecture()?;
        self.refuse_unsupported(architecture)?;
        let key = |name: &str| format!("{architecture}.{name}");
        let required = |name: &str| self.usize(&key(name))?.ok_or_else(|| self.lacks(&key(name)));

        let num_heads = required("attention.head_count")?;
        let hidden_size = required("embedding_length")?;
        let head_dim = match self.usize(&key("attention.key_length"))? {
            Some(head_dim) => head_dim,
            None => hidden_size.checked_div(num_heads).unwrap_or(0),
        };
        let eps = key("attention.layer_norm_rms_epsilon");
        let num_layers = required("block_count")?;
        let config = DecoderConfig {
            model_type: architecture.to_owned(),
            vocab_size: self.vocab_size()?,
            hidden_size,
            intermediate_size: required("feed_forward_length")?,
            num_layers,
            num_heads,
            num_kv_heads: self.usize(&key("attention.head_count_kv"))?.unwrap_or(num_heads),
            head_dim,
            rms_norm_eps: self.f64(&eps)?.ok_or_else(|| self.lacks(&eps))? as f32,
            rope: self.rope(architecture, head_dim)?,
            qkv_bias: self.tensor("blk.0.attn_q.bias").is_some(),
            o_bias: self.tensor("blk.0.attn_output.bias").is_some(),
            mlp_bias: self.tensor("blk.0.ffn_gate.bias").is_some(),
            qk_norm: self.tensor("blk.0.attn_q_norm.weight").is_some(),
            sliding_windows: vec![],
            tie_word_embeddings: self.tensor("output.weight").is_none(),
            max_position_embeddings: required("context_length")?,
        };
        config.validate(&self.name)?;
        // A bias or norm is looked for in the first layer; no other layer may have what the first lacks.
        for (name, part) in self.content.tensor_infos.keys().filter_map(|name| Some((name, layer_part(name)?))) {
            if self.tensor(&format!("blk.0.{part}")).is_none() {
                return Err(LoadError::invalid(&self.name, format!("tensor `{name}` has no counterpart in layer 0")));
            }
        }
        Ok(DecoderConfig { sliding_windows: vec![None; num_layers], ..config })
    }

    fn vocab_size(&self) -> Result<usize, LoadError> {
        let name = "token_embd.weight";
        match self.tensor(name).map(|info| info.shape.dims()) {
            Some(&[rows, _]) => Ok(rows),
            Some(dims) => {
                Err(LoadError::invalid(&self.name, format!("tensor `{name}` must be a matrix, it is {dims:?}")))
            }
            None => Err(LoadError::MissingTensor { file: self.name.clone(), name: name.to_owned() }),
        }
    }

    /// Refuses what would change the computation and is not implemented.
    fn refuse_unsupported(&self, architecture: &str) -> Result<(), LoadError> {
        let refused = |what: String, supported: &str| Err(LoadError::unsupported(&self.name, what, supported));
        let key = |name: &str| format!("{architecture}.{name}");
        if let Some(parts @ 2..) = self.usize("split.count")? {
            return refused(format!("a model split into {parts} files"), "one GGUF file");
        }
        if let Some(experts @ 1..) = self.usize(&key("expert_count"))? {
            return refused(format!("`{}` {experts}", key("expert_count")), "one MLP per layer");
        }
        if self.bool(&key("attention.causal"))? == Some(false) {
            return refused(format!("`{}` false", key("attention.causal")), "causal attention only");
        }
        let context = self.usize(&key("context_length"))?.unwrap_or(0);
        match self.usize(&key("attention.sliding_window"))? {
            Some(window) if window > 0 && window < context => {
                return refused(
                    format!("`{}` {window}", key("attention.sliding_window")),
                    "full attention in GGUF files",
                );
            }
            _ => {}
        }
        let key_length = self.usize(&key("attention.key_length"))?;
        let value_length = self.usize(&key("attention.value_length"))?;
        if key_length.is_some() && value_length.is_some() && key_length != value_length {
            return refused(format!("`{}` other than key_length", key("attention.value_length")), "equal lengths");
        }
        let known = |name: &str| hugging_face_name(name).is_some() || OTHER_PARTS.contains(&name);
        match self.content.tensor_infos.keys().find(|name| !known(name)) {
            Some(name) => refused(format!("tensor `{name}`"), "the tensors of Llama, Qwen2 and Qwen3"),
            None => Ok(()),
        }
    }

    fn rope(&self, architecture: &str, head_dim: usize) -> Result<RopeConfig, LoadError> {
        let key = |name: &str| format!("{architecture}.rope.{name}");
        let theta = match self.f64(&key("freq_base"))? {
            Some(theta) if theta > 0.0 => theta,
            Some(theta) => return Err(self.wrong(&key("freq_base"), &format!("above 0, it is {theta}"))),
            // The format's own default for Llama; the Qwen families have others.
            None if architecture == "llama" => 10_000.0,
            None => return Err(self.lacks(&key("freq_base"))),
        };
        if let Some(rotated) = self.usize(&key("dimension_count"))?.filter(|&rotated| rotated != head_dim) {
            let what = format!("`{}` {rotated} of {head_dim}", key("dimension_count"));
            return Err(LoadError::unsupported(&self.name, what, "rotation of every component"));
        }
        let scaling = match self.str(&key("scaling.type"))? {
            None | Some("none") => RopeScaling::None,
            Some("linear") => match self.f64(&key("scaling.factor"))? {
                Some(factor) if factor > 0.0 => RopeScaling::Linear { factor },
                Some(factor) => return Err(self.wrong(&key("scaling.factor"), &format!("above 0, it is {factor}"))),
                None => return Err(self.lacks(&key("scaling.factor"))),
            },
            Some(other) => {
                let what = format!("`{}` \"{other}\"", key("scaling.type"));
                return Err(LoadError::unsupported(&self.name, what, "none, linear"));
            }
        };
        let scaling = match (self.tensor("rope_freqs.weight").is_some(), scaling) {
            (false, scaling) => scaling,
            (true, RopeScaling::None) => self.rope_factors(head_dim)?,
            (true, _) => {
                return Err(LoadError::unsupported(&self.name, "`rope_freqs.weight` with scaling", "one of the two"));
            }
        };
        Ok(RopeConfig { theta, scaling })
    }

    fn rope_factors(&self, head_dim: usize) -> Result<RopeScaling, LoadError> {
        let name = "rope_freqs.weight";
        let factors: Vec<f32> = self.read(name, name, &[head_dim / 2])?;
        match factors.iter().all(|&factor| factor.is_finite() && factor > 0.0) {
            true => Ok(RopeScaling::Factors(factors)),
            false => Err(LoadError::invalid(&self.name, format!("tensor `{name}` must hold numbers above 0"))),
        }
    }

    /// A whole tensor by the name it has in the file; `shown` is the name for messages.
    fn read<T: Element>(&self, name: &str, shown: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let missing = || LoadError::MissingTensor { file: self.name.clone(), name: shown.to_owned() };
        let info = self.tensor(name).ok_or_else(missing)?;
        check_shape(&self.name, shown, shape, info.shape.dims())?;
        let bytes = self.tensor_bytes(name, info)?;
        match info.ggml_dtype {
            GgmlDType::F32 => Ok(decode_f32(bytes)),
            GgmlDType::F16 => Ok(decode_f16(bytes)),
            GgmlDType::BF16 => Ok(decode_bf16(bytes)),
            dtype => dequantize(dtype, bytes),
        }
    }

    /// Where a tensor's blocks are.
    fn tensor_bytes(&self, name: &str, info: &TensorInfo) -> Result<&[u8], LoadError> {
        let dtype = info.ggml_dtype;
        if dtype_name(dtype).is_none() {
            let what = format!("tensor `{name}` of type {dtype:?}");
            let supported = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K, Q6_K";
            return Err(LoadError::unsupported(&self.name, what, supported));
        }
        let problem = |problem: &str| LoadError::invalid(&self.name, format!("tensor `{name}` {problem}"));
        let elements = info.shape.dims().iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let blocks = elements.filter(|elements| elements.is_multiple_of(dtype.block_size()));
        let length = blocks.and_then(|elements| (elements / dtype.block_size()).checked_mul(dtype.type_size()));
        let Some(length) = length else {
            let (shape, block) = (info.shape.dims(), dtype.block_size());
            return Err(problem(&format!("has the shape {shape:?}, not whole blocks of {block} values")));
        };
        let start = self.content.tensor_data_offset.checked_add(info.offset);
        let start = start.and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
        // Blocks are read in place, and hold numbers of up to four bytes.
        if !start.is_multiple_of(4) {
            return Err(problem("is not aligned"));
        }
        let end = start.saturating_add(length);
        self.bytes.get(start..end).ok_or_else(|| problem("lies outside the file; is the file truncated?"))
    }

    /// The tensors, by Hugging Face's names.
    pub(crate) fn into_weights(self, config: &DecoderConfig) -> GgufWeights {
        // Converters reorder the rows of Llama's q and k for a rotation of neighbours (2i, 2i + 1); the rotation
        // here, as in Hugging Face's files, is of halves (i, i + head_dim / 2).
        let interleaved = config.model_type == "llama";
        GgufWeights { file: self, interleaved_head_dim: interleaved.then_some(config.head_dim) }
    }
}

/// The tensors of a GGUF file by Hugging Face's names.
#[derive(Debug)]
pub(crate) struct GgufWeights {
    file: GgufFile,
    /// Set when the rows of q and k are in the order of interleaved RoPE.
    interleaved_head_dim: Option<usize>,
}

impl GgufWeights {
    /// As [`Weights::f32`](crate::model::weights::Weights::f32).
    pub(crate) fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        self.read(name, shape)
    }

    /// As [`Weights::bf16`](crate::model::weights::Weights::bf16).
    pub(crate) fn bf16(&self, name: &str, shape: &[usize]) -> Result<Vec<bf16>, LoadError> {
        self.read(name, shape)
    }

    /// As [`Weights::contains`](crate::model::weights::Weights::contains).
    pub(crate) fn contains(&self, name: &str) -> bool {
        gguf_name(name).is_some_and(|name| self.file.tensor(&name).is_some())
    }

    /// The type of a tensor, with `gguf` in front.
    pub(crate) fn stored_dtype(&self, name: &str) -> &'static str {
        let info = gguf_name(name).and_then(|name| self.file.tensor(&name));
        info.and_then(|info| dtype_name(info.ggml_dtype)).unwrap_or("unknown")
    }

    fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        let missing = || LoadError::MissingTensor { file: self.file.name.clone(), name: name.to_owned() };
        let values = self.file.read(&gguf_name(name).ok_or_else(missing)?, name, shape)?;
        let rotated = name.contains(".self_attn.q_proj.") || name.contains(".self_attn.k_proj.");
        match self.interleaved_head_dim.filter(|_| rotated) {
            Some(head_dim) => Ok(halves_from_neighbours(&values, head_dim, shape.iter().skip(1).product())),
            None => Ok(values),
        }
    }
}

/// Reorders the rows of each head from pairs (2i, 2i + 1) to pairs (i, i + head_dim / 2).
fn halves_from_neighbours<T: Copy>(values: &[T], head_dim: usize, row_len: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(values.len());
    for head in values.chunks(head_dim * row_len) {
        for half in 0..2 {
            for pair in 0..head_dim / 2 {
                out.extend_from_slice(&head[(2 * pair + half) * row_len..][..row_len]);
            }
        }
    }
    out
}

/// Dequantises blocks, many at a time.
fn dequantize<T: Element>(dtype: GgmlDType, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
    /// Blocks that one task converts.
    const BLOCKS: usize = 256;
    let chunk = BLOCKS * dtype.block_size();
    let mut out = vec![T::default(); bytes.len() / dtype.type_size() * dtype.block_size()];
    let outputs = out.par_chunks_mut(chunk);
    outputs.zip(bytes.par_chunks(BLOCKS * dtype.type_size())).try_for_each(|(out, bytes)| {
        match dtype.from_data(Cow::Borrowed(bytes)).dequantize(out.len())? {
            CpuStorage::F32(values) => out.iter_mut().zip(values).for_each(|(out, value)| *out = T::from_f32(value)),
            _ => return Err(LoadError::Compute("dequantised values are not float32".to_owned())),
        }
        Ok(())
    })?;
    Ok(out)
}

/// The types that are read, as they are shown.
fn dtype_name(dtype: GgmlDType) -> Option<&'static str> {
    match dtype {
        GgmlDType::F32 => Some("gguf F32"),
        GgmlDType::F16 => Some("gguf F16"),
        GgmlDType::BF16 => Some("gguf BF16"),
        GgmlDType::Q8_0 => Some("gguf Q8_0"),
        GgmlDType::Q4_0 => Some("gguf Q4_0"),
        GgmlDType::Q4_1 => Some("gguf Q4_1"),
        GgmlDType::Q4K => Some("gguf Q4_K"),
        GgmlDType::Q5K => Some("gguf Q5_K"),
        GgmlDType::Q6K => Some("gguf Q6_K"),
        _ => None,
    }
}

/// `blk.3.attn_q.weight` to `attn_q.weight`.
fn layer_part(gguf: &str) -> Option<&str> {
    let (layer, part) = gguf.strip_prefix("blk.")?.split_once('.')?;
    layer.parse::<usize>().is_ok().then_some(part)
}

/// `blk.3.attn_q.weight` to `model.layers.3.self_attn.q_proj.weight`.
fn hugging_face_name(gguf: &str) -> Option<String> {
    if let Some((_, name)) = WHOLE_PARTS.iter().find(|(part, _)| *part == gguf) {
        return Some((*name).to_owned());
    }
    let (part, kind) = layer_part(gguf)?.rsplit_once('.')?;
    let layer = gguf.split('.').nth(1)?;
    let (_, name) = LAYER_PARTS.iter().find(|(known, _)| *known == part)?;
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{name}.{kind}"))
}

/// The reverse of [`hugging_face_name`].
fn gguf_name(name: &str) -> Option<String> {
    if let Some((part, _)) = WHOLE_PARTS.iter().find(|(_, known)| *known == name) {
        return Some((*part).to_owned());
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let (gguf, _) = LAYER_PARTS.iter().find(|(_, known)| *known == part)?;
    Some(format!("blk.{layer}.{gguf}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (gguf, name) in [
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("output.weight", "lm_head.weight"),
            ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
            ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
        ] {
            assert_eq!(hugging_face_name(gguf).as_deref(), Some(name));
            assert_eq!(gguf_name(name).as_deref(), Some(gguf));
        }
        for unknown in ["blk.x.attn_q.weight", "blk.0.attn_q.scale", "blk.0.ssm_a.weight", "other"] {
            assert_eq!(hugging_face_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn rows_of_each_head_are_put_back_into_halves() {
        // Two heads of four rows of two values; the row's number is the value.
        let values: Vec<u32> = (0..8).flat_map(|row| [row, row]).collect();
        let rows: Vec<u32> = halves_from_neighbours(&values, 4, 2).chunks(2).map(|row| row[0]).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
