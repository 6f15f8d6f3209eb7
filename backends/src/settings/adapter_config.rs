//! Fields of `adapter_config.json`.

use super::row::File::AdapterConfig;
use super::row::Group;
use super::row::Mark::{Followed, Inert, Refused};

const LORA: &str = "peft 0.21.2, tuners/lora/config.py";

pub(super) const GROUPS: &[Group] = &[
    Group {
        file: AdapterConfig,
        mark: Followed,
        read_in: LORA,
        fields: &[
            ("peft_type", ""),
            ("base_model_name_or_path", ""),
            ("r", ""),
            ("lora_alpha", ""),
            ("use_rslora", ""),
            ("rank_pattern", ""),
            ("alpha_pattern", ""),
            ("target_modules", ""),
            ("exclude_modules", ""),
            ("layers_to_transform", ""),
            ("layers_pattern", ""),
            ("modules_to_save", ""),
            ("bias", ""),
            ("lora_bias", ""),
        ],
    },
    Group {
        file: AdapterConfig,
        mark: Followed,
        read_in: "peft 0.21.2, auto.py; transformers 5.24.0 takes the base's main branch",
        fields: &[("revision", "")],
    },
    Group {
        file: AdapterConfig,
        mark: Refused,
        read_in: LORA,
        fields: &[
            ("use_dora", ""),
            ("use_qalora", ""),
            ("use_bdlora", ""),
            ("alora_invocation_tokens", ""),
            ("layer_replication", ""),
            ("trainable_token_indices", ""),
            ("target_parameters", ""),
            ("megatron_config", ""),
            ("arrow_config", ""),
            ("kasa_config", ""),
            ("monteclora_config", ""),
            ("init_lora_weights", "true or \"gaussian\" or \"eva\" or \"orthogonal\""),
        ],
    },
    Group {
        file: AdapterConfig,
        mark: Inert,
        read_in: LORA,
        fields: &[
            ("auto_mapping", ""),
            ("corda_config", ""),
            ("ensure_weight_tying", ""),
            ("eva_config", ""),
            ("fan_in_fan_out", ""),
            ("inference_mode", ""),
            ("loftq_config", ""),
            ("lora_dropout", ""),
            ("lora_ga_config", ""),
            ("megatron_core", ""),
            ("peft_version", ""),
            ("qalora_group_size", ""),
            ("runtime_config", ""),
            ("task_type", ""),
            ("velora_config", ""),
        ],
    },
];
