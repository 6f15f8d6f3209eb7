//! Families of GGUF files that differ from their families of `config.json`, because converters change or leave out
//! something.

use super::decoders::GEMMA3;
use super::encoders::{JINA_V2, JINA_V2_CODE, JINA_V3};
use super::family::{Adapters, Family, Gguf};
use crate::config::{MaskConfig, NormKind, TensorNames, names};

pub(super) static CONVERTED: [Family; 4] = [
    // EmbeddingGemma. Norms are stored with 1 added to their weights.
    Family {
        gguf: Some(Gguf {
            dense: true,
            lost: "the Dense modules (2_Dense, 3_Dense) unless run with --sentence-transformers-dense-modules",
            ..Gguf::of("gemma-embedding")
        }),
        mask: MaskConfig::Full,
        norm: NormKind::RmsNorm,
        ..GEMMA3
    },
    Family {
        gguf: Some(Gguf { lost: "the adapters of tasks, which are files of their own", ..Gguf::of("jina-bert-v3") }),
        adapters: Adapters::None,
        ..JINA_V3
    },
    // As older converters split the matrix of gate and up projection.
    Family {
        gguf: Some(Gguf { marks: &["blk.0.ffn_gate.weight", "blk.0.attn_norm_2.weight"], ..Gguf::of("jina-bert-v2") }),
        names: TensorNames {
            gate: "mlp.gated_layers_w",
            up: "mlp.gated_layers_v",
            up_first: false,
            ..names::JINA_V2_CODE
        },
        ..JINA_V2_CODE
    },
    Family {
        gguf: Some(Gguf { marks: &["blk.0.ffn_gate.weight"], ..Gguf::of("jina-bert-v2") }),
        names: TensorNames { gate: "mlp.gated_layers_w", up: "mlp.gated_layers_v", ..names::JINA_V2 },
        ..JINA_V2
    },
];
