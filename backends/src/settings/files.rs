//! Files that are read as a whole, or not at all.

use super::row::File::{Index, Other};
use super::row::Group;
use super::row::Mark::{Followed, Inert, NamedInSome, Refused};

pub(super) const GROUPS: &[Group] = &[
    Group { file: Index, mark: Followed, read_in: "transformers 5.24.0, utils/hub.py", fields: &[("weight_map", "")] },
    Group { file: Index, mark: Inert, read_in: "transformers 5.24.0, utils/hub.py", fields: &[("metadata", "")] },
    Group {
        file: Other,
        mark: Followed,
        read_in: "transformers 5.24.0, modeling_utils.py",
        fields: &[
            ("model.safetensors", ""),
            ("model.safetensors.index.json", ""),
            ("pytorch_model.bin", ""),
            ("pytorch_model.bin.index.json", ""),
            ("adapter_model.safetensors", ""),
            ("adapter_model.bin", ""),
            ("vocab.txt", ""),
        ],
    },
    Group {
        file: Other,
        mark: Refused,
        read_in: "transformers 5.24.0, modeling_utils.py and tokenization_utils_tokenizers.py",
        fields: &[
            ("onnx/model.onnx", ""),
            ("openvino/openvino_model.xml", ""),
            ("tf_model.h5", ""),
            ("flax_model.msgpack", ""),
            ("sentencepiece.bpe.model", ""),
            ("spiece.model", ""),
            ("tokenizer.model", ""),
            ("vocab.json", ""),
        ],
    },
    Group {
        file: Other,
        mark: NamedInSome,
        read_in: "sentence-transformers 6.2.0, base/modules/transformer.py: LogitScore models",
        fields: &[("chat_template.jinja", "")],
    },
    Group {
        file: Other,
        mark: Inert,
        read_in: "transformers 5.24.0, generation and processing",
        fields: &[
            ("generation_config.json", ""),
            ("preprocessor_config.json", ""),
            ("processor_config.json", ""),
            ("training_args.bin", ""),
        ],
    },
];
