use super::*;

fn work(rows: usize, pairs: u64) -> Work {
    Work { rows, pairs }
}

/// A machine that takes this many nanoseconds for a row and for a pair.
fn after(passes: &[(usize, u64)], per_row: f64, per_pair: f64) -> CostModel {
    let mut model = CostModel::new(1);
    for &(rows, pairs) in passes {
        model
            .observe(work(rows, pairs), Duration::from_nanos((per_row * rows as f64 + per_pair * pairs as f64) as u64));
    }
    model
}

fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 0.01 * expected
}

#[test]
fn rows_and_pairs_are_told_apart() {
    let Cost { per_row, per_pair } = after(&[(1000, 10_000), (1000, 500_000), (300, 90_000)], 2e4, 30.0).cost();
    assert!(is_near(per_row, 2e4) && is_near(per_pair, 30.0), "{per_row} {per_pair}");
}

#[test]
fn passes_of_one_shape_are_put_down_to_rows() {
    let model = after(&[(64, 64 * 16), (640, 640 * 16), (64, 64 * 16)], 1e5, 10.0);
    let Cost { per_row, per_pair } = model.cost();
    assert!(per_pair == 0.0 && is_near(per_row, 1e5 + 160.0), "{per_row} {per_pair}");
}

#[test]
fn a_cost_is_never_negative() {
    let mut model = CostModel::new(1);
    // More pairs, less time.
    model.observe(work(100, 1_000_000), Duration::from_millis(1));
    model.observe(work(1000, 10), Duration::from_millis(100));
    assert!(model.cost().per_row >= 0.0 && model.cost().per_pair >= 0.0, "{:?}", model.cost());
    let mut model = CostModel::new(1);
    model.observe(work(1000, 1_000_000), Duration::from_millis(1000));
    model.observe(work(1000, 10), Duration::ZERO);
    model.observe(work(2000, 100), Duration::ZERO);
    assert!(model.cost().per_row >= 0.0 && model.cost().per_pair >= 0.0, "{:?}", model.cost());
}

#[test]
fn a_guess_gives_way_at_once_and_a_change_within_seconds() {
    assert_eq!(CostModel::new(1).cost(), Cost { per_row: 1e6, per_pair: 0.0 });
    let mut model = after(&[(64, 0)], 1e4, 0.0);
    assert!(is_near(model.cost().per_row, 1e4));
    // The machine is three times slower now.
    for _ in 0..60 {
        model.observe(work(8000, 0), Duration::from_millis(240));
    }
    assert!(is_near(model.cost().per_row, 3e4), "{:?}", model.cost());
}

#[test]
fn short_passes_do_not_hide_what_long_ones_cost() {
    let mut model = after(&[(10_000, 0)], 2e4, 0.0);
    for _ in 0..100 {
        // Mostly overhead.
        model.observe(work(10, 0), Duration::from_millis(3));
    }
    assert!((model.cost().per_row - 2e4).abs() < 0.05 * 2e4, "{:?}", model.cost());
}

#[test]
fn a_pause_of_the_machine_is_not_taken_for_the_cost_of_rows() {
    let mut model = after(&[(10_000, 0); 20], 2e4, 0.0);
    for _ in 0..3 {
        model.observe(work(10_000, 0), Duration::from_secs(60));
        assert!(model.cost().per_row < 2.0 * 2e4, "{:?}", model.cost());
        // Too short for a surprise, then a pass as it should be.
        model.observe(work(10, 0), Duration::from_millis(2));
        (0..20).for_each(|_| model.observe(work(10_000, 0), Duration::from_millis(200)));
    }
    // Passes of three replicas in the same pause.
    let mut model = CostModel::new(3);
    (0..20).for_each(|_| model.observe(work(10_000, 0), Duration::from_millis(200)));
    (0..3).for_each(|_| model.observe(work(10_000, 0), Duration::from_secs(60)));
    assert!(model.cost().per_row < 2.0 * 2e4, "{:?}", model.cost());
    model.observe(work(10_000, 0), Duration::from_secs(60));
    assert!(is_near(model.cost().per_row, 6e6), "a pause has none of them twice: {:?}", model.cost());
}

#[test]
fn a_machine_that_has_become_slower_is_believed_at_the_second_pass() {
    for (passes, millis) in [(20, 5), (200, 5), (1000, 5), (20, 250)] {
        for factor in [20, 100, 2700] {
            let usual = Duration::from_millis(millis);
            let mut model = CostModel::new(1);
            (0..passes).for_each(|_| model.observe(work(16_384, 0), usual));
            model.observe(work(16_384, 0), factor * usual);
            // A query in between says nothing.
            model.observe(work(8, 0), Duration::from_millis(1));
            model.observe(work(16_384, 0), factor * usual);
            let estimate = model.cost().per_row * 16_384.0 / usual.as_nanos() as f64;
            assert!(is_near(estimate, factor.into()), "{passes} passes, {factor}: {estimate}");
        }
    }
}
