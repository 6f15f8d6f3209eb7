//! Files of a valid model with damage at random places: each loads or is refused, without a panic, an abort, or memory
//! beyond the file's size. The seed is fixed, so that failures can be repeated.

use super::gguf::llama;
use super::{copy_of, fixture, options};
use crate::options::ModelSource;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fs;
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

/// Changes tried on each file.
const TRIES: u64 = 250;

/// Limit of the peak resident memory of this test program. The models have a megabyte.
const MAX_RESIDENT: u64 = 1 << 30;

/// Numbers that are difficult for parsers.
const NUMBERS: [u64; 10] = [0, 1, 0x7f, 0xff, 1 << 16, 1 << 31, u32::MAX as u64, 1 << 40, i64::MAX as u64, u64::MAX];

/// Texts that are difficult for JSON parsers.
const TEXTS: [&str; 14] = [
    "-1",
    "0",
    "1e308",
    "-0.0",
    "18446744073709551615",
    "99999999999999999999",
    "null",
    "true",
    "[",
    "{",
    "\"",
    "\\u0000",
    "\\ud800",
    "[[[[[[[[[[[[",
];

/// Damages a file in one to three of its bytes in `place`.
fn damage(bytes: &mut Vec<u8>, place: &Range<usize>, random: &mut SmallRng) {
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(place.clone());
        if at >= bytes.len() {
            return;
        }
        match random.random_range(0..8) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.random_range(1..64)).min(bytes.len()))),
            4 => {
                let part = bytes[at..(at + random.random_range(1..64)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, part));
            }
            5 => {
                let number = NUMBERS.choose(random).unwrap().to_le_bytes();
                let length = [1, 4, 8].choose(random).copied().unwrap().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&number[..length]);
            }
            6 => drop(bytes.splice(at..at, TEXTS.choose(random).unwrap().bytes())),
            // Replaces a number in JSON.
            _ => {
                let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { return };
                let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                drop(bytes.splice(start..start + digits, TEXTS.choose(random).unwrap().bytes()));
            }
        }
    }
}

/// Damages `name` of the model in `dir` repeatedly at `place`; returns the number of refusals.
fn refusals(dir: &Path, name: &str, place: Range<usize>, seed: u64) -> u64 {
    let path = dir.join(name);
    let whole = fs::read(&path).unwrap();
    let place = place.start..place.end.min(whole.len());
    let mut refused = 0;
    for i in 0..TRIES {
        let mut bytes = whole.clone();
        damage(&mut bytes, &place, &mut SmallRng::seed_from_u64(seed << 32 | i));
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = crate::load(&options(ModelSource::Path(dir.to_owned()))) {
            let message = error.to_string();
            assert!(!message.is_empty() && message.len() < 100_000, "{name} {i}: {} bytes of message", message.len());
            refused += 1;
        }
    }
    fs::write(&path, whole).unwrap();
    refused
}

/// Peak memory of this process in bytes.
fn peak_resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn check(dir: &Path, name: &str, place: Range<usize>, seed: u64) {
    let refused = refusals(dir, name, place, seed);
    assert!(refused > TRIES / 10, "{name}: only {refused} of {TRIES} are refused; is it read at all?");
    let peak = peak_resident();
    assert!(peak < MAX_RESIDENT, "{name}: {peak} bytes");
}

#[test]
fn a_damaged_config() {
    check(copy_of("llama-tiny").path(), "config.json", 0..usize::MAX, 1);
}

#[test]
fn a_damaged_tokenizer() {
    check(copy_of("qwen3-tiny").path(), "tokenizer.json", 0..usize::MAX, 2);
    // The header's descriptions, without the vocabulary.
    check(copy_of("qwen3-tiny").path(), "tokenizer.json", 0..3000, 3);
}

#[test]
fn a_damaged_safetensors_file() {
    let dir = copy_of("qwen3-tiny");
    let bytes = fs::read(fixture("qwen3-tiny").join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    check(dir.path(), "model.safetensors", 0..8 + header, 4);
    check(dir.path(), "model.safetensors", 0..16, 5);
}

#[test]
fn a_damaged_gguf_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("model.gguf");
    llama().write(&path);
    let bytes = fs::read(&path).unwrap();
    let position = |name: &[u8]| bytes.windows(name.len()).rposition(|window| window == name).unwrap();
    let (first, last) = (position(b"blk.0.attn_k.weight"), position(b"token_embd.weight"));
    check(dir.path(), "model.gguf", 0..first, 6);
    check(dir.path(), "model.gguf", 0..1024, 7);
    check(dir.path(), "model.gguf", first..last, 8);
}

#[test]
fn damaged_modules() {
    for (seed, name) in
        ["modules.json", "1_Pooling/config.json", "config_sentence_transformers.json"].iter().enumerate()
    {
        check(copy_of("qwen3-tiny").path(), name, 0..usize::MAX, 10 + seed as u64);
    }
}
