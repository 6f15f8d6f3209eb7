use super::*;
use crate::testing::support::{embedder, fake_output};

#[test]
fn an_output_answers_the_set_that_was_asked_for() {
    let sets = [Outputs::EMBEDDING, Outputs::TOKENS, Outputs::EMBEDDING.and(Outputs::TOKENS)];
    for asked in sets {
        let output = fake_output(&embedder(), &[1, 2, 3], asked);
        for wanted in sets {
            assert_eq!(output.answers(wanted, 3), wanted == asked, "{asked:?} for {wanted:?}");
        }
        assert_eq!(output.answers(asked, 2), asked == Outputs::EMBEDDING, "{asked:?} for other tokens");
    }
    assert_eq!(format!("{:?}", sets[2]), "Embedding and Tokens");
}
