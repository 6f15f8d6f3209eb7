//! Fields of the files of sentence-transformers.

use super::row::File::{
    Dense, Dropout, LayerNorm, LogitScore, Modules, Normalize, Pooling, Prompts, Router, RouterParameters, Transformer,
};
use super::row::Group;
use super::row::Mark::{Followed, Inert, Named, NamedInSome, Refused};

const MODEL: &str = "sentence-transformers 6.2.0, base/model.py";
const EMBEDDER: &str = "sentence-transformers 6.2.0, sentence_transformer/model.py";
const CROSS_ENCODER: &str = "sentence-transformers 6.2.0, cross_encoder/model.py";
const TRANSFORMER: &str = "sentence-transformers 6.2.0, base/modules/transformer.py";
const POOLING: &str = "sentence-transformers 6.2.0, sentence_transformer/modules/pooling.py";
const DENSE: &str = "sentence-transformers 6.2.0, base/modules/dense.py";

pub(super) const GROUPS: &[Group] = &[
    Group {
        file: Prompts,
        mark: Followed,
        read_in: MODEL,
        fields: &[("prompts", ""), ("default_prompt_name", ""), ("model_type", "")],
    },
    Group { file: Prompts, mark: Followed, read_in: EMBEDDER, fields: &[("truncate_dim", "")] },
    Group { file: Prompts, mark: Followed, read_in: CROSS_ENCODER, fields: &[("activation_fn", "")] },
    Group { file: Prompts, mark: Named, read_in: EMBEDDER, fields: &[("similarity_fn_name", "\"cosine\"")] },
    Group {
        file: Prompts,
        mark: Named,
        read_in: "sentence-transformers 6.2.0, sparse_encoder/model.py",
        fields: &[("max_active_dims", "")],
    },
    Group { file: Prompts, mark: Inert, read_in: MODEL, fields: &[("__version__", "")] },
    Group { file: Prompts, mark: Inert, read_in: CROSS_ENCODER, fields: &[("keep_in_fp32_modules", "")] },
    Group { file: Modules, mark: Followed, read_in: MODEL, fields: &[("type", ""), ("path", "")] },
    Group { file: Modules, mark: Inert, read_in: MODEL, fields: &[("idx", ""), ("name", ""), ("kwargs", "")] },
    Group {
        file: Transformer,
        mark: Followed,
        read_in: TRANSFORMER,
        fields: &[
            ("max_seq_length", ""),
            ("do_lower_case", ""),
            ("query_length", ""),
            ("document_length", ""),
            ("processing_kwargs", ""),
            ("tokenizer_args", ""),
            ("processor_kwargs", ""),
            ("modality_config", ""),
            ("module_output_name", ""),
        ],
    },
    Group { file: Transformer, mark: NamedInSome, read_in: TRANSFORMER, fields: &[("query_expansion", "")] },
    Group {
        file: Transformer,
        mark: Refused,
        read_in: TRANSFORMER,
        fields: &[("config_args", ""), ("config_kwargs", "")],
    },
    Group {
        file: Transformer,
        mark: Named,
        read_in: TRANSFORMER,
        fields: &[
            (
                "transformer_task",
                "\"feature-extraction\" or \"sequence-classification\" or \"text-generation\" or \"any-to-any\"",
            ),
            ("model_args", "{\"trust_remote_code\": true}"),
            ("model_kwargs", "{\"trust_remote_code\": true}"),
            ("tokenizer_name_or_path", ""),
        ],
    },
    Group {
        file: Transformer,
        mark: Inert,
        read_in: TRANSFORMER,
        fields: &[("unpad_inputs", ""), ("backend", ""), ("cache_dir", "")],
    },
    Group {
        file: Pooling,
        mark: Followed,
        read_in: POOLING,
        fields: &[
            ("embedding_dimension", ""),
            ("word_embedding_dimension", ""),
            ("pooling_mode", ""),
            ("pooling_mode_cls_token", ""),
            ("pooling_mode_max_tokens", ""),
            ("pooling_mode_mean_tokens", ""),
            ("pooling_mode_mean_sqrt_len_tokens", ""),
            ("pooling_mode_weightedmean_tokens", ""),
            ("pooling_mode_lasttoken", ""),
            ("include_prompt", ""),
        ],
    },
    Group {
        file: Dense,
        mark: Followed,
        read_in: DENSE,
        fields: &[
            ("in_features", ""),
            ("out_features", ""),
            ("bias", ""),
            ("activation_function", ""),
            ("use_residual", ""),
        ],
    },
    Group {
        file: Dense,
        mark: Refused,
        read_in: DENSE,
        fields: &[("module_input_name", "\"sentence_embedding\""), ("module_output_name", "\"sentence_embedding\"")],
    },
    Group {
        file: LayerNorm,
        mark: Followed,
        read_in: "sentence-transformers 6.2.0, sentence_transformer/modules/layer_norm.py",
        fields: &[("dimension", "")],
    },
    Group {
        file: Dropout,
        mark: Inert,
        read_in: "sentence-transformers 6.2.0, sentence_transformer/modules/dropout.py",
        fields: &[("dropout", "")],
    },
    Group {
        file: Normalize,
        mark: Refused,
        read_in: "sentence-transformers 6.2.0, base/modules/normalize.py",
        fields: &[("module_input_name", "\"sentence_embedding\""), ("module_output_name", "\"sentence_embedding\"")],
    },
    Group {
        file: LogitScore,
        mark: Followed,
        read_in: "sentence-transformers 6.2.0, cross_encoder/modules/logit_score.py",
        fields: &[("true_token_id", ""), ("false_token_id", "")],
    },
    Group {
        file: LogitScore,
        mark: Refused,
        read_in: "sentence-transformers 6.2.0, cross_encoder/modules/logit_score.py",
        fields: &[("module_input_name", "\"causal_logits\"")],
    },
    Group {
        file: Router,
        mark: Followed,
        read_in: "sentence-transformers 6.2.0, base/modules/router.py",
        fields: &[("types", ""), ("structure", ""), ("parameters", "")],
    },
    Group {
        file: RouterParameters,
        mark: Followed,
        read_in: "sentence-transformers 6.2.0, base/modules/router.py",
        fields: &[("default_route", ""), ("allow_empty_key", ""), ("route_mappings", "")],
    },
];
