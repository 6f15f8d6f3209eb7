use super::*;

const QUANTUM: usize = 512;

fn begin(lanes: &mut SizeLanes, job: Ticket, tokens: usize, weight: Weight) -> Rank {
    let rank = lanes.rank(job, tokens, weight);
    lanes.open(rank, weight);
    lanes.add(rank, job);
    rank
}

/// Lanes of the batches' tokens, 100 at a time, each from the lane whose turn it is.
fn serve(lanes: &mut SizeLanes, times: usize) -> Vec<u8> {
    let one = |_| {
        let (rank, _) = lanes.classes().next().unwrap();
        let progress = lanes.charge(rank.lane, 100);
        lanes.close_batch([rank.lane], BTreeSet::new());
        lanes.land(rank.lane, progress);
        rank.lane
    };
    (0..times).map(one).collect()
}

#[test]
fn jobs_of_a_lane_are_within_a_factor_of_two() {
    let lane = |tokens, weight| SizeLanes::new(QUANTUM).rank(7, tokens, Weight(weight)).lane;
    let sizes = [1, 512, 513, 1024, 1025, 2048, 2049, 100_000];
    assert_eq!(sizes.map(|tokens| lane(tokens, 16)), [0, 0, 1, 1, 2, 2, 3, 8]);
    assert_eq!(sizes.map(|tokens| lane(tokens, 32)), [0, 0, 0, 0, 1, 1, 2, 7], "a priority makes it smaller");
}

#[test]
fn lanes_share_by_their_open_jobs() {
    let mut lanes = SizeLanes::new(QUANTUM);
    let small: Vec<Rank> = (0..3).map(|job| begin(&mut lanes, job, 100, USUAL)).collect();
    begin(&mut lanes, 3, 5000, USUAL);
    assert_eq!(serve(&mut lanes, 16), [0; 16], "a quantum for each of the small ones");
    let served = serve(&mut lanes, 40);
    assert_eq!(served.iter().filter(|&&lane| lane == 0).count(), 30, "three of four jobs: {served:?}");
    // One that comes and goes again keeps what its lane has received.
    lanes.remove(small[0], 0);
    lanes.close(small[0], USUAL);
    assert_eq!(
        serve(&mut lanes, 40).iter().filter(|&&lane| lane == 0).count(),
        30,
        "until all that came together are done"
    );
    begin(&mut lanes, 4, 100, USUAL);
    lanes.close(small[1], USUAL);
    begin(&mut lanes, 5, 100, USUAL);
    assert_eq!(serve(&mut lanes, 40).iter().filter(|&&lane| lane == 0).count(), 30);
}

#[test]
fn a_lane_that_comes_back_gets_nothing_for_its_pause() {
    let mut lanes = SizeLanes::new(QUANTUM);
    begin(&mut lanes, 0, 5000, USUAL);
    serve(&mut lanes, 20);
    begin(&mut lanes, 1, 50_000, USUAL);
    let of_second = serve(&mut lanes, 20).iter().filter(|&&lane| lane == 7).count();
    assert!((10..=11).contains(&of_second), "{of_second} of 20");
}

#[test]
fn a_small_job_goes_before_larger_ones_in_the_forming_batch() {
    let mut lanes = SizeLanes::new(QUANTUM);
    let large = begin(&mut lanes, 0, 5000, USUAL);
    lanes.charge(large.lane, 1000);
    let small = begin(&mut lanes, 1, 10, USUAL);
    let equal = begin(&mut lanes, 2, 5000, USUAL);
    let larger = begin(&mut lanes, 3, 50_000, USUAL);
    assert_eq!([small, equal, larger].map(|rank| lanes.precedes(rank, large.lane)), [true, false, false]);
    lanes.charge(small.lane, 1600);
    assert!(!lanes.precedes(small, large.lane), "small ones have had their share, and a quantum");
}

#[test]
fn a_batch_that_is_given_up_was_not_received() {
    let mut lanes = SizeLanes::new(QUANTUM);
    begin(&mut lanes, 0, 5000, USUAL);
    begin(&mut lanes, 1, 50_000, USUAL);
    let turn = |lanes: &mut SizeLanes, tokens| {
        let (rank, _) = lanes.classes().next().unwrap();
        (rank.lane, lanes.charge(rank.lane, tokens))
    };
    let before = [100, 300, 100].map(|tokens| turn(&mut lanes, tokens));
    before.iter().for_each(|&(lane, progress)| lanes.refund(lane, progress));
    assert_eq!(before.map(|(lane, _)| lane), [4, 7, 4]);
    assert_eq!([100, 300, 100].map(|tokens| turn(&mut lanes, tokens)), before);
}
