//! What a server's `/info` says about its model.

use serde_json::Value;

/// Facts about the served model; absent where the server does not state them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// Name that clients see.
    pub(crate) model: Option<String>,
    /// Type of the weights.
    pub(crate) dtype: Option<String>,
    /// A prefix that several texts of a batch share is computed once, as in decoders. Only prefold states it.
    pub(crate) shares_prefixes: Option<bool>,
    /// The model ranks texts and does not embed any.
    pub(crate) only_ranks: bool,
}

impl ServerInfo {
    /// Reads prefold's and text-embeddings-inference's fields.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let info: Value = serde_json::from_slice(body).unwrap_or_default();
        let answers = |task: &str| {
            let named = info["answers"].as_array().is_some_and(|all| all.iter().any(|answer| answer == task));
            named || task == "rerank" && info["answers"].is_null() && info["model_type"]["reranker"].is_object()
        };
        let text = |names: [&str; 2]| names.into_iter().find_map(|name| info[name].as_str()).map(str::to_owned);
        Self {
            model: text(["served_model_name", "model_id"]),
            dtype: text(["dtype", "model_dtype"]),
            // A causal model has the mode of its compacted attention here.
            shares_prefixes: info["attention"].as_str().map(|attention| !matches!(attention, "full" | "none")),
            only_ranks: answers("rerank") && !answers("embed"),
        }
    }

    /// Name of a series of measurements: model and type, or the URL of a server that states no model.
    pub(crate) fn label(model: Option<&str>, dtype: Option<&str>, url: &str) -> String {
        match (model, dtype) {
            (Some(model), Some(dtype)) => format!("{model}, {dtype}"),
            (Some(model), None) => model.to_owned(),
            (None, _) => url.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefolds_and_teis_fields_are_read() {
        let info = |body: &str| ServerInfo::parse(body.as_bytes());
        let text = |text: &str| Some(text.to_owned());
        let encoder = r#"{"model_id": "a/b", "served_model_name": "b", "dtype": "bfloat16", "attention": "full"}"#;
        let expected =
            ServerInfo { model: text("b"), dtype: text("bfloat16"), shares_prefixes: Some(false), only_ranks: false };
        assert_eq!(info(encoder), expected);
        let only_ranks = |body: &str| info(body).only_ranks;
        assert!(only_ranks(r#"{"answers": ["rerank", "classify"], "model_type": {"reranker": {}}}"#));
        assert!(only_ranks(r#"{"model_type": {"reranker": {"id2label": {}}}}"#));
        assert!(!only_ranks(r#"{"answers": ["embed", "rerank"]}"#) && !only_ranks(r#"{"answers": ["classify"]}"#));
        let shares = |attention: &str| info(&format!(r#"{{"attention": "{attention}"}}"#)).shares_prefixes;
        assert_eq!(["compact", "ragged", "full", "none"].map(shares), [true, true, false, false].map(Some));
        let tei = info(r#"{"model_id": "a/b", "model_dtype": "float16"}"#);
        assert_eq!(
            tei,
            ServerInfo { model: text("a/b"), dtype: text("float16"), shares_prefixes: None, only_ranks: false }
        );
        assert_eq!(info("<html>"), ServerInfo::default());
    }

    #[test]
    fn a_series_is_named_by_model_and_type() {
        assert_eq!(ServerInfo::label(Some("m"), Some("int8"), "u"), "m, int8");
        assert_eq!(ServerInfo::label(Some("m"), None, "u"), "m");
        assert_eq!(ServerInfo::label(None, Some("int8"), "u"), "u");
    }
}
