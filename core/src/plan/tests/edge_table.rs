//! Against the standard library's map, through many generations.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn key(index: u32) -> EdgeKey {
    let first = TokenKey { input_id: index / 3 % 7, token_type_id: index / 21 % 2, position_id: index / 42 };
    EdgeKey { parent_end: index % 3, first }
}

fn get(table: &EdgeTable, key: EdgeKey) -> Option<u32> {
    table.find(key).ok()
}

fn insert(table: &mut EdgeTable, key: EdgeKey, edge: u32) {
    let vacancy = table.find(key).unwrap_err();
    table.insert(vacancy, edge);
}

#[test]
fn generations_do_not_see_each_other_even_when_their_number_wraps() {
    let mut table = EdgeTable { generation: u32::MAX - 2, ..EdgeTable::default() };
    for round in 0..6 {
        assert_eq!(get(&table, key(5)), None, "round {round}");
        insert(&mut table, key(5), round);
        assert_eq!(get(&table, key(5)), Some(round));
        assert_eq!(get(&table, key(6)), None);
        table.clear();
    }
}

proptest! {
    #[test]
    fn equals_a_map(rounds in prop::collection::vec(prop::collection::vec(0u32..2_000, 0..400), 1..6)) {
        let mut table = EdgeTable::default();
        for indices in rounds {
            let mut map = HashMap::new();
            for index in indices {
                prop_assert_eq!(get(&table, key(index)), map.get(&index).copied());
                if !map.contains_key(&index) {
                    map.insert(index, map.len() as u32);
                    insert(&mut table, key(index), map[&index]);
                }
            }
            prop_assert!(table.len * SLOTS_PER_KEY <= table.slots.len());
            table.clear();
        }
    }
}
