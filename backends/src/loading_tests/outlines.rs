//! Outlines say what a checkpoint says, and do without its weights.

use super::{copy_of, fixture, open};
use crate::checkpoint::Purpose;
use crate::options::{ModelSource, Task};
use crate::{ModelOutline, outline};
use std::fs;
use std::path::Path;

fn outline_of(path: &Path) -> ModelOutline {
    outline(&ModelSource::Path(path.to_owned()), None).unwrap()
}

#[test]
fn an_outline_is_the_checkpoints_without_its_weights() {
    for name in ["qwen3-tiny", "qwen2-tiny", "mistral-tiny", "qwen3-reranker-tiny", "qwen3-seqcls-tiny"] {
        let checkpoint = open(fixture(name)).unwrap();
        let dir = copy_of(name);
        fs::remove_file(dir.path().join("model.safetensors")).unwrap();
        let outline = outline_of(dir.path());
        let text = "The tide comes in twice a day.";
        let ids = |tokenizer: &tokenizers::Tokenizer| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        assert_eq!(ids(&outline.tokenizer), ids(&checkpoint.tokenizer), "{name}");
        assert_eq!(outline.max_input_length, checkpoint.max_input_length, "{name}");
        assert_eq!(outline.prompts, checkpoint.prompts, "{name}");
        let (shape, config) = (&outline.shape, &checkpoint.config);
        assert_eq!(outline.vocab_size, config.vocab_size, "{name}");
        assert_eq!((shape.hidden_size, shape.intermediate_size), (config.hidden_size, config.intermediate_size));
        assert_eq!((shape.num_heads, shape.num_kv_heads), (config.num_heads, config.num_kv_heads));
        assert_eq!((shape.head_dim, &shape.sliding_windows), (config.head_dim, &config.sliding_windows));
        let (task, template) = match checkpoint.purpose {
            Purpose::Embed { .. } => (Task::Embed, None),
            Purpose::Rerank { template, .. } => (Task::Rerank, Some(template)),
            Purpose::Classify { .. } => (Task::Classify, None),
        };
        assert_eq!((outline.task, outline.template), (task, template), "{name}");
    }
}

#[test]
fn a_classifier_that_is_asked_to_rerank_has_no_template() {
    let outline = outline(&ModelSource::Path(fixture("llama-seqcls-tiny")), Some(Task::Rerank)).unwrap();
    assert_eq!((outline.task, outline.template), (Task::Classify, None));
}

#[test]
fn a_language_model_that_does_not_say_what_it_is_for_embeds() {
    let dir = copy_of("llama-tiny");
    for file in ["modules.json", "1_Pooling/config.json"] {
        fs::remove_file(dir.path().join(file)).unwrap();
    }
    assert!(open(dir.path()).is_err());
    assert_eq!(outline_of(dir.path()).task, Task::Embed);
}

#[test]
fn what_is_wrong_with_the_files_is_not_taken_for_silence() {
    let dir = copy_of("llama-tiny");
    for (modules, words) in [("[", "modules.json: is not JSON"), ("[]", "modules.json: has no Pooling")] {
        fs::write(dir.path().join("modules.json"), modules).unwrap();
        let refused =
            |task| outline(&ModelSource::Path(dir.path().to_owned()), task).map_err(|error| error.to_string());
        assert!(refused(None).unwrap_err().contains(words));
        assert_eq!(refused(Some(Task::Embed)).unwrap().task, Task::Embed);
    }
}
