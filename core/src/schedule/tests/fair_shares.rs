use super::*;
use crate::flow::Priority;

fn flow(account: u32) -> Flow {
    Flow { account: Account(account), priority: Priority::default() }
}

/// Size of a job of entries with 100 tokens each.
fn size(entries: usize) -> JobSize {
    JobSize { entries, tokens: 100 * entries, longest: 100, ..JobSize::default() }
}

/// A batch has left and is done.
fn complete(shares: &mut FairShares, seats: &[Seat], time: Option<Duration>) {
    shares.close_batch(seats, &BTreeSet::new());
    shares.finish_batch(seats, time);
}

/// Begins a job of entries with 100 tokens each, which wait.
fn begin(shares: &mut FairShares, job: Ticket, account: u32, entries: usize) {
    shares.begin(job, flow(account), None, size(entries));
    (job..job + entries as Ticket).for_each(|ticket| shares.add(ticket, job));
}

/// Seats the entry whose turn it is, which adds `tokens` to the batch.
fn seat(shares: &mut FairShares, jobs: &[(Ticket, std::ops::Range<Ticket>)], tokens: usize) -> Seat {
    let ticket = *shares.classes().next().unwrap().entries.first().unwrap();
    let job = jobs.iter().find(|(_, tickets)| tickets.contains(&ticket)).unwrap().0;
    shares.remove(ticket, job);
    shares.seat(ticket, [job; 2], tokens, tokens as f64)
}

#[test]
fn an_account_that_comes_back_gets_nothing_for_its_pause() {
    let mut shares = FairShares::new(2);
    let jobs = [(0, 0..1000), (1000, 1000..2000)];
    begin(&mut shares, 0, 1, 1000);
    for _ in 0..20 {
        let seat = seat(&mut shares, &jobs, 100);
        complete(&mut shares, &[seat], None);
    }
    begin(&mut shares, 1000, 2, 1000);
    let mut of_first = 0;
    for _ in 0..20 {
        let seat = seat(&mut shares, &jobs, 100);
        of_first += usize::from(seat.job == 0);
        complete(&mut shares, &[seat], None);
    }
    assert!((9..=10).contains(&of_first), "{of_first} of 20");
}

#[test]
fn a_batch_that_is_given_up_was_not_received() {
    let mut shares = FairShares::new(2);
    let jobs = [(0, 0..10), (10, 10..20)];
    begin(&mut shares, 0, 1, 10);
    begin(&mut shares, 10, 2, 10);
    let seats = [100, 300, 100].map(|tokens| seat(&mut shares, &jobs, tokens));
    assert_eq!(seats.map(|seat| seat.job), [0, 10, 0]);
    shares.cancel_batch(&seats);
    seats.iter().for_each(|seat| shares.add(seat.ticket, seat.job));
    let again = [100, 300, 100].map(|tokens| seat(&mut shares, &jobs, tokens));
    assert_eq!(again.map(|seat| (seat.ticket, seat.job)), [(0, 0), (10, 10), (1, 0)]);
}

#[test]
fn a_request_of_two_chunks_has_the_share_of_one() {
    let mut shares = FairShares::new(2);
    begin(&mut shares, 0, 1, 10);
    shares.begin(10, flow(1), Some(0), size(10));
    (10..20).for_each(|ticket| shares.add(ticket, 10));
    assert_eq!([0, 10].map(|job| shares.job(job).is_open), [true, false]);
    let seats: Vec<Seat> = (0..10).map(|_| seat(&mut shares, &[(0, 0..10), (10, 10..20)], 100)).collect();
    complete(&mut shares, &seats, None);
    assert!(shares.job(10).is_open && !shares.jobs.contains_key(&0), "it takes the place of the one before");
    shares.begin(40, flow(1), Some(39), size(10));
    assert!(shares.job(40).is_open, "the one before is done");
}

#[test]
fn a_request_is_open_until_its_batch_is_done() {
    let mut shares = FairShares::new(2);
    begin(&mut shares, 0, 1, 1);
    let seat = seat(&mut shares, &[(0, 0..1)], 100);
    shares.close_batch(&[seat], &BTreeSet::new());
    assert!(shares.jobs.contains_key(&0));
    shares.finish_batch(&[seat], None);
    assert!(shares.jobs.is_empty());
}

#[test]
fn shares_are_of_time_where_a_token_of_one_takes_longer() {
    let mut shares = FairShares::new(2);
    let jobs = [(0, 0..1000), (1000, 1000..2000)];
    begin(&mut shares, 0, 1, 1000);
    begin(&mut shares, 1000, 2, 1000);
    let mut times = [0; 2];
    for _ in 0..200 {
        let seat = seat(&mut shares, &jobs, 100);
        // A token of the second account takes three times as long.
        let account = usize::from(seat.job > 0);
        let millis = [10, 30][account];
        times[account] += millis;
        complete(&mut shares, &[seat], Some(Duration::from_millis(millis)));
    }
    let [first, second] = times;
    assert!(first.abs_diff(second) <= 60, "{times:?}");
}
