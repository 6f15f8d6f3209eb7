//! Summaries agree with checkpoints and need no weights.

use super::{copy_of, fixture, open};
use crate::checkpoint::{ModelSummary, model_summary};
use crate::options::ModelSource;
use prefold_core::{Folding, Rerank, Task};
use std::fs;
use std::path::Path;

fn summary_of(path: &Path) -> ModelSummary {
    model_summary(&ModelSource::Path(path.to_owned()), None).unwrap()
}

#[test]
fn a_summary_is_the_checkpoints_without_its_weights() {
    for name in ["qwen3-tiny", "qwen2-tiny", "mistral-tiny", "qwen3-reranker-tiny", "qwen3-seqcls-tiny"] {
        let checkpoint = open(fixture(name)).unwrap();
        let dir = copy_of(name);
        fs::remove_file(dir.path().join("model.safetensors")).unwrap();
        let summary = summary_of(dir.path());
        let text = "The tide comes in twice a day.";
        let ids = |tokenizer: &tokenizers::Tokenizer| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        assert_eq!(ids(&summary.tokenizer), ids(&checkpoint.tokenizer), "{name}");
        let (shape, config) = (&summary.shape, &checkpoint.config);
        assert_eq!(summary.vocab_size, config.vocab_size, "{name}");
        assert_eq!(
            (shape.hidden_size, shape.intermediate_size),
            (config.hidden_size, config.feed_forward.intermediate_size)
        );
        assert_eq!((shape.num_heads, shape.num_kv_heads), (config.attention.num_heads, config.attention.num_kv_heads));
        assert_eq!((shape.head_dim, &shape.sliding_windows), (config.attention.head_dim, &config.sliding_windows));
        let mut capabilities = summary.capabilities;
        // The fixture's own folder says in its name that it is a Qwen3-Reranker.
        assert_eq!(capabilities.warnings.len(), usize::from(name == "qwen3-reranker-tiny"), "{name}");
        capabilities.warnings.clear();
        assert_eq!(capabilities, *checkpoint.capabilities, "{name}");
    }
}

#[test]
fn several_models_share_no_prefixes() {
    assert_eq!(summary_of(&fixture("qwen3-tiny")).folding, Folding::Prefix);
    let (dir, decoder) = (copy_of("router-encoders-tiny"), fixture("qwen3-tiny"));
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(decoder.join(file), dir.path().join("document_0_Transformer").join(file)).unwrap();
    }
    fs::copy(decoder.join("1_Pooling/config.json"), dir.path().join("document_1_Pooling/config.json")).unwrap();
    let summary = summary_of(dir.path());
    assert_eq!((summary.model_type.as_str(), summary.folding), ("qwen3", Folding::Whole));
}

#[test]
fn a_classifier_that_is_asked_to_rerank_has_no_template() {
    let summary = model_summary(&ModelSource::Path(fixture("llama-seqcls-tiny")), Some(Task::Rerank)).unwrap();
    assert_eq!(summary.capabilities.rerank, Some(Rerank::Pair));
}

#[test]
fn a_language_model_that_does_not_say_what_it_is_for_embeds() {
    let dir = copy_of("llama-tiny");
    for file in ["modules.json", "1_Pooling/config.json"] {
        fs::remove_file(dir.path().join(file)).unwrap();
    }
    assert!(open(dir.path()).is_err());
    assert_eq!(summary_of(dir.path()).capabilities.tasks().next(), Some(Task::Embed));
}

#[test]
fn what_is_wrong_with_the_files_is_not_taken_for_silence() {
    let dir = copy_of("llama-tiny");
    for (modules, words) in [("[", "modules.json: is not JSON"), ("[]", "modules.json: has no Pooling")] {
        fs::write(dir.path().join("modules.json"), modules).unwrap();
        let refused =
            |task| model_summary(&ModelSource::Path(dir.path().to_owned()), task).map_err(|error| error.to_string());
        assert!(refused(None).unwrap_err().contains(words));
        assert_eq!(refused(Some(Task::Embed)).unwrap().capabilities.tasks().next(), Some(Task::Embed));
    }
}
