//! Keys of GGUF metadata that llama.cpp reads for a model and its tokenizer, without the architecture before them.

use super::named::{ignored, is_named};
use super::row::{File, Group, Mark};
use crate::error::LoadError;
use crate::formats::gguf::GgufFile;

const READ_IN: &str = "llama.cpp, November 2026: gguf-py/gguf/constants.py, src/llama-model.cpp, src/llama-vocab.cpp";

const fn group(mark: Mark, fields: &'static [(&'static str, &'static str)]) -> Group {
    Group { file: File::Gguf, mark, read_in: READ_IN, fields }
}

pub(super) const GROUPS: &[Group] = &[
    group(
        Mark::Followed,
        &[
            ("general.architecture", ""),
            ("general.alignment", ""),
            ("context_length", ""),
            ("embedding_length", ""),
            ("block_count", ""),
            ("feed_forward_length", ""),
            ("hidden_act", ""),
            ("hidden_activation", ""),
            ("pooling_type", ""),
            ("classifier.output_labels", ""),
            ("classifier.pooling_type", ""),
            ("expert_count", ""),
            ("expert_used_count", ""),
            ("moe_every_n_layers", ""),
            ("attention.causal", ""),
            ("attention.head_count", ""),
            ("attention.head_count_kv", ""),
            ("attention.key_length", ""),
            ("attention.layer_norm_epsilon", ""),
            ("attention.layer_norm_rms_epsilon", ""),
            ("attention.scale", ""),
            ("attention.sliding_window", ""),
            ("attention.sliding_window_pattern", ""),
            ("rope.freq_base", ""),
            ("rope.freq_base_swa", ""),
            ("rope.scale_linear", ""),
            ("rope.scaling.factor", ""),
            ("rope.scaling.type", ""),
            ("tokenizer.ggml.add_bos_token", ""),
            ("tokenizer.ggml.add_eos_token", ""),
            ("tokenizer.ggml.add_space_prefix", ""),
            ("tokenizer.ggml.bos_token_id", ""),
            ("tokenizer.ggml.cls_token_id", ""),
            ("tokenizer.ggml.eos_token_id", ""),
            ("tokenizer.ggml.mask_token_id", ""),
            ("tokenizer.ggml.merges", ""),
            ("tokenizer.ggml.model", ""),
            ("tokenizer.ggml.normalizer.lowercase", ""),
            ("tokenizer.ggml.normalizer.strip_accents", ""),
            ("tokenizer.ggml.pre", ""),
            ("tokenizer.ggml.precompiled_charsmap", ""),
            ("tokenizer.ggml.remove_extra_whitespaces", ""),
            ("tokenizer.ggml.scores", ""),
            ("tokenizer.ggml.seperator_token_id", ""),
            ("tokenizer.ggml.token_type", ""),
            ("tokenizer.ggml.tokens", ""),
            ("tokenizer.ggml.unknown_token_id", ""),
        ],
    ),
    group(
        Mark::Refused,
        &[
            ("attention.value_length", ""),
            ("general.type", ""),
            ("rope.dimension_count", ""),
            ("rope.scaling.attn_factor", "1.0"),
            ("split.count", "0 or 1"),
        ],
    ),
    group(Mark::NamedInSome, &[("tokenizer.chat_template.rerank", "")]),
    // Everything else behind the architecture or `tokenizer.` is named too.
    group(
        Mark::Named,
        &[
            ("attention.clamp_kqv", "0.0"),
            ("attention.max_alibi_bias", "0.0 or 8.0"),
            ("attn_logit_softcapping", "0.0"),
            ("embedding_scale", "1.0"),
            ("expert_gating_func", ""),
            ("expert_shared_count", "0"),
            ("expert_weights_norm", ""),
            ("expert_weights_scale", "1.0"),
            ("final_logit_softcapping", "0.0"),
            ("logit_scale", "1.0"),
            ("residual_scale", "1.0"),
            ("use_parallel_residual", ""),
            ("tokenizer.huggingface.json", ""),
        ],
    ),
    group(
        Mark::Inert,
        &[
            ("general.*", ""),
            ("split.*", ""),
            ("quantize.*", ""),
            ("dense_2_feat_in", ""),
            ("dense_2_feat_out", ""),
            ("dense_3_feat_in", ""),
            ("dense_3_feat_out", ""),
            ("embedding_length_out", ""),
            ("expert_feed_forward_length", ""),
            ("tensor_data_layout", ""),
            ("vocab_size", ""),
            // Of YaRN and LongRoPE, whose types are refused.
            ("rope.scaling.finetuned", ""),
            ("rope.scaling.original_context_length", ""),
            ("rope.scaling.yarn_*", ""),
            ("tokenizer.chat_template", ""),
            ("tokenizer.chat_template.*", ""),
            ("tokenizer.chat_templates", ""),
            ("tokenizer.ggml.add_sep_token", ""),
            ("tokenizer.ggml.eom_token_id", ""),
            ("tokenizer.ggml.eot_token_id", ""),
            ("tokenizer.ggml.fim_*", ""),
            ("tokenizer.ggml.middle_token_id", ""),
            ("tokenizer.ggml.padding_token_id", ""),
            ("tokenizer.ggml.prefix_token_id", ""),
            ("tokenizer.ggml.suffix_token_id", ""),
            ("tokenizer.ggml.suppress_tokens", ""),
            ("tokenizer.ggml.token_type_count", ""),
        ],
    ),
];

/// The warning about keys of a file that have no effect here and may have one in llama.cpp.
///
/// # Errors
/// The file does not name its architecture.
pub(crate) fn named_metadata(file: &GgufFile) -> Result<Option<String>, LoadError> {
    let prefix = format!("{}.", file.architecture()?);
    let entries = file.metadata().filter_map(|(key, value)| {
        let name = key.strip_prefix(&prefix).or_else(|| key.starts_with("tokenizer.").then_some(key))?;
        is_named(File::Gguf, name, &value).then_some((key, value))
    });
    Ok(ignored(file.name(), entries))
}
