//! An encoder's description in a GGUF file's metadata.

use super::file::{Architecture, CLASS_ROWS, GgufFile};
use crate::LoadError;
use crate::config::{
    AttentionConfig, DISTILBERT_HEAD, EmbeddingsConfig, FeedForwardConfig, LearnedPositions, MAX_LABELS, MaskConfig,
    NormConfig, NormKind, Placement, PositionsConfig, ROBERTA_HEAD, TransformerConfig, names,
};
use prefold_kernels::Activation;

/// Tables of the embeddings. That of positions begins with the first token's row: converters leave out those before it.
const POSITIONS: &str = "position_embd.weight";
const TOKEN_TYPES: &str = "token_types.weight";

/// The matrix of q, k and v together, which Nomic BERT has.
const FUSED: &str = "blk.0.attn_qkv.weight";

/// The layer of a classifier's head before [`CLASS_ROWS`].
const CLASS_DENSE: &str = "cls.weight";

impl GgufFile {
    /// The description of an encoder. The activation is not in the file: all of these families have GELU, and SiLU where there is a
    /// gate.
    ///
    /// # Errors
    /// A value is missing or malformed, or the file needs an unsupported feature.
    pub(super) fn encoder(&self, architecture: &Architecture) -> Result<TransformerConfig, LoadError> {
        let key = |name: &str| format!("{}.{name}", architecture.name);
        let required = |name: &str| self.usize(&key(name))?.ok_or_else(|| self.lacks(&key(name)));
        self.check_head()?;

        let (hidden_size, num_heads) = (required("embedding_length")?, required("attention.head_count")?);
        if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
            let problem = format!("a multiple of `{}` ({num_heads}), it is {hidden_size}", key("attention.head_count"));
            return Err(self.wrong(&key("embedding_length"), &problem));
        }
        let eps = key("attention.layer_norm_epsilon");
        let head_dim = hidden_size / num_heads;
        let context = required("context_length")?;
        let (gated, fused) = (self.tensor("blk.0.ffn_gate.weight").is_some(), self.tensor(FUSED).is_some());
        // Nomic BERT has no table.
        let (positions, longest) = match self.tensor(POSITIONS) {
            Some(_) => {
                let positions = LearnedPositions { rows: self.rows(POSITIONS)?, padding_id: None };
                (PositionsConfig::Learned(positions), positions.max_input_length().min(context))
            }
            None if !fused => {
                return Err(LoadError::MissingTensor { file: self.name().to_owned(), name: POSITIONS.to_owned() });
            }
            None => (PositionsConfig::Rotary(self.rope(architecture, head_dim)?.into()), context),
        };
        let has_bias = |names: &[&str]| names.iter().any(|name| self.tensor(&format!("blk.0.{name}.bias")).is_some());
        // Of a single row, a rewritten file may have made a vector.
        let token_types = match self.tensor(TOKEN_TYPES).map(|info| info.shape.dims()) {
            None => 0,
            Some([_]) => 1,
            Some(_) => self.rows(TOKEN_TYPES)?,
        };
        Ok(TransformerConfig {
            model_type: architecture.name.to_owned(),
            vocab_size: self.rows("token_embd.weight")?,
            hidden_size,
            output_size: hidden_size,
            num_layers: required("block_count")?,
            norm: NormConfig {
                kind: NormKind::Layer,
                placement: Placement::After,
                first_attention: true,
                eps: self.f64(&eps)?.ok_or_else(|| self.lacks(&eps))? as f32,
            },
            embeddings: EmbeddingsConfig { size: hidden_size, token_types, norm: true, scale: 1.0 },
            attention: AttentionConfig {
                num_heads,
                num_kv_heads: num_heads,
                head_dim,
                qkv_bias: !fused || has_bias(&["attn_qkv"]),
                output_bias: !fused || has_bias(&["attn_output"]),
                qk_norm: false,
                qk_width_norm: false,
                scale: None,
                mask: MaskConfig::Full,
                distance_bias: None,
            },
            feed_forward: FeedForwardConfig {
                intermediate_size: required("feed_forward_length")?,
                input_bias: !fused || has_bias(&["ffn_up"]),
                output_bias: !fused || has_bias(&["ffn_down"]),
                gated,
                activation: if gated { Activation::Silu } else { Activation::Gelu },
                experts: None,
            },
            positions,
            sliding_windows: vec![],
            tie_word_embeddings: true,
            max_position_embeddings: longest,
            names: if fused { names::NOMIC } else { names::BERT },
            // DistilBERT is the family without token types.
            classifier: if token_types == 0 { DISTILBERT_HEAD } else { ROBERTA_HEAD },
            adapters: None,
        })
    }

    /// Labels of a classifier, one for each row of its head; `None` if the file is no classifier's.
    ///
    /// # Errors
    /// They are malformed, or more or fewer than the rows.
    pub(crate) fn classifier_labels(&self) -> Result<Option<Vec<String>>, LoadError> {
        let rows = match self.tensor(CLASS_ROWS).map(|info| info.shape.dims()) {
            Some(_) if !self.architecture()?.is_encoder => return Ok(None),
            None => return Ok(None),
            Some([_]) => 1,
            Some(_) => self.rows(CLASS_ROWS)?,
        };
        let labels: Vec<String> = self.class_labels()?.into_iter().map(str::to_owned).collect();
        match labels.len() {
            0 if rows > MAX_LABELS => {
                let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows, the limit is {MAX_LABELS}");
                Err(LoadError::invalid(self.name(), problem))
            }
            0 => Ok(Some((0..rows).map(|row| format!("LABEL_{row}")).collect())),
            count if count == rows => Ok(Some(labels)),
            count => {
                let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows for {count} labels");
                Err(LoadError::invalid(self.name(), problem))
            }
        }
    }

    /// Refuses a classifier without its first layer: converters leave out BERT's.
    fn check_head(&self) -> Result<(), LoadError> {
        let (dense, rows) = (self.tensor(CLASS_DENSE).is_some(), self.tensor(CLASS_ROWS).is_some());
        if dense == rows {
            return Ok(());
        }
        let (there, missing) = if dense { (CLASS_DENSE, CLASS_ROWS) } else { (CLASS_ROWS, CLASS_DENSE) };
        let what = format!("tensor `{there}` without `{missing}`, as converters write BERT's classifiers");
        Err(LoadError::unsupported(
            self.name(),
            what,
            "classifiers of RoBERTa, XLM-RoBERTa and DistilBERT; safetensors",
        ))
    }
}
