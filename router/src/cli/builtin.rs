//! The built-in model's files, compiled into the binary.

use prefold_backends::EmbeddedFile;

/// Model id of the built-in model.
pub(crate) const NAME: &str = "prefold-mini";

/// Aligns a file like a memory map, so that tensors can be read in place.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(EmbeddedFile {
            name: $name,
            bytes: {
                static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/builtin/",
                    $name
                )));
                &FILE.0
            },
        }),+]
    };
}

/// Files of the model directory.
pub(crate) static FILES: &[EmbeddedFile] = files![
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "1_Pooling/config.json",
    "2_Normalize/config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
];
