use super::*;
use crate::testing::support::{info, tasks};

const LIMIT: Duration = Duration::from_millis(250);

fn rows(rows: usize) -> Work {
    Work { rows, pairs: 0 }
}

/// Work of a pass with this many rows for each part, and no pairs.
fn pass(by_part: &[usize]) -> WorkBySubModel {
    let mut work = WorkBySubModel::default();
    by_part.iter().enumerate().for_each(|(sub_model, &count)| work.add(sub_model, rows(count)));
    work
}

#[test]
fn what_is_shared_may_go_beyond_the_bound() {
    let mut costs = SubModelCosts::new(SubModelMap::default(), 1);
    for pairs in [10_000, 500_000] {
        costs.observe(0, Work { rows: 1000, pairs }, Duration::from_nanos(20_000_000 + 30 * pairs));
    }
    let bound = costs.bound(Some(LIMIT));
    let allows = |rows, pairs| {
        let mut work = WorkBySubModel::default();
        work.add(0, Work { rows, pairs });
        bound.allows(&work, 0, Work::default())
    };
    assert!(allows(12_000, 10_000) && !allows(12_600, 10_000));
    assert!(!allows(12_000, 1_000_000), "pairs take time as well");
    // 50 ms, which come on top of 250; and 430 ms, which count twice.
    for (shared, most) in [(2500, 15_000), (21_500, 43_000)] {
        let allows = |count| bound.allows(&pass(&[count]), 0, rows(shared));
        assert!(allows(most - 100) && !allows(most + 100), "{shared}");
        let room = bound.room(&pass(&[1000]), 0, rows(shared));
        assert!(room.abs_diff(most - 1000) < 100, "{room}");
    }
}

#[test]
fn the_passes_of_a_part_say_nothing_about_another() {
    let mut costs = SubModelCosts::new(info(tasks(&[1]), 1).sub_model_map(), 1);
    // A table, and an encoder of 1,200 tokens/s that has run once.
    costs.observe(1, rows(64), Duration::from_micros(53_333));
    for _ in 0..200 {
        costs.observe(0, rows(16_384), Duration::from_millis(5));
    }
    let bound = costs.bound(Some(LIMIT));
    let allows = |by_part: [usize; 2], sub_model| bound.allows(&pass(&by_part), sub_model, Work::default());
    assert!(allows([0, 299], 1) && !allows([0, 301], 1));
    assert!(allows([800_000, 0], 0) && !allows([830_000, 0], 0));
    assert!(allows([400_000, 150], 0) && !allows([400_000, 160], 1), "the times of both are in one batch");
    let encoder = bound.room(&pass(&[400_000, 100]), 1, Work::default());
    let table = bound.room(&pass(&[400_000, 100]), 0, Work::default());
    assert!((50..55).contains(&encoder) && (145_000..150_000).contains(&table), "{encoder} {table}");
    // 50 ms that the encoder shares.
    assert!(bound.allows(&pass(&[0, 350]), 1, rows(60)) && !bound.allows(&pass(&[0, 350]), 0, rows(60)));
}

#[test]
fn nothing_is_known_of_a_part_that_has_not_run() {
    let mut costs = SubModelCosts::new(info(tasks(&[2, 1]), 1).sub_model_map(), 1);
    costs.observe(0, rows(16_384), Duration::from_millis(5));
    costs.observe(7, rows(1), Duration::from_secs(1));
    let bound = costs.bound(Some(LIMIT));
    let allows = |count| bound.allows(&pass(&[0, 0, count]), 2, Work::default());
    assert!(allows(250) && !allows(251), "a millisecond for each row");
}
