use super::*;

const LIMIT: Duration = Duration::from_millis(250);

/// A machine that takes so many nanoseconds for a row and a pair.
fn after(passes: &[(usize, u64)], per_row: f64, per_pair: f64) -> CostModel {
    let mut model = CostModel::default();
    for &(rows, pairs) in passes {
        model.observe(rows, pairs, Duration::from_nanos((per_row * rows as f64 + per_pair * pairs as f64) as u64));
    }
    model
}

fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 0.01 * expected
}

#[test]
fn rows_and_pairs_are_told_apart() {
    let (per_row, per_pair) = after(&[(1000, 10_000), (1000, 500_000), (300, 90_000)], 2e4, 30.0).costs();
    assert!(is_near(per_row, 2e4) && is_near(per_pair, 30.0), "{per_row} {per_pair}");
    let bound = after(&[(1000, 10_000), (1000, 500_000)], 2e4, 30.0).bound(LIMIT);
    let allows = |rows, pairs| bound.allows(Work { rows, pairs }, Work::default());
    assert!(allows(12_000, 10_000) && !allows(12_600, 10_000));
    assert!(!allows(12_000, 1_000_000), "pairs take time as well");
    // 50 ms, which come on top of 250; and 430 ms, which count twice.
    for (shared, most) in [(2500, 15_000), (21_500, 43_000)] {
        let allows = |rows| bound.allows(Work { rows, pairs: 0 }, Work { rows: shared, pairs: 0 });
        assert!(allows(most - 100) && !allows(most + 100), "{shared}");
    }
}

#[test]
fn passes_of_one_shape_are_put_down_to_rows() {
    let model = after(&[(64, 64 * 16), (640, 640 * 16), (64, 64 * 16)], 1e5, 10.0);
    let (per_row, per_pair) = model.costs();
    assert!(per_pair == 0.0 && is_near(per_row, 1e5 + 160.0), "{per_row} {per_pair}");
}

#[test]
fn a_cost_is_never_negative() {
    let mut model = CostModel::default();
    // More pairs, less time.
    model.observe(100, 1_000_000, Duration::from_millis(1));
    model.observe(1000, 10, Duration::from_millis(100));
    assert!(model.costs().0 >= 0.0 && model.costs().1 >= 0.0, "{:?}", model.costs());
    let mut model = CostModel::default();
    model.observe(1000, 1_000_000, Duration::from_millis(1000));
    model.observe(1000, 10, Duration::ZERO);
    model.observe(2000, 100, Duration::ZERO);
    assert!(model.costs().0 >= 0.0 && model.costs().1 >= 0.0, "{:?}", model.costs());
}

#[test]
fn a_guess_gives_way_at_once_and_a_change_within_seconds() {
    let unmeasured = CostModel::default().bound(LIMIT);
    let allows = |rows| unmeasured.allows(Work { rows, pairs: 0 }, Work::default());
    assert!(allows(250) && !allows(251));
    let mut model = after(&[(64, 0)], 1e4, 0.0);
    assert!(is_near(model.costs().0, 1e4));
    // The machine is three times slower now.
    for _ in 0..60 {
        model.observe(8000, 0, Duration::from_millis(240));
    }
    assert!(is_near(model.costs().0, 3e4), "{:?}", model.costs());
}

#[test]
fn short_passes_do_not_hide_what_long_ones_cost() {
    let mut model = after(&[(10_000, 0)], 2e4, 0.0);
    for _ in 0..100 {
        // Mostly overhead.
        model.observe(10, 0, Duration::from_millis(3));
    }
    assert!((model.costs().0 - 2e4).abs() < 0.05 * 2e4, "{:?}", model.costs());
}

#[test]
fn a_pause_of_the_machine_is_not_taken_for_the_cost_of_rows() {
    let mut model = after(&[(10_000, 0); 20], 2e4, 0.0);
    model.observe(10_000, 0, Duration::from_secs(60));
    assert!(model.costs().0 < 2.0 * 2e4, "{:?}", model.costs());
    // A machine that has become a hundred times slower is believed after a few passes.
    for _ in 0..6 {
        model.observe(10_000, 0, Duration::from_secs(20));
    }
    assert!(is_near(model.costs().0, 2e6), "{:?}", model.costs());
}
