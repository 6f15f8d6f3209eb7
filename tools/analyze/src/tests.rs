//! Reports for the reference checkpoints.

use super::*;
use clap::Parser;
use serde_json::Value;
use std::io::Write;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    analyze: Analyze,
}

fn analyze(arguments: &[&str]) -> Analyze {
    Line::try_parse_from(std::iter::once(&"analyze").chain(arguments)).unwrap().analyze
}

fn source(model: &str) -> ModelSource {
    ModelSource::Path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(model))
}

fn report_of(model: &str, text: &str, arguments: &[&str]) -> Result<Value, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let analyze = analyze(&[&[path.as_str()], arguments].concat());
    let report = analyze.report(source(model), vec![]).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&report.to_json().unwrap()).unwrap())
}

/// Token count of one text.
fn tokens(model: &str, text: &str) -> u64 {
    report_of(model, &serde_json::to_string(text).unwrap(), &[]).unwrap()["input"]["tokens"].as_u64().unwrap()
}

fn size(report: &Value, texts: u64) -> &Value {
    report["batch_sizes"].as_array().unwrap().iter().find(|size| size["texts"] == texts).unwrap()
}

#[test]
fn equal_texts_by_hand() {
    let model = "qwen3-tiny";
    let text = "The tide comes in twice a day.";
    let n = tokens(model, text);
    let report = report_of(model, &format!("{text}\n").repeat(5), &[]).unwrap();
    assert_eq!(report["input"]["texts"], 5);
    assert_eq!(report["input"]["tokens"], 5 * n);
    let sizes: Vec<_> = report["batch_sizes"].as_array().unwrap().iter().map(|size| size["texts"].clone()).collect();
    assert_eq!(sizes, [1, 2, 4], "the batch of eight would not be full");
    for (texts, batches) in [(1, 5), (2, 2), (4, 1)] {
        let size = size(&report, texts);
        assert_eq!(size["batches"], batches);
        assert_eq!(size["compaction_ratio"], 1.0 / texts as f64);
        assert_eq!(size["attention_ratio"], 1.0 / texts as f64);
        // One text instead of `texts`, with all its costs.
        assert!((size["speed_up_compact"].as_f64().unwrap() - texts as f64).abs() < 1e-9);
        // Amdahl's law: attention, the fraction s, stays.
        let s = size["attention_share"].as_f64().unwrap();
        let ragged = 1.0 / (s + (1.0 - s) / texts as f64);
        assert!((size["speed_up_ragged"].as_f64().unwrap() - ragged).abs() < 1e-9);
        // Three layers of 64, MLP 128, 4 heads of 32 and 2 for keys and values: a row in Q, O, K, V and the three of the
        // MLP; a pair in the score and in the weighted sum.
        let rows = 3 * 2 * (2 * 64 * 128 + 2 * 64 * 64 + 3 * 64 * 128) * n;
        let pairs = 3 * 4 * 128 * n * (n + 1) / 2;
        assert!((s - pairs as f64 / (rows + pairs) as f64).abs() < 1e-12);
    }
    assert_eq!(size(&report, 4)["shared_prefix"]["p50"], n, "three of four repeat the first");
    assert_eq!(report["recommendation"]["worth_it"], true);
    assert_eq!(report["recommendation"]["batch_size"], 4);
}

#[test]
fn what_shares_nothing_is_not_worth_it() {
    // Only the end token is equal, so two texts of one token share no prefix.
    let report = report_of("llama-tiny", "\"a\"\n\"b\"\n", &["--template", "{text}{text}"]).unwrap();
    let shared = size(&report, 2)["compaction_ratio"].as_f64().unwrap();
    let first = report_of("qwen2-tiny", "apple\nzebra\nquick\nwhat\n", &[]).unwrap();
    assert_eq!(size(&first, 4)["compaction_ratio"], 1.0);
    assert_eq!(first["recommendation"]["worth_it"], false);
    assert_eq!(first["recommendation"]["radix_mlp_threshold"], 0.0);
    assert!(shared < 1.0, "llama's texts all begin with the same token");
}

#[test]
fn rerank_requests_become_what_the_endpoint_makes_of_them() {
    let line = r#"{"query": "tide", "texts": ["It comes twice.", "Bread."]}"#;
    // The texts share the prompt with the query.
    let reranker = report_of("qwen3-reranker-tiny", line, &[]).unwrap();
    assert_eq!((&reranker["input"]["requests"], &reranker["input"]["texts"]), (&1.into(), &2.into()));
    assert_eq!(reranker["model"]["task"], "rerank");
    assert!(size(&reranker, 2)["compaction_ratio"].as_f64().unwrap() < 0.7);
    // Texts and query, embedded separately.
    let embedder = report_of("qwen3-tiny", line, &[]).unwrap();
    assert_eq!(embedder["input"]["texts"], 3);
    // Pairs.
    let classifier = report_of("qwen3-seqcls-tiny", line, &[]).unwrap();
    assert_eq!((&classifier["input"]["texts"], &classifier["model"]["task"]), (&2.into(), &"classify".into()));
    // A template turns them into texts.
    let filled = report_of("qwen3-tiny", line, &["--template", r"query: {query}\ntext: {text}"]).unwrap();
    let expected =
        tokens("qwen3-tiny", "query: tide\ntext: It comes twice.") + tokens("qwen3-tiny", "query: tide\ntext: Bread.");
    assert_eq!(filled["input"]["tokens"], expected);
    let alone = report_of("qwen3-tiny", "a\n", &["--template", "{query}{text}"]).unwrap_err();
    assert!(alone.starts_with("line 1: has no query"), "{alone}");
}

