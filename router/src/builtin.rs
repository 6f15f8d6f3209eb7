//! The built-in model's files, compiled into the binary.

use prefold_backends::EmbeddedFile;

/// The model id that clients see.
pub(crate) const NAME: &str = "prefold-mini";

/// Aligns a file as a mapping of it would be, so that tensors may be read in place.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(EmbeddedFile {
            name: $name,
            bytes: {
                static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../models/prefold-mini/",
                    $name
                )));
                &FILE.0
            },
        }),+]
    };
}

/// The model directory, file by file.
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
