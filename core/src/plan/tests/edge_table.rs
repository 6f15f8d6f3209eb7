//! Against the standard library's set, through many generations.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

/// Keys of several edges each; edge `index` is known by its number.
fn key(index: u32) -> EdgeKey {
    EdgeKey { parent_end: index % 3, input_id: index / 3 % 7 }
}

fn get(table: &EdgeTable, index: u32) -> Option<u32> {
    table.find(key(index), |edge| edge == index).ok()
}

fn insert(table: &mut EdgeTable, index: u32) {
    let vacancy = table.find(key(index), |edge| edge == index).unwrap_err();
    table.insert(vacancy, index);
}

#[test]
fn generations_do_not_see_each_other_even_when_their_number_wraps() {
    let mut table = EdgeTable { generation: u32::MAX - 2, ..EdgeTable::default() };
    for round in 0..6 {
        assert_eq!(get(&table, 5), None, "round {round}");
        insert(&mut table, 5);
        assert_eq!(get(&table, 5), Some(5));
        assert_eq!((get(&table, 6), get(&table, 5 + 21)), (None, None));
        table.clear();
    }
}

proptest! {
    #[test]
    fn equals_a_set(rounds in prop::collection::vec(prop::collection::vec(0u32..2_000, 0..400), 1..6)) {
        let mut table = EdgeTable::default();
        for indices in rounds {
            let mut entered = HashSet::new();
            for index in indices {
                prop_assert_eq!(get(&table, index).is_some(), entered.contains(&index));
                if entered.insert(index) {
                    insert(&mut table, index);
                }
            }
            prop_assert!((0..2_000).all(|index| get(&table, index).is_some() == entered.contains(&index)));
            prop_assert!(table.len * SLOTS_PER_KEY <= table.slots.len());
            table.clear();
        }
    }
}
