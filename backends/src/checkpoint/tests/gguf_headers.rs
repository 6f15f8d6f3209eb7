//! Wrong headers of GGUF files, byte by byte. Each is refused with the key or the tensor's name.

use super::gguf::llama;
use super::open;
use crate::memory_budget;
use std::fs;
use tempfile::TempDir;

/// Types of values.
const U8: u32 = 0;
const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// An entry of the metadata.
fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&string(key)[..], &kind.to_le_bytes(), value].concat()
}

/// The beginning of an array.
fn array(kind: u32, length: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &length.to_le_bytes()].concat()
}

fn tensor(name: &str, shape: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let shape_bytes: Vec<u8> = shape.iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let dimensions = (shape.len() as u32).to_le_bytes();
    [&string(name)[..], &dimensions, &shape_bytes, &kind.to_le_bytes(), &offset.to_le_bytes()].concat()
}

/// A file with these counts of tensors and entries, any content, and some bytes for tensors.
fn counted(tensors: u64, entries: u64, rest: &[Vec<u8>]) -> Vec<u8> {
    let numbers = [&3u32.to_le_bytes()[..], &tensors.to_le_bytes(), &entries.to_le_bytes()].concat();
    [b"GGUF", &numbers[..], &rest.concat(), &[0; 4096]].concat()
}

fn with_entries(entries: &[Vec<u8>]) -> Vec<u8> {
    counted(0, entries.len() as u64, entries)
}

fn with_tensors(tensors: &[Vec<u8>]) -> Vec<u8> {
    counted(tensors.len() as u64, 0, tensors)
}

fn refusal(bytes: &[u8]) -> String {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("model.gguf"), bytes).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.starts_with("model.gguf: "), "{message}");
    message
}

