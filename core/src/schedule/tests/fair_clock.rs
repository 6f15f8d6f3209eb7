use super::*;

const USUAL: Weight = Weight(16);

fn clock(jobs: &[(Ticket, usize, Weight)]) -> FairClock {
    let mut clock = FairClock::default();
    for &(job, tokens, weight) in jobs {
        clock.start(job, clock.now() + weight.length(tokens), weight);
    }
    clock
}

#[test]
fn jobs_share_until_the_shortest_ends_and_the_others_share_its_part() {
    let mut clock = clock(&[(0, 10, USUAL), (1, 100, USUAL), (2, 100, USUAL)]);
    clock.advance(15);
    assert_eq!(clock.now(), USUAL.length(5), "a third of 15");
    clock.advance(15 + 40);
    assert_eq!(clock.now(), USUAL.length(30), "10 at a third, then 20 at a half");
    clock.advance(1000);
    assert_eq!((clock.now(), clock.weights), (USUAL.length(100), 0), "it stands while nothing is unfinished");
}

#[test]
fn a_heavier_job_advances_faster() {
    let mut clock = clock(&[(0, 100, USUAL), (1, 100, Weight(48))]);
    clock.advance(40);
    assert_eq!(clock.now(), USUAL.length(10));
    assert_eq!(clock.unfinished.keys().map(|&(_, job)| job).collect::<Vec<_>>(), [1, 0], "it ends first");
}

#[test]
fn a_job_that_was_smaller_gives_its_part_to_the_others() {
    let mut clock = clock(&[(0, 100, USUAL), (1, 100, USUAL)]);
    clock.advance(40);
    clock.set_end(0, USUAL.length(100), USUAL.length(30));
    clock.advance(30);
    assert_eq!(clock.now(), USUAL.length(40), "10 for each, then 10 for the other alone");
    clock.set_end(1, USUAL.length(100), USUAL.length(20));
    assert_eq!(clock.weights, 0, "more than it was has passed already");
}
