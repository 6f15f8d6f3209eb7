//! Limits on a vocabulary: the structures that the library builds from all pieces, and its work per text because of them.

use super::sums::TokenizerSums;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Maximum bytes of a token.
pub(super) const MAX_TOKEN_BYTES: usize = 2048;

/// Maximum pieces of a vocabulary, and merges of pieces. The largest known vocabularies have 0.9 million pieces and 0.5 million merges;
/// each takes some hundred bytes while the library reads them.
const MAX_PIECES: usize = 1 << 20;

/// Maximum bytes of all pieces together; the largest known vocabularies have about 10 MB.
const MAX_BYTES: usize = 16 << 20;

/// Maximum bytes of a Unigram piece. The library reads as many bytes of a text from each of its characters on, and frees the trie of
/// the pieces with one nested call per byte. SentencePiece makes pieces of up to 16 characters.
const MAX_UNIGRAM_BYTES: usize = 256;

/// Maximum Unigram pieces that are prefixes of one another: each is copied and looked up wherever a text contains the longest.
const MAX_NESTED: usize = 64;

/// Maximum bytes of a piece that may stand for a shorter text: the unknown token, or one of several with the same id. It is copied for
/// each such token of a text.
const MAX_REPEATED_BYTES: usize = 64;

/// The pieces of a `tokenizer.json`.
#[derive(Debug)]
pub(super) enum Vocabulary {
    /// With ids: BPE, WordPiece, WordLevel.
    Ids(Vec<(String, u32)>),
    /// With scores, by id: Unigram.
    Scores(Vec<String>),
}

impl Vocabulary {
    /// Checks the pieces; `unknown` is the one for what the others do not cover.
    ///
    /// # Errors
    /// They are beyond a limit; the rest of a sentence.
    pub(super) fn check(&self, unknown: Option<&str>, sums: &mut TokenizerSums) -> Result<(), String> {
        match self {
            Self::Ids(pieces) => check_pieces(pieces.iter().map(|(piece, id)| (piece.as_str(), *id)), unknown),
            Self::Scores(pieces) => check_unigram(pieces.iter().map(String::as_str), sums),
        }
    }
}

/// Checks the pieces of BPE, WordPiece or WordLevel before the library builds anything of them.
///
/// # Errors
/// They are beyond a limit; the rest of a sentence.
pub fn check_pieces<'a>(pieces: impl Iterator<Item = (&'a str, u32)>, unknown: Option<&str>) -> Result<(), String> {
    let (mut total, mut ids, mut long) = (Total::default(), Vec::new(), Vec::new());
    for (piece, id) in pieces {
        total.add(piece, id, MAX_TOKEN_BYTES)?;
        ids.push(id);
        if piece.len() > MAX_REPEATED_BYTES {
            long.push((id, piece.len()));
        }
    }
    if let Some(unknown) = unknown.filter(|unknown| unknown.len() > MAX_REPEATED_BYTES) {
        return Err(format!("has an unknown token of {} bytes, the limit is {MAX_REPEATED_BYTES}", unknown.len()));
    }
    ids.sort_unstable();
    let is_shared = |id| ids.partition_point(|&other| other <= id) - ids.partition_point(|&other| other < id) > 1;
    match long.into_iter().find(|&(id, _)| is_shared(id)) {
        None => Ok(()),
        Some((id, length)) => Err(format!(
            "has the id {id} for several tokens, one of {length} bytes; the limit of such tokens is {MAX_REPEATED_BYTES}"
        )),
    }
}

/// Checks the pieces of Unigram, by id, before the library builds anything of them, and adds them to the sums.
///
/// # Errors
/// They are beyond a limit; the rest of a sentence.
pub fn check_unigram<'a>(pieces: impl Iterator<Item = &'a str>, sums: &mut TokenizerSums) -> Result<(), String> {
    let (mut total, mut sorted) = (Total::default(), Vec::new());
    for (piece, id) in pieces.zip(0..) {
        total.add(piece, id, MAX_UNIGRAM_BYTES)?;
        sorted.push(piece.as_bytes());
    }
    sorted.sort_unstable();
    let trie = Trie::of(&sorted);
    if trie.nested > MAX_NESTED {
        return Err(format!("has {} pieces that are prefixes of one another, the limit is {MAX_NESTED}", trie.nested));
    }
    sums.add_trie(sorted.len(), trie.bytes)
}