#[test]
fn files_that_are_something_else() {
    let other_end = [b"GGUF", &3u32.to_be_bytes()[..], &[0; 64]].concat();
    let old = [b"GGUF", &4u32.to_le_bytes()[..], &[0; 64]].concat();
    for (bytes, words) in [
        (&b""[..], "does not begin with"),
        (b"GGU", "does not begin with"),
        (b"ggjt\x03\0\0\0\0\0\0\0\0\0\0\0", "does not begin with"),
        (b"FUGG\x03\0\0\0\0\0\0\0\0\0\0\0", "does not begin with"),
        (b"GGUF\x03\0", "first fields"),
        (b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01", "first fields"),
        (&other_end, "version 50331648"),
        (&old, "version 4"),
    ] {
        let message = refusal(bytes);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn counts_and_lengths_beyond_the_file() {
    let one = entry("a", U8, &[1]);
    for (bytes, words) in [
        (counted(0, u64::MAX, std::slice::from_ref(&one)), "the 18446744073709551615 entries of metadata"),
        (counted(u64::MAX, 0, &[]), "18446744073709551615 tensors"),
        (counted(1 << 40, 1, &[one]), "1099511627776 tensors"),
        (counted(0, 100_001, &[vec![0; 3 << 20]]), "100001 entries of metadata, the limit is 100000"),
        (counted(100_001, 0, &[vec![0; 3 << 20]]), "100001 tensors, the limit is 100000"),
        (with_entries(&[u64::MAX.to_le_bytes().to_vec()]), "key 0 of 1 of the metadata has 18446744073709551615 bytes"),
        (with_entries(&[60_000u64.to_le_bytes().to_vec()]), "key 0 of 1 of the metadata extends beyond"),
        (
            with_entries(&[entry("a.b", STRING, &u64::MAX.to_le_bytes())]),
            "metadata `a.b` (entry 0 of 1) extends beyond",
        ),
        (with_entries(&[entry("a.b", STRING, &5000u64.to_le_bytes())]), "metadata `a.b` (entry 0 of 1) extends beyond"),
        (
            with_entries(&[entry("a.b", ARRAY, &array(U8, u64::MAX))]),
            "`a.b` (entry 0 of 1) has 18446744073709551615 values",
        ),
        (
            with_entries(&[entry("a.b", ARRAY, &array(U64, 1 << 60))]),
            "`a.b` (entry 0 of 1) has 1152921504606846976 values",
        ),
        (with_entries(&[entry("a.b", ARRAY, &array(U64, 1 << 20))]), "metadata `a.b` (entry 0 of 1) extends beyond"),
        (with_entries(&[entry("a.b", ARRAY, &array(STRING, 1 << 20))]), "metadata `a.b` (entry 0 of 1) extends beyond"),
        (with_tensors(&[u64::MAX.to_le_bytes().to_vec()]), "the name of tensor 0 of 1 has"),
    ] {
        let message = refusal(&bytes);
        assert!(message.contains(words), "{message}\nlacks {words}");
    }
}

#[test]
fn a_header_ends_within_its_limit() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("model.gguf");
    // The rest of the file is sparse.
    let text = [&(65_u64 << 20).to_le_bytes()[..], b"x"].concat();
    fs::write(&path, with_entries(&[entry("general.name", STRING, &text)])).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(100 << 20).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(
        message.contains("`general.name` (entry 0 of 1) extends beyond the end") && message.contains("64 MiB"),
        "{message}"
    );
}

#[test]
fn many_small_values_are_counted_over_all_arrays() {
    // Each value is a byte in the file and 32 in memory.
    let half = (1 << 22) + 1;
    let bytes = [array(U8, half), vec![0; half as usize]].concat();
    let message = refusal(&with_entries(&[entry("a", ARRAY, &bytes), entry("b", ARRAY, &bytes)]));
    assert!(message.contains("metadata `b` (entry 1 of 2) has 4194305 values; the limit is 8388608"), "{message}");
    let bytes = [array(U8, 1 << 21), vec![0; 1 << 21]].concat();
    memory_budget::LEFT.set(Some(100_000_000));
    let message = refusal(&with_entries(&[entry("a", ARRAY, &bytes)]));
    memory_budget::LEFT.set(None);
    assert!(
        message.contains("in arrays that all together would take 150994944 bytes of memory, this process may have"),
        "{message}"
    );
    // A nested array is 12 bytes in the file and 160 in memory.
    let many = (1 << 23) / 5 + 1;
    let bytes = [array(ARRAY, many), array(U8, 0).repeat(many as usize)].concat();
    let message = refusal(&with_entries(&[entry("a", ARRAY, &bytes)]));
    assert!(message.contains("metadata `a` (entry 0 of 1) has 0 values; the limit is 8388608"), "{message}");
    // The memory of many nested arrays is checked on the way.
    let many = 1 << 20;
    let bytes = [array(ARRAY, many), array(U8, 0).repeat(many as usize)].concat();
    memory_budget::LEFT.set(Some(200_000_000));
    let message = refusal(&with_entries(&[entry("a", ARRAY, &bytes)]));
    memory_budget::LEFT.set(None);
    assert!(message.contains("in arrays that all together would take 20"), "{message}");
}

#[test]
fn types_that_are_not_known_and_arrays_in_arrays() {
    let nested = |depth: usize| (0..depth).flat_map(|_| array(ARRAY, 1)).chain(array(U8, 0)).collect::<Vec<u8>>();
    for (bytes, words) in [
        (with_entries(&[entry("a.b", 13, &[0; 8])]), "metadata `a.b` (entry 0 of 1) is of type 13"),
        (with_entries(&[entry("a.b", u32::MAX, &[0; 8])]), "metadata `a.b` (entry 0 of 1) is of type 4294967295"),
        (with_entries(&[entry("a.b", ARRAY, &array(99, 1))]), "metadata `a.b` (entry 0 of 1) is of type 99"),
        (
            with_entries(&[entry("a.b", ARRAY, &nested(4))]),
            "metadata `a.b` (entry 0 of 1) has arrays nested more than 4 deep",
        ),
        (
            with_entries(&[entry("a.b", ARRAY, &nested(100_000))]),
            "metadata `a.b` (entry 0 of 1) has arrays nested more than",
        ),
        (with_entries(&[entry("a.b", BOOL, &[2])]), "`a.b` (entry 0 of 1) has the boolean 2"),
    ] {
        let message = refusal(&bytes);
        assert!(message.contains(words), "{message}\nlacks {words}");
    }
    // Three are accepted.
    assert!(refusal(&with_entries(&[entry("a.b", ARRAY, &nested(3))])).contains("general.architecture"));
}

#[test]
fn keys_and_tensors_must_not_come_twice() {
    let message = refusal(&with_entries(&[entry("a.b", U8, &[1]), entry("c", U8, &[1]), entry("a.b\0", U8, &[2])]));
    assert!(message.contains("metadata `a.b` occurs twice"), "{message}");
    let message = refusal(&with_tensors(&[tensor("t", &[4], 0, 0), tensor("t", &[4], 0, 32)]));
    assert!(message.contains("tensor `t` occurs twice"), "{message}");
}

#[test]
fn alignments_that_are_none() {
    for (kind, value, words) in [
        (U32, 0u64, "power of two, it is 0"),
        (U32, 33, "power of two, it is 33"),
        (U32, u64::from(u32::MAX), "power of two"),
        (U64, 32, "32 bits"),
        (STRING, 0, "32 bits"),
    ] {
        let message = refusal(&with_entries(&[entry("general.alignment", kind, &value.to_le_bytes())]));
        assert!(message.contains("`general.alignment`") && message.contains(words), "{message}");
    }
    // A possible tensor that is larger than the file.
    let large = entry("general.alignment", U32, &(1u32 << 31).to_le_bytes());
    let message = refusal(&counted(1, 1, &[large, tensor("t", &[4], 0, 0)]));
    assert!(message.contains("tensor `t` lies outside the file"), "{message}");
}

#[test]
fn tensors_in_impossible_places_and_of_impossible_types() {
    const F32: u32 = 0;
    const Q4_K: u32 = 12;
    for (bytes, words) in [
        (with_tensors(&[tensor("t", &[4], F32, u64::MAX)]), "tensor `t` "),
        (with_tensors(&[tensor("t", &[4], F32, u64::MAX - 31)]), "tensor `t` "),
        (with_tensors(&[tensor("t", &[4], F32, 1 << 20)]), "tensor `t` lies outside the file"),
        (with_tensors(&[tensor("t", &[1 << 20], F32, 0)]), "tensor `t` lies outside the file"),
        (with_tensors(&[tensor("t", &[4], F32, 1)]), "tensor `t` is not aligned"),
        (with_tensors(&[tensor("t", &[1 << 32, 1 << 32], F32, 0)]), "tensor `t` has the impossible shape"),
        (with_tensors(&[tensor("t", &[u64::MAX], F32, 0)]), "tensor `t` has the impossible shape"),
        (
            with_tensors(&[tensor("t", &[0, 1 << 40], F32, 0)]),
            "tensor `t` has no values: its shape is [1099511627776, 0]",
        ),
        (with_tensors(&[tensor("t", &[1, 1, 1, 1, 1], F32, 0)]), "tensor `t` (entry 0 of 1) has 5 dimensions"),
        (with_tensors(&[tensor("t", &[4], 4, 0)]), "tensor `t` (entry 0 of 1) is of type 4, which is not known"),
        (with_tensors(&[tensor("t", &[4], u32::MAX, 0)]), "tensor `t` (entry 0 of 1) is of type 4294967295"),
        // Whole blocks in total, but not in each row.
        (
            with_tensors(&[tensor("t", &[64, 4], Q4_K, 0)]),
            "tensor `t` has the shape [4, 64], whose rows are not a multiple of the block size, 256 values",
        ),
        (with_tensors(&[tensor("t", &[8], F32, 0), tensor("u", &[8], F32, 16)]), "tensors `t` and `u` overlap"),
        (with_tensors(&[tensor("t", &[8], F32, 0), tensor("u", &[8], F32, 0)]), "overlap"),
    ] {
        let message = refusal(&bytes);
        assert!(message.contains(words), "{message}\nlacks {words}");
    }
}

#[test]
fn of_several_faults_the_first_in_the_file_is_named() {
    let names = ["d", "b", "e", "a", "c"];
    let beyond: Vec<_> = names.iter().zip(20..).map(|(name, bit)| tensor(name, &[4], 0, 1 << bit)).collect();
    // The order of a map is another at each reading.
    for _ in 0..8 {
        let message = refusal(&with_tensors(&beyond));
        assert!(message.contains("tensor `d` lies outside"), "{message}");
    }
}

#[test]
fn layers_that_are_one_and_the_same_cannot_fill_the_memory() {
    let gguf = llama();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("model.gguf");
    gguf.write(&path);
    // A tensor gets the offset of another.
    let mut bytes = fs::read(&path).unwrap();
    let offset_of = |bytes: &[u8], name: &str| {
        let name = string(name);
        let start = bytes.windows(name.len()).position(|window| window == name).unwrap();
        // After the name, the number of dimensions, one dimension, and the type.
        start + name.len() + 4 + 8 + 4
    };
    let (from, to) = (offset_of(&bytes, "blk.0.attn_norm.weight"), offset_of(&bytes, "blk.1.attn_norm.weight"));
    bytes.copy_within(from..from + 8, to);
    fs::write(&path, bytes).unwrap();
    let message = open(&path).unwrap_err().to_string();
    assert!(message.contains("overlap") && message.contains("attn_norm.weight"), "{message}");
}
