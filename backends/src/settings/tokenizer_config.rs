//! Fields of a tokenizer's files.

use super::row::File::{AddedTokens, SpecialToken, SpecialTokens, Tokenizer, TokenizerConfig};
use super::row::Group;
use super::row::Mark::{Followed, Inert, Named, NamedInSome};

const BASE: &str = "transformers 5.24.0, tokenization_utils_base.py";
const BACKEND: &str = "transformers 5.24.0, tokenization_utils_tokenizers.py";
const CLASSES: &str = "transformers 5.24.0, models/*/tokenization_*.py";
const LIBRARY: &str = "tokenizers 0.23, tokenizer/serialization.rs";

pub(super) const GROUPS: &[Group] = &[
    Group {
        file: TokenizerConfig,
        mark: Followed,
        read_in: BASE,
        fields: &[
            ("model_max_length", ""),
            ("max_len", ""),
            ("truncation_side", ""),
            ("model_input_names", ""),
            ("added_tokens_decoder", ""),
            ("extra_special_tokens", ""),
            ("additional_special_tokens", ""),
            ("split_special_tokens", ""),
            ("*_token", ""),
        ],
    },
    Group {
        file: TokenizerConfig,
        mark: Followed,
        read_in: "transformers 5.24.0, models/auto/tokenization_auto.py",
        fields: &[("tokenizer_class", "")],
    },
    Group {
        file: TokenizerConfig,
        mark: Followed,
        read_in: CLASSES,
        fields: &[
            ("do_lower_case", ""),
            ("strip_accents", ""),
            ("tokenize_chinese_chars", ""),
            ("split_by_punct", ""),
            ("add_prefix_space", ""),
            ("legacy", ""),
            ("do_basic_tokenize", ""),
            ("trim_offsets", ""),
            ("unk_id", ""),
            ("extra_ids", ""),
        ],
    },
    Group {
        file: TokenizerConfig,
        mark: Followed,
        read_in: "transformers 4.57, models/llama/tokenization_llama_fast.py; 5.24.0 ignores them, which a warning says",
        fields: &[("add_bos_token", ""), ("add_eos_token", "")],
    },
    Group {
        file: TokenizerConfig,
        mark: Named,
        read_in: CLASSES,
        fields: &[
            ("auto_map", ""),
            ("fix_mistral_regex", ""),
            ("keep_accents", ""),
            ("sp_model_kwargs", ""),
            ("byte_fallback", ""),
        ],
    },
    Group {
        file: TokenizerConfig,
        mark: NamedInSome,
        read_in: "sentence-transformers 6.2.0, base/modules/transformer.py: LogitScore models",
        fields: &[("chat_template", "")],
    },
    Group {
        file: TokenizerConfig,
        mark: Inert,
        read_in: BASE,
        fields: &[
            ("backend", ""),
            ("clean_up_tokenization_spaces", ""),
            ("cls_token_id", ""),
            ("init_inputs", ""),
            ("is_local", ""),
            ("local_files_only", ""),
            ("max_length", ""),
            ("max_model_input_sizes", ""),
            ("name_or_path", ""),
            ("pad_to_multiple_of", ""),
            ("pad_token_type_id", ""),
            ("padding_side", ""),
            ("processor_class", ""),
            ("response_schema", ""),
            ("special_tokens_map_file", ""),
            ("stride", ""),
            ("tokenizer_file", ""),
            ("truncation_strategy", ""),
            ("use_fast", ""),
            ("verbose", ""),
            ("vocab_file", ""),
            ("merges_file", ""),
        ],
    },
    Group {
        file: TokenizerConfig,
        mark: Inert,
        read_in: CLASSES,
        fields: &[
            ("errors", ""),
            ("max_input_chars_per_word", ""),
            ("never_split", ""),
            ("spaces_between_special_tokens", ""),
            ("use_default_system_prompt", ""),
            ("vocab_type", ""),
            ("wordpieces_prefix", ""),
            ("clean_text", ""),
        ],
    },
    Group {
        file: SpecialTokens,
        mark: Followed,
        read_in: BASE,
        fields: &[("*_token", ""), ("additional_special_tokens", ""), ("extra_special_tokens", "")],
    },
    Group {
        file: SpecialToken,
        mark: Followed,
        read_in: BASE,
        fields: &[
            ("content", ""),
            ("lstrip", ""),
            ("rstrip", ""),
            ("normalized", ""),
            ("single_word", ""),
            ("special", ""),
        ],
    },
    Group { file: SpecialToken, mark: Inert, read_in: BASE, fields: &[("__type", ""), ("id", "")] },
    Group { file: AddedTokens, mark: Followed, read_in: BASE, fields: &[("*", "")] },
    Group {
        file: Tokenizer,
        mark: Followed,
        read_in: LIBRARY,
        fields: &[
            ("added_tokens", ""),
            ("decoder", ""),
            ("model", ""),
            ("normalizer", ""),
            ("post_processor", ""),
            ("pre_tokenizer", ""),
            ("truncation", ""),
        ],
    },
    Group { file: Tokenizer, mark: Inert, read_in: BACKEND, fields: &[("padding", ""), ("version", "")] },
];
