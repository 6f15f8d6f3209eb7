//! Runs every target on its corpus and on deterministic mutations of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests; clippy sees tests only in test functions"
)]

mod seeds;

use prefold_fuzz::requests::{DESCRIPTION, ROUTES, answer};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// Maximum total bytes of the corpora, which are committed.
const MAX_CORPUS: usize = 1_000_000;

/// Maximum bytes of a mutated input.
const MAX_INPUT: usize = 16_384;

fn corpus_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Inputs of a corpus by name.
fn read_corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(corpus_of(target)).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())).collect()
}

/// Runs a target on its corpus and on a number of mutations of it.
fn run(name: &str, mutations: usize) {
    let target = prefold_fuzz::target(name).unwrap();
    let check = |input: &[u8], what: &str| {
        if catch_unwind(|| target(input)).is_err() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
            fs::write(&path, input).unwrap();
            panic!("the target {name} fails for {what}, which is in {}", path.display());
        }
    };
    let corpus = read_corpus(name);
    corpus.iter().for_each(|(file, input)| check(input, file));
    let corpus: Vec<_> = corpus.into_values().collect();
    let mut rng = SmallRng::seed_from_u64(0x5eed);
    for number in 0..mutations {
        check(&mutated(&corpus, &mut rng), &format!("mutation {number}"));
    }
}

/// Corpus input with a few changes of kinds that tend to expose parser faults.
fn mutated(corpus: &[Vec<u8>], rng: &mut SmallRng) -> Vec<u8> {
    const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 62, u64::MAX];
    const WORDS: [&str; 16] = [
        "null",
        "true",
        "-1",
        "0",
        "1e999",
        "1.5",
        "18446744073709551616",
        "\"\"",
        "[]",
        "{}",
        "[[",
        "\\ud800",
        "\u{0}",
        "\u{1f98a}",
        ",",
        "\"",
    ];
    let mut input = corpus.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(1..=3) {
        let place = rng.random_range(0..=input.len());
        let end = rng.random_range(place..=input.len().min(place + 32));
        match rng.random_range(0..7) {
            0 if place < input.len() => input[place] ^= 1 << rng.random_range(0..8),
            1 => drop(input.drain(place..end)),
            2 => {
                let copy = input[place..end].to_vec();
                input.splice(end..end, copy);
            }
            3 => {
                let bytes = NUMBERS.choose(rng).unwrap().to_le_bytes();
                let end = input.len().min(place + bytes.len());
                input.splice(place..end, bytes);
            }
            4 => drop(input.splice(place..end, WORDS.choose(rng).unwrap().bytes())),
            5 => {
                let other = corpus.choose(rng).unwrap();
                let from = rng.random_range(0..=other.len());
                input.truncate(place);
                input.extend_from_slice(&other[from..]);
            }
            _ => input.truncate(place),
        }
    }
    input.truncate(MAX_INPUT);
    input
}

#[test]
fn config() {
    run("config", 1500);
}

#[test]
fn encoder() {
    run("encoder", 1500);
}

#[test]
fn gguf() {
    run("gguf", 1500);
}

#[test]
fn radix() {
    run("radix", 10_000);
}

#[test]
fn recipe() {
    run("recipe", 50_000);
}

#[test]
fn requests() {
    run("requests", 15_000);
}

#[test]
fn pytorch() {
    run("pytorch", 1500);
}

#[test]
fn safetensors() {
    run("safetensors", 1500);
}

/// Run with `UPDATE_CORPUS=1` after a change of the seeds.
#[test]
fn every_seed_is_in_the_corpus() {
    for (target, seeds) in seeds::all() {
        let directory = corpus_of(target);
        if std::env::var_os("UPDATE_CORPUS").is_some() {
            fs::create_dir_all(&directory).unwrap();
            for (name, input) in &seeds {
                fs::write(directory.join(format!("seed-{name}")), input).unwrap();
            }
        }
        let corpus = read_corpus(target);
        for (name, input) in seeds {
            let stale = "is stale: UPDATE_CORPUS=1 cargo test -p prefold-fuzz every_seed";
            assert!(corpus.get(&format!("seed-{name}")) == Some(&input), "corpus/{target}/seed-{name} {stale}");
        }
    }
}

#[test]
fn the_corpora_are_small_and_every_target_has_one() {
    let sizes = prefold_fuzz::TARGETS.map(|(name, _)| read_corpus(name).values().map(Vec::len).sum::<usize>());
    assert!(sizes.iter().all(|&size| size > 0), "{sizes:?}");
    assert!(sizes.iter().sum::<usize>() < MAX_CORPUS, "{sizes:?}");
}

/// Seeds must be accepted, because refused ones reach little code.
#[test]
fn the_seeds_of_requests_are_answered() {
    let mut refused = Vec::new();
    for (name, input) in read_corpus("requests") {
        let Some((status, body)) = answer(&input) else { panic!("{name} has no known route and model") };
        // Seeds meant to be accepted are numbered.
        if name.starts_with("seed-") && name.as_bytes()[5].is_ascii_digit() && status != 200 {
            refused.push(format!("{name}: {status} {}", String::from_utf8_lossy(&body)));
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn every_route_with_a_body_is_fuzzed() {
    let numbers: BTreeSet<u8> = ROUTES.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len(), ROUTES.len(), "two routes have the same number");
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let paths = description["paths"].as_object().unwrap();
    for (path, item) in paths {
        let has_body = item.get("post").is_some_and(|post| post.get("requestBody").is_some());
        assert!(!has_body || ROUTES.iter().any(|(_, route)| route == path), "{path} is not in ROUTES");
    }
}