#[test]
fn the_order_of_lines_is_kept_over_many_chunks() {
    // Batches of two: only the second line of each batch repeats the one before.
    let lines: String = (0..3 * LINES_AT_ONCE).map(|line| format!("{0:05} {0:05}\n", line / 2)).collect();
    let report = report_of("qwen3-tiny", &lines, &[]).unwrap();
    assert_eq!(report["input"]["texts"], 3 * LINES_AT_ONCE);
    assert_eq!(size(&report, 2)["compaction_ratio"], 0.5);
}

#[test]
fn what_is_wrong_is_said() {
    let missing = analyze(&["/no/such/file"]).report(source("qwen3-tiny"), vec![]).unwrap_err().to_string();
    assert!(missing.contains("/no/such/file"), "{missing}");
    let refused = |text: &str, arguments: &[&str]| report_of("qwen3-tiny", text, arguments).unwrap_err();
    assert!(refused("", &[]).contains("no text"));
    assert!(refused("\n\n", &[]).contains("no text"));
    assert!(refused("a", &["--prompt-name", "nobody"]).contains("nobody"));
    let empty = report_of("qwen3-seqcls-tiny", "{\"text\": \"ok\"}\n{\"text\": \"\"}", &[]).unwrap_err();
    assert!(empty.starts_with("line 2:") && empty.contains("no tokens"), "{empty}");
    let no_model = analyze(&[]).report(source("no-such-model"), vec![]).unwrap_err().to_string();
    assert!(no_model.contains("no-such-model"), "{no_model}");
    let parsed = Line::try_parse_from(["analyze", "--template", "{query}"]).err().unwrap().to_string();
    assert!(parsed.contains("must contain {text}"), "{parsed}");
}

fn text_of(lines: &str, arguments: &[&str]) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    let analyze = analyze(&[&[file.path().to_str().unwrap()], arguments].concat());
    let flags = ["--model-id", "a b"].map(str::to_owned).to_vec();
    analyze.report(source("qwen3-tiny"), flags).unwrap().to_string()
}

#[test]
fn the_text_tells_the_same() {
    let report = text_of(&"The tide comes in twice a day.\n".repeat(4), &["--task", "embed"]);
    for words in [
        "4 texts in 4 lines",
        "0.250",
        "4.00x",
        "Worth it: up to 4.00 times as fast in batches of 4 texts, with",
        "1 of 1 such batch has N'/N",
        "assumes full batches of 4 texts, consecutive",
        "    prefold --model-id 'a b' --task embed --radix-mlp-threshold 0.95 --max-batch-tokens 16384\n",
    ] {
        assert!(report.contains(words), "{words}\n{report}");
    }
    let alone = text_of("apple\n", &[]);
    for words in ["1 text in 1 line,", "batches of 1 text:", "One text shares nothing: give as many texts"] {
        assert!(alone.contains(words), "{words}\n{alone}");
    }
    assert!(!alone.contains("prefold --"), "{alone}");
}

#[test]
fn the_sentence_has_the_factors_of_the_table() {
    // Groups of growing size, so that larger batches share a little more.
    let lines: String = (0..600).map(|line| format!("Instruct: find what matters. {} {line}\n", line / 64)).collect();
    let report = text_of(&lines, &[]);
    let rows: Vec<Vec<&str>> = report.lines().map(|line| line.split_whitespace().collect()).collect();
    let factors: Vec<(&str, &str)> = rows.iter().filter(|row| row.len() == 11).map(|row| (row[0], row[10])).collect();
    let sentence = report.lines().find(|line| line.starts_with("Worth it")).unwrap();
    let words: Vec<&str> = sentence.split(' ').collect();
    let (speed_up, texts) = (words[4], words[11]);
    assert!(factors.contains(&(texts, format!("{speed_up}x").as_str())), "{report}");
    let most = factors.iter().map(|(_, factor)| factor.trim_end_matches('x')).max_by(|a, b| {
        let [a, b] = [a, b].map(|factor| factor.parse::<f64>().unwrap());
        a.total_cmp(&b)
    });
    assert!(sentence.contains(&format!("({} times with the best size)", most.unwrap())), "{report}");
}

#[test]
fn a_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let error = analyze(&[path]).report(source("qwen3-tiny"), vec![]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{path} is a directory")), "{error}");
}
