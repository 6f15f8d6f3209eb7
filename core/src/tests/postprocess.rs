use super::*;
use crate::capabilities::softmax;

#[test]
fn sigmoid_and_softmax_hold_at_the_extremes() {
    assert_eq!([sigmoid(0.0), sigmoid(200.0), sigmoid(-200.0)], [0.5, 1.0, 0.0]);
    assert!((sigmoid(1.5) - 0.817_574_5).abs() < 1e-6);
    assert_eq!(softmax(&[1e30, 1e30]), [0.5, 0.5]);
    let values = softmax(&[1.0, 2.0, 3.0]);
    assert!((values[2] - 0.665_240_96).abs() < 1e-6 && (values.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    assert!(softmax(&[]).is_empty());
}

#[test]
fn unit_length_whatever_the_scale() {
    for scale in [1e-30, 1.0, 1e30] {
        let mut vector = [3.0 * scale, -4.0 * scale];
        normalize(&mut vector);
        assert!((vector[0] - 0.6).abs() < 1e-6 && (vector[1] + 0.8).abs() < 1e-6, "{vector:?}");
    }
    let mut zero = [0.0; 3];
    normalize(&mut zero);
    assert_eq!(zero, [0.0; 3]);
}

#[test]
fn cosine_knows_direction_only() {
    assert!((cosine(&[1.0, 0.0], &[2e20, 2e20]) - 0.5f32.sqrt()).abs() < 1e-6);
    assert_eq!(cosine(&[1.0, 2.0], &[-2.0, -4.0]), -1.0);
    assert_eq!(cosine(&[0.0, 0.0], &[1.0, 1.0]), 0.0);
}

#[test]
fn scores_from_one_logit_or_from_no_and_yes() {
    let score = |logits: &[f32]| rerank_score(Output::of(OutputKind::Logits, logits.to_vec(), logits.len()));
    assert_eq!(score(&[0.0]).unwrap(), RerankScore { raw: 0.0, score: 0.5 });
    let reranked = score(&[1.0, 3.0]).unwrap();
    assert_eq!((reranked.raw, reranked.score), (2.0, sigmoid(2.0)));
    assert!(matches!(score(&[f32::MIN, f32::MAX]), Err(BackendError::NotFinite { .. })), "the difference overflows");
    assert!(matches!(score(&[1.0, 2.0, 3.0]), Err(BackendError::Contract(_))));
    assert!(matches!(rerank_score(Output::of(OutputKind::Embedding, vec![1.0], 1)), Err(BackendError::Contract(_))));
}

#[test]
fn outputs_of_another_form_are_refused() {
    assert!(embedding(Output::of(OutputKind::Embedding, vec![1.0; 3], 3), 4).is_err());
    assert!(embedding(Output::of(OutputKind::Logits, vec![1.0; 4], 4), 4).is_err());
    assert!(token_vectors(Output::of(OutputKind::Embedding, vec![1.0; 4], 4)).is_err());
    assert!(token_vectors(Output::of(OutputKind::Tokens, vec![], 0)).is_err());
    let vectors = token_vectors(Output::of(OutputKind::Tokens, vec![1.0, 2.0, 3.0, 4.0], 2)).unwrap();
    assert_eq!(vectors.into_rows().collect::<Vec<_>>(), [[1.0, 2.0], [3.0, 4.0]]);
}
