use super::*;
use crate::Priority;
use crate::flow::Weight;

fn flow(account: u32) -> Flow {
    Flow { account: Account(account), priority: Priority::default() }
}

/// Begins a job of entries with 100 tokens each, which wait.
fn begin(shares: &mut FairShares, job: Ticket, account: u32, entries: usize) {
    shares.begin(job, flow(account), None, [entries, 100 * entries]);
    (job..job + entries as Ticket).for_each(|ticket| shares.add(ticket, job));
}

/// Seats the entry whose turn it is, which adds `tokens` to the batch.
fn seat(shares: &mut FairShares, jobs: &[(Ticket, std::ops::Range<Ticket>)], tokens: usize) -> Seat {
    let ticket = *shares.first().unwrap().entries.first().unwrap();
    let job = jobs.iter().find(|(_, tickets)| tickets.contains(&ticket)).unwrap().0;
    shares.remove(ticket, job);
    let seat = Seat { ticket, job, payer: job, tokens };
    shares.charge(&seat);
    seat
}

#[test]
fn an_account_that_comes_back_gets_nothing_for_its_pause() {
    let mut shares = FairShares::new(2);
    let jobs = [(0, 0..1000), (1000, 1000..2000)];
    begin(&mut shares, 0, 1, 1000);
    for _ in 0..20 {
        let seat = seat(&mut shares, &jobs, 100);
        shares.close_batch(&[seat]);
    }
    begin(&mut shares, 1000, 2, 1000);
    let mut of_first = 0;
    for _ in 0..20 {
        let seat = seat(&mut shares, &jobs, 100);
        of_first += usize::from(seat.job == 0);
        shares.close_batch(&[seat]);
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
fn what_a_job_saved_advances_the_others() {
    let mut shares = FairShares::new(2);
    let jobs = [(0, 0..10), (10, 10..11), (11, 11..21)];
    for (job, entries) in [(0, 10), (10, 1), (11, 10)] {
        begin(&mut shares, job, 1, entries);
    }
    let token = Weight(16).length(1);
    let mut batch = |entries: usize, tokens: usize| {
        let seats: Vec<Seat> = (0..entries).map(|_| seat(&mut shares, &jobs, tokens)).collect();
        shares.close_batch(&seats);
        (shares.accounts[&Account(1)].clock.now() + token / 2) / token
    };
    assert_eq!(batch(1, 100), 33, "the shortest is done; a third for each");
    assert_eq!(batch(10, 10), 67, "the next has 100 tokens instead of 1,000");
    assert_eq!(batch(5, 100), 500, "so it ends with the first, at 100, and the last goes on alone");
}

#[test]
fn a_chunk_is_due_after_the_chunk_before_it() {
    let mut shares = FairShares::new(2);
    begin(&mut shares, 0, 1, 10);
    shares.begin(10, flow(1), Some(0), [10, 1000]);
    begin(&mut shares, 20, 1, 15);
    let ranks = [0, 10, 20].map(|job| shares.job(job).rank / Weight(16).length(1));
    assert_eq!(ranks, [1000, 2000, 1500], "a request of two chunks has the share of one");
    shares.begin(40, flow(1), Some(39), [10, 1000]);
    assert_eq!(shares.job(40).rank, shares.job(0).rank, "the one before is done");
}
