//! Check of a plan against a naive trie of its batch; for tests, and for fuzzing, which includes this file.

use super::{RadixPlan, RaggedBatch};
use std::collections::HashMap;

/// One hash lookup per token: what the plan must equal, written the obvious way.
struct NaiveTrie {
    gather: Vec<u32>,
    scatter: Vec<u32>,
    parents: Vec<Option<u32>>,
}

fn naive(batch: &RaggedBatch) -> NaiveTrie {
    let mut nodes: HashMap<(Option<u32>, [u32; 3]), u32> = HashMap::new();
    let types = types(batch.token_type_ids(), batch.total_tokens());
    let mut trie = NaiveTrie { gather: vec![], scatter: vec![], parents: vec![] };
    for b in 0..batch.num_sequences() {
        let mut parent = None;
        for row in batch.rows(b) {
            let key = (parent, [batch.input_ids()[row], types[row], batch.position_ids()[row]]);
            let node = *nodes.entry(key).or_insert_with(|| {
                trie.gather.push(row as u32);
                trie.parents.push(parent);
                trie.gather.len() as u32 - 1
            });
            trie.scatter.push(node);
            parent = Some(node);
        }
    }
    trie
}

/// Types, one by one.
fn types(list: Option<&[u32]>, rows: usize) -> Vec<u32> {
    list.map_or_else(|| vec![0; rows], <[u32]>::to_vec)
}

/// Everything that a plan promises about its batch.
pub(crate) fn check(batch: &RaggedBatch, multiple: usize) {
    let plan = RadixPlan::new(batch, multiple);
    let trie = naive(batch);
    let unique = plan.unique_tokens();
    assert_eq!(plan.scatter(), trie.scatter);
    assert_eq!(&plan.gather()[..unique], trie.gather, "gather is the first ragged row of each node");
    assert_eq!(plan.padded_tokens(), unique.next_multiple_of(multiple));
    assert_eq!([plan.gather().len(), plan.position_ids().len()], [plan.padded_tokens(); 2]);
    assert!(plan.gather()[unique..].iter().all(|&row| row == 0));

    let (ragged_types, compact_types) =
        (types(batch.token_type_ids(), batch.total_tokens()), types(plan.token_type_ids(), plan.padded_tokens()));
    for (row, &node) in plan.scatter().iter().enumerate() {
        assert_eq!(compact_types[node as usize], ragged_types[row]);
        assert_eq!(plan.input_ids()[node as usize], batch.input_ids()[row]);
        assert_eq!(plan.position_ids()[node as usize], batch.position_ids()[row]);
    }
    check_segments(batch, &plan, &trie);
}

fn check_segments(batch: &RaggedBatch, plan: &RadixPlan, trie: &NaiveTrie) {
    let mut children = vec![0; plan.unique_tokens()];
    trie.parents.iter().flatten().for_each(|&parent| children[parent as usize] += 1);
    let mut next_row = 0;
    for segment in plan.segments() {
        assert_eq!(segment.start, next_row, "segments partition the compact rows in order");
        assert!(segment.len > 0);
        next_row += segment.len;

        let path = batch.rows(segment.sequence as usize);
        let path = &plan.scatter()[path][..(segment.depth + segment.len) as usize];
        let rows: Vec<u32> = (segment.start..next_row).collect();
        assert_eq!(path[segment.depth as usize..], rows, "the representative passes through the segment");
        assert_eq!(trie.parents[segment.start as usize], path[..segment.depth as usize].last().copied());

        let inner = &children[segment.start as usize..next_row as usize - 1];
        assert!(inner.iter().all(|&n| n == 1), "no branch inside a segment");
        let only_child = children[next_row as usize - 1] == 1 && (next_row as usize) < plan.unique_tokens();
        if only_child {
            assert_ne!(trie.parents[next_row as usize], Some(next_row - 1), "a segment is as long as it can be");
        }
    }
    assert_eq!(next_row as usize, plan.unique_tokens());
}
