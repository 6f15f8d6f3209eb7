//! One test for each field, and all ways to hold equal tokens.

use super::*;
use proptest::prelude::*;
use std::hash::{BuildHasher, RandomState};

const IDS: [u32; 4] = [5, 6, 7, 8];

fn plain() -> Tokens {
    Tokens::new(IDS.to_vec())
}

/// Two runs that are equal up to a token, and differ in one field from there on.
fn differ_from(a: &Tokens, b: &Tokens, common: usize) {
    let hasher = RandomState::new();
    assert_eq!(a.as_slice().common_prefix_len(&b.as_slice()), common);
    assert_eq!(b.as_slice().common_prefix_len(&a.as_slice()), common);
    assert_ne!(a, b);
    assert_ne!(hasher.hash_one(a), hasher.hash_one(b));
    for index in 0..a.len() {
        let equal = a.as_slice().key(index) == b.as_slice().key(index);
        assert_eq!(equal, index < common, "{index}");
    }
    let halves = |tokens: &Tokens| {
        let tokens = tokens.as_slice();
        [tokens.range(0..common).into_owned(), tokens.tail(common).into_owned()]
    };
    let ([head_a, tail_a], [head_b, tail_b]) = (halves(a), halves(b));
    assert_eq!(head_a, head_b);
    assert_eq!(hasher.hash_one(head_a), hasher.hash_one(head_b));
    assert_ne!(tail_a, tail_b);
    // As rows of one batch they stay what they were.
    let mut rows = TokenRows::default();
    rows.extend(a.as_slice());
    rows.extend(b.as_slice());
    assert_eq!(rows.as_slice().range(0..a.len()), a.as_slice());
    assert_eq!(rows.as_slice().tail(a.len()), b.as_slice());
}

#[test]
fn ids_are_part_of_the_key() {
    differ_from(&plain(), &Tokens::new(vec![5, 6, 9, 10]), 2);
}

#[test]
fn token_types_are_part_of_the_key() {
    let typed = plain().with_token_types(vec![0, 1, 1, 1]).unwrap();
    differ_from(&plain(), &typed, 1);
    differ_from(&typed, &plain().with_token_types(vec![0, 1, 1, 2]).unwrap(), 3);
}

#[test]
fn positions_are_part_of_the_key() {
    let left_out = plain().with_positions(vec![0, 1, 3, 4]).unwrap();
    differ_from(&plain(), &left_out, 2);
    differ_from(&plain(), &plain().with_positions(vec![2, 3, 4, 5]).unwrap(), 0);
    differ_from(&left_out, &plain().with_positions(vec![0, 1, 3, 5]).unwrap(), 3);
}

#[test]
fn each_token_needs_a_type_and_a_position() {
    let error = plain().with_token_types(vec![0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "4 token ids but 3 token types");
    assert_eq!(plain().with_positions(vec![0; 5]).unwrap_err().to_string(), "4 token ids but 5 positions");
}

#[test]
fn rows_have_types_from_the_first_that_is_not_0() {
    let mut rows = TokenRows::default();
    rows.extend(plain().as_slice());
    rows.extend(plain().with_token_types(vec![0; 4]).unwrap().as_slice());
    assert_eq!(rows.token_type_ids(), None);
    rows.extend(plain().with_token_types(vec![0, 0, 1, 1]).unwrap().as_slice());
    rows.extend(plain().as_slice());
    rows.pad(18);
    assert_eq!(rows.token_type_ids(), Some(&[vec![0; 10], vec![1; 2], vec![0; 6]].concat()[..]));
    rows.clear();
    assert_eq!((rows.len(), rows.token_type_ids()), (0, None));
}

#[test]
fn positions_at_the_end_of_all_numbers_stay_listed() {
    for positions in [vec![u32::MAX - 1, u32::MAX], vec![u32::MAX, 0]] {
        let tokens = Tokens::new(vec![1, 2]).with_positions(positions.clone()).unwrap();
        let mut rows = TokenRows::default();
        rows.extend(tokens.as_slice());
        assert_eq!(rows.position_ids(), positions);
    }
}

#[test]
fn scopes() {
    let (a, b) = (plain(), plain().in_scope(Scope(1)));
    let hasher = RandomState::new();
    assert_eq!((a.as_slice().common_prefix_len(&b.as_slice()), b.as_slice().tail(2).scope()), (0, Scope(1)));
    assert!(a != b && Tokens::default() != Tokens::default().in_scope(Scope(1)));
    assert_ne!(hasher.hash_one(&a), hasher.hash_one(&b));
    assert_eq!(b.as_slice().tail(2), plain().in_scope(Scope(1)).as_slice().tail(2));
}

#[test]
fn tasks() {
    let (a, b) = (plain(), plain().with_task(TaskId(1)));
    let hasher = RandomState::new();
    assert_eq!((a.as_slice().common_prefix_len(&b.as_slice()), b.as_slice().tail(2).task()), (0, TaskId(1)));
    assert!(a != b && b != plain().with_task(TaskId(2)) && Tokens::default() != Tokens::default().with_task(TaskId(1)));
    assert_ne!(hasher.hash_one(&a), hasher.hash_one(&b));
    assert_eq!(b.as_slice().tail(2), plain().with_task(TaskId(1)).as_slice().tail(2));
}

/// Tokens, and the same tokens with everything listed.
fn listed(lists: &[(u32, u32)], first: u32) -> [Tokens; 2] {
    let (ids, types): (Vec<u32>, Vec<u32>) = lists.iter().copied().unzip();
    let positions = (first..).take(ids.len()).collect();
    let listed = Tokens::new(ids.clone()).with_token_types(types.clone()).unwrap().with_positions(positions).unwrap();
    let short = Tokens { position_ids: Positions::From(first as usize), ..Tokens::new(ids) };
    let is_typed = types.iter().any(|&token_type| token_type > 0);
    [if is_typed { short.with_token_types(types).unwrap() } else { short }, listed]
}

proptest! {
    #[test]
    fn however_they_are_held(
        same in prop::collection::vec((0u32..2, 0u32..2), 0..60),
        tails in prop::array::uniform2(prop::collection::vec((0u32..2, 0u32..2), 0..40)),
        firsts in prop::array::uniform2(0u32..2),
    ) {
        let lists = [[&same[..], &tails[0]].concat(), [&same[..], &tails[1]].concat()];
        let equal = lists[0].iter().zip(&lists[1]).take_while(|(a, b)| a == b).count();
        let common = if firsts[0] == firsts[1] { equal } else { 0 };
        let hasher = RandomState::new();
        for a in listed(&lists[0], firsts[0]) {
            for b in listed(&lists[1], firsts[1]) {
                prop_assert_eq!(a.as_slice().common_prefix_len(&b.as_slice()), common);
                let is_equal = common == a.len() && common == b.len();
                prop_assert_eq!(a == b, is_equal);
                prop_assert_eq!(hasher.hash_one(&a) == hasher.hash_one(&b), is_equal);
            }
        }
    }
}
