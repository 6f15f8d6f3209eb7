//! The order of documents by their scores, and the list of them.

use super::kept::Kept;
use crate::wire::json_writer::{split_around, text_steps};
use crate::wire::pieces::{JsonText, framed, write_value};
use crate::wire::ranking::Ranking;
use prefold_core::{Pauses, RerankScore};
use serde::Serialize;
use std::sync::Arc;

/// Units of work to rank one document.
const OF_DOCUMENT: usize = 64;

/// A document and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) index: usize,
    pub(crate) score: f32,
}

/// Best score first; equal scores keep the order of the request. With pauses: there may be a million.
pub(crate) async fn rank(scores: &[RerankScore], raw: bool, top_n: Option<usize>) -> Vec<Ranked> {
    let score = |score: &RerankScore| if raw { score.raw } else { score.score };
    let count = top_n.unwrap_or(usize::MAX).min(scores.len());
    let (mut order, mut pauses) = (Vec::with_capacity(count), Pauses::default());
    // Always by the raw score: probabilities may round to the same value where logits differ.
    for (index, _) in Ranking::of(scores.iter().map(|score| score.raw)).take(count) {
        order.push(Ranked { index, score: score(&scores[index]) });
        pauses.after(OF_DOCUMENT).await;
    }
    order
}

/// The list of scores, each with its document if documents are returned; `frame` gets an empty one to be replaced.
pub(super) fn scores_of<T: Serialize>(
    order: &Arc<[Ranked]>,
    kept: Option<Arc<[String]>>,
    frame: impl Fn(&Ranked, Option<String>) -> T + Send + 'static,
) -> JsonText {
    let order = Arc::clone(order);
    let ranks = 0..order.len();
    let Some(texts) = kept else {
        return JsonText::default().list(ranks, move |out, rank| write_value(out, &frame(&order[rank], None)));
    };
    JsonText::default().list_of(ranks, move |rank| {
        let ranked = &order[rank];
        let (before, after) = split_around(&frame(ranked, Some(String::new())), "\"\"");
        framed(before, text_steps(Kept { texts: Arc::clone(&texts), index: ranked.index }), after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f32]) -> Vec<RerankScore> {
        values.iter().map(|&raw| RerankScore { raw, score: prefold_core::sigmoid(raw) }).collect()
    }

    fn order(ranked: &[Ranked]) -> Vec<usize> {
        ranked.iter().map(|ranked| ranked.index).collect()
    }

    #[tokio::test]
    async fn the_best_come_first_and_equals_keep_their_order() {
        let scores = scores(&[0.5, 2.0, -1.0, 2.0, 0.5]);
        assert_eq!(order(&rank(&scores, false, None).await), [1, 3, 0, 4, 2]);
        assert_eq!(order(&rank(&scores, false, Some(2)).await), [1, 3]);
        assert_eq!(order(&rank(&scores, false, Some(9)).await).len(), 5);
        assert_eq!(rank(&scores, true, Some(1)).await, [Ranked { index: 1, score: 2.0 }]);
        assert_eq!(rank(&scores, false, Some(1)).await[0].score, prefold_core::sigmoid(2.0));
    }

    #[test]
    fn documents_stand_in_their_frames() {
        #[derive(Serialize)]
        struct Frame {
            index: usize,
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<String>,
        }
        let order: Arc<[Ranked]> = [1, 0].map(|index| Ranked { index, score: 0.5 }).into();
        let frame = |ranked: &Ranked, text| Frame { index: ranked.index, text };
        let written = |kept| String::from_utf8(scores_of(&order, kept, frame).flatten().collect()).unwrap();
        assert_eq!(written(None), r#"[{"index":1},{"index":0}]"#);
        let texts = ["a \"\" b", ""].map(str::to_owned);
        let expected = r#"[{"index":1,"text":""},{"index":0,"text":"a \"\" b"}]"#;
        assert_eq!(written(Some(texts.to_vec().into())), expected);
    }

    #[tokio::test]
    async fn saturated_probabilities_are_still_in_order() {
        let scores = scores(&[30.0, 40.0, 35.0]);
        assert!(scores.iter().all(|score| score.score == 1.0));
        assert_eq!(order(&rank(&scores, false, None).await), [1, 2, 0]);
    }
}
