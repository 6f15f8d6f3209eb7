//! Weights in formats or under names that are not read.

use crate::json::shown;
use serde_json::Value;

/// Maximum names in a message.
const MAX_NAMED: usize = 4;

/// Endings of files and the name of their format.
const FORMATS: [(&str, &str); 10] = [
    (".onnx", "ONNX"),
    ("openvino_model.xml", "OpenVINO"),
    (".tflite", "TensorFlow Lite"),
    ("tf_model.h5", "TensorFlow"),
    ("model.ckpt.index", "TensorFlow"),
    ("flax_model.msgpack", "Flax"),
    (".mlpackage", "Core ML"),
    (".gguf", "GGUF"),
    ("rust_model.ot", "rust-bert"),
    (".pth", "PyTorch under another name"),
];

/// Clause of a message about missing tensors that names the file that only `config.json` names.
pub(crate) fn named(config: &Value) -> Option<String> {
    let name = config.get("transformers_weights").filter(|name| name.is_string())?;
    Some(format!("; `transformers_weights` of config.json names {}, which is not read", shown(name)))
}

/// Clause of a message about missing tensors that names the files in other formats; empty without such files.
pub(crate) fn hint<'a>(files: impl Iterator<Item = &'a str>) -> String {
    let format = |file: &str| FORMATS.iter().find(|(end, _)| file.ends_with(end)).map(|(_, format)| *format);
    let mut found: Vec<(&str, &str)> = files.filter_map(|file| Some((file, format(file)?))).collect();
    found.sort_unstable();
    let mut formats: Vec<&str> = Vec::new();
    for (_, format) in &found {
        if !formats.contains(format) {
            formats.push(format);
        }
    }
    let named: Vec<&str> = found.iter().take(MAX_NAMED).map(|(file, _)| *file).collect();
    let more = found.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if found.is_empty() {
        return String::new();
    }
    let read =
        if formats == ["GGUF"] { "give its path" } else { "which is not read; the weights are needed as safetensors" };
    format!(", but {}{more} ({}), {read}", named.join(", "), formats.join(", "))
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn weights_in_other_formats_are_named() {
        let of = |files: &[&str]| hint(files.iter().copied());
        assert_eq!(of(&["config.json", "tokenizer.json"]), "");
        let onnx = of(&["onnx/model_int8.onnx", "config.json", "onnx/model.onnx"]);
        assert_eq!(
            onnx,
            ", but onnx/model.onnx, onnx/model_int8.onnx (ONNX), which is not read; the weights are needed as safetensors"
        );
        assert!(of(&["a.onnx", "b.onnx", "c.onnx", "d.onnx", "e.onnx"]).contains("d.onnx and 1 more (ONNX)"));
        assert!(of(&["tf_model.h5", "openvino/openvino_model.xml"]).contains("(OpenVINO, TensorFlow)"));
        assert!(of(&["q8.gguf"]).ends_with("give its path"));
    }
}
