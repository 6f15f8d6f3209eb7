use super::*;
use crate::testing::support::{classifier, embedder, reranker};

fn tasks(capabilities: &Capabilities) -> Vec<&'static str> {
    capabilities.tasks().map(Task::as_str).collect()
}

#[test]
fn tasks_follow_from_the_set_and_the_first_is_the_models_own() {
    assert_eq!(tasks(&embedder()), ["embed", "rerank"]);
    assert_eq!(tasks(&reranker()), ["rerank"]);
    assert_eq!(tasks(&classifier(1)), ["rerank", "classify"]);
    assert_eq!(tasks(&classifier(3)), ["classify"]);
    assert_eq!(tasks(&tokens()), ["classify-tokens"]);
    assert_eq!(
        tasks(&Capabilities { classify: classifier(3).classify, ..embedder() }),
        ["embed", "rerank", "classify"]
    );
}

fn tokens() -> Capabilities {
    Capabilities::token_classifier(vec!["O".to_owned(), "B-PER".to_owned()], 8)
}

#[test]
fn contradictions_are_refused() {
    let embed = |change: fn(&mut Embed)| {
        let mut capabilities = embedder();
        capabilities.embed.as_mut().map(change).unwrap();
        capabilities
    };
    for (capabilities, problem) in [
        (Capabilities { max_input_length: 0, ..reranker() }, "no tokens"),
        (Capabilities { rerank: None, ..reranker() }, "nothing"),
        (embed(|embed| embed.dim = 0), "without values"),
        (embed(|embed| embed.token_dim = 0), "without values"),
        (embed(|embed| embed.truncate_dim = Some(embed.dim + 1)), "more values than they have"),
        (
            embed(|embed| embed.tasks = vec![TaskProfile { max_input_length: Some(0), ..Default::default() }]),
            "of a task",
        ),
        (classifier(0), "without labels"),
        (Capabilities { embed: None, ..embedder() }, "by cosine"),
        (Capabilities { rerank: Some(Rerank::Pair), ..classifier(3) }, "reranks pairs"),
        (Capabilities { rerank: Some(Rerank::Pair), ..embedder() }, "reranks pairs"),
        (Capabilities::token_classifier(vec![], 8), "token classifier without labels"),
        (Capabilities { classify_tokens: tokens().classify_tokens, ..embedder() }, "two answers for each token"),
    ] {
        let found = capabilities.check().unwrap_err();
        assert!(found.contains(problem), "{found}: {capabilities:?}");
    }
    for sound in [embedder(), reranker(), classifier(1), classifier(3), tokens()] {
        assert_eq!(sound.check(), Ok(()));
    }
}
