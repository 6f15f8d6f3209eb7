//! Fields of the objects `rope_parameters` and `rope_scaling` of `config.json`.

use super::config_json::{CODE, ROTARY};
use super::row::File::Rope;
use super::row::Group;
use super::row::Mark::{Followed, Inert, Refused};

pub(super) const GROUPS: &[Group] = &[
    Group {
        file: Rope,
        mark: Followed,
        read_in: ROTARY,
        fields: &[
            ("rope_type", ""),
            ("type", ""),
            ("rope_theta", ""),
            ("factor", ""),
            ("original_max_position_embeddings", ""),
            ("low_freq_factor", ""),
            ("high_freq_factor", ""),
            ("attention_factor", ""),
            ("beta_fast", ""),
            ("beta_slow", ""),
            ("mscale", ""),
            ("mscale_all_dim", ""),
            ("truncate", ""),
            ("llama_4_scaling_beta", ""),
            ("full_attention", ""),
            ("sliding_attention", ""),
        ],
    },
    Group { file: Rope, mark: Refused, read_in: ROTARY, fields: &[("partial_rotary_factor", "1.0")] },
    Group {
        file: Rope,
        mark: Inert,
        read_in: "transformers 5.24.0, models/ministral3/configuration_ministral3.py",
        // It is written there and read outside of the object.
        fields: &[("max_position_embeddings", "")],
    },
    Group { file: Rope, mark: Refused, read_in: CODE, fields: &[("mixed_b", "")] },
];