/// Checks the number of BPE's merges.
///
/// # Errors
/// They are too many; the rest of a sentence.
pub fn check_merges(count: usize) -> Result<(), String> {
    if count > MAX_PIECES {
        return Err(format!("has {count} merges, the limit is {MAX_PIECES}"));
    }
    Ok(())
}

/// The pieces so far.
#[derive(Default)]
struct Total {
    pieces: usize,
    bytes: usize,
}

impl Total {
    fn add(&mut self, piece: &str, id: u32, limit: usize) -> Result<(), String> {
        self.pieces += 1;
        self.bytes += piece.len();
        match piece.len() {
            length if length > limit => {
                Err(format!("has a token with the id {id} of {length} bytes, the limit is {limit}"))
            }
            _ if self.pieces > MAX_PIECES => Err(format!("has more than {MAX_PIECES} pieces, which is the limit")),
            _ if self.bytes > MAX_BYTES => {
                Err(format!("has pieces of more than {MAX_BYTES} bytes together, which is the limit"))
            }
            _ => Ok(()),
        }
    }
}

/// The library's trie: a node for each byte that a piece does not share with the pieces before it, with a hash table of
/// the node's children.
struct Trie {
    bytes: u64,
    /// The most pieces on a way from the root.
    nested: usize,
}

impl Trie {
    /// The trie of pieces in the order of their bytes.
    fn of(sorted: &[&[u8]]) -> Self {
        /// A node on the way to the last piece.
        #[derive(Default)]
        struct Node {
            children: u64,
            is_piece: bool,
        }
        let mut trie = Self { bytes: 0, nested: 0 };
        let (mut way, mut last, mut nested) = (vec![Node::default()], &[][..], 0);
        for &piece in sorted {
            let common = last.iter().zip(piece).take_while(|(one, other)| one == other).count();
            for node in way.drain(common + 1..) {
                trie.bytes += table_bytes(node.children);
                nested -= usize::from(node.is_piece);
            }
            for _ in common..piece.len() {
                if let Some(node) = way.last_mut() {
                    node.children += 1;
                }
                way.push(Node::default());
            }
            if let Some(end) = way.last_mut().filter(|end| !end.is_piece) {
                end.is_piece = true;
                nested += 1;
            }
            trie.nested = trie.nested.max(nested);
            last = piece;
        }
        trie.bytes += way.into_iter().map(|node| table_bytes(node.children)).sum::<u64>();
        trie
    }
}

/// Bytes of a hash table of nodes, one in eight of whose slots stays free.
fn table_bytes(nodes: u64) -> u64 {
    /// A byte and its node, which is a table and the seeds of its hashes.
    const NODE: u64 = 81;
    /// Bytes of a table in addition to its nodes.
    const TABLE: u64 = 32;
    match nodes {
        0 => 0,
        1..=3 => 4 * NODE + TABLE,
        nodes => (nodes * 8).div_ceil(7).next_power_of_two() * NODE + TABLE,
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabularyVisitor)
    }
}

struct VocabularyVisitor;

impl<'de> Visitor<'de> for VocabularyVisitor {
    type Value = Vocabulary;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ids by piece, or pairs of a piece and a score")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
        let mut pieces = Vec::new();
        while let Some(entry) = map.next_entry()? {
            within(pieces.len(), "pieces")?;
            pieces.push(entry);
        }
        Ok(Vocabulary::Ids(pieces))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
        let mut pieces = Vec::new();
        while let Some((piece, _)) = list.next_element::<(String, f64)>()? {
            within(pieces.len(), "pieces")?;
            pieces.push(piece);
        }
        Ok(Vocabulary::Scores(pieces))
    }
}

/// Merges of BPE, which are counted.
#[derive(Debug)]
pub(super) struct Merges;

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MergesVisitor)
    }
}

struct MergesVisitor;

impl<'de> Visitor<'de> for MergesVisitor {
    type Value = Merges;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
        let mut count = 0;
        while let Some(IgnoredAny) = list.next_element()? {
            within(count, "merges")?;
            count += 1;
        }
        Ok(Merges)
    }
}

/// Checks that there may be one more.
fn within<E: Error>(count: usize, what: &str) -> Result<(), E> {
    if count < MAX_PIECES {
        return Ok(());
    }
    Err(E::custom(format!("more than {MAX_PIECES} {what}, which is the limit")))
}

#[cfg(test)]
#[path = "tests/vocabulary.rs"]
mod tests;
