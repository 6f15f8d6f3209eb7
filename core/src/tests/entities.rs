use super::*;
use crate::outputs::Output;
use crate::outputs::OutputKind;
use crate::response::TextToken;

/// Tokens of "Jo Smith in New York" as WordPiece makes them, each with the logit 4 of one label.
fn text(labels: [usize; 6]) -> TokenLogits {
    let token = |id, token: &str, start, end| TextToken {
        id,
        token: token.to_owned(),
        start,
        end,
        continues: token.starts_with("##"),
    };
    let tokens = vec![
        token(1, "Jo", 0, 2),
        token(2, "Smi", 3, 6),
        token(3, "##th", 6, 8),
        token(4, "in", 9, 11),
        token(5, "New", 12, 15),
        token(6, "York", 16, 20),
    ];
    let row = |label: usize| (0..5).map(move |i| if i == label { 4.0 } else { 0.0 });
    let logits = labels.into_iter().flat_map(row).collect();
    let output = Output::of(OutputKind::Tokens, logits, 5);
    TokenLogits::new("J\u{f6} Smith in New York".to_owned(), tokens, &[true; 6], 5, output).unwrap()
}

fn labels() -> Vec<String> {
    ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"].map(str::to_owned).to_vec()
}

/// An entity as answers show it.
struct Shown {
    token: String,
    label: String,
    start: usize,
    end: usize,
    score: f32,
    logits: Vec<f32>,
}

/// The entities of a text, without the label `O` if it is ignored.
fn entities(text: &TokenLogits, aggregation: Aggregation, ignores_o: bool, raw: bool) -> Vec<Shown> {
    let (mut search, labels, mut found) = (text.clone().entities(aggregation, raw), labels(), Vec::new());
    loop {
        match search.step(&labels) {
            Step::Done => break,
            Step::Working => {}
            Step::Found(entity) => {
                let label = aggregation.name_of(&labels[entity.label]).to_owned();
                let ((start, end), logits) = (search.range(&entity), search.logits(&entity).unwrap_or(&[]).to_vec());
                if !(ignores_o && label == "O") {
                    let token = search.token(&entity).to_owned();
                    found.push(Shown { token, label, start, end, score: entity.score, logits });
                }
            }
        }
    }
    assert_eq!(search.step(&labels), Step::Done);
    found
}

fn shown(found: &[Shown]) -> Vec<(&str, &str, usize, usize)> {
    found.iter().map(|it| (it.token.as_str(), it.label.as_str(), it.start, it.end)).collect()
}

#[test]
fn a_begin_starts_a_group_and_an_inside_goes_on_with_its_kind() {
    let text = text([1, 2, 4, 0, 3, 3]);
    let simple = entities(&text, Aggregation::Simple, true, false);
    let expected = [("J\u{f6} Smi", "PER", 0, 6), ("th", "LOC", 6, 8), ("New", "LOC", 12, 15), ("York", "LOC", 16, 20)];
    assert_eq!(shown(&simple), expected);
    // A word has one label, its first token's.
    let first = entities(&text, Aggregation::First, true, false);
    assert_eq!(shown(&first)[0], ("J\u{f6} Smith", "PER", 0, 8));
    let none = entities(&text, Aggregation::None, false, true);
    assert_eq!((none.len(), shown(&none)[2], none[2].logits[4]), (6, ("##th", "I-LOC", 6, 8), 4.0));
    let softmaxed = 4.0_f32.exp() / (4.0_f32.exp() + 4.0);
    assert!(simple.iter().all(|entity| (entity.score - softmaxed).abs() < 1e-6));
}

#[test]
fn a_word_has_the_label_of_its_surest_token_or_of_the_mean() {
    let mut text = text([0, 1, 4, 0, 0, 0]);
    text.logits[5 + 1] = 3.0;
    text.logits[10 + 1] = 3.5;
    let word = |text: &TokenLogits, aggregation| {
        let [raw, softmaxed] = [true, false].map(|raw| entities(text, aggregation, true, raw));
        assert_eq!(shown(&raw), shown(&softmaxed), "probabilities choose");
        (raw[0].label.clone(), raw[0].score)
    };
    assert_eq!(word(&text, Aggregation::First), ("PER".to_owned(), 3.0));
    assert_eq!(word(&text, Aggregation::Average), ("PER".to_owned(), 3.25));
    // The larger logit has a lower probability if another one is large.
    assert_eq!(word(&text, Aggregation::Max), ("PER".to_owned(), 3.0));
    text.logits[5 + 1] = 1.5;
    assert_eq!(word(&text, Aggregation::Max), ("LOC".to_owned(), 4.0));
}

#[test]
fn rows_of_special_tokens_are_left_out() {
    let tokens = vec![TextToken { id: 7, token: "a".to_owned(), start: 0, end: 1, continues: false }];
    let output = || Output::of(OutputKind::Tokens, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2);
    let of = |kept: &[bool]| TokenLogits::new("a".to_owned(), tokens.clone(), kept, 2, output());
    assert_eq!(of(&[false, true, false]).unwrap().row(0), [3.0, 4.0]);
    assert!(of(&[false, true, false]).unwrap().row(1).is_empty(), "there is no second token");
    assert!(of(&[false, true]).is_err());
    assert!(TokenLogits::new(String::new(), vec![], &[], 2, Output::of(OutputKind::Logits, vec![], 0)).is_err());
}
