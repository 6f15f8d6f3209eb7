//! The quota against a model, from several threads, and where clients leave.

use super::*;
use proptest::prelude::*;
use std::sync::Barrier;

const LIMIT: usize = 10;

fn quota() -> Arc<Quota> {
    Quota::new(LIMIT, Resource::QueuedTokens)
}

/// Polls a future once.
async fn is_ready(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    tokio::select! { biased; () = future => true, () = std::future::ready(()) => false }
}

#[test]
fn a_share_grows_while_the_others_are_below_the_limit() {
    let quota = quota();
    let [one, other, third] = [(); 3].map(|()| quota.share());
    one.grow(25).unwrap();
    one.grow(5).unwrap();
    let error = other.grow(0).unwrap_err();
    assert!(matches!(error, Error::Overloaded { resource: Resource::QueuedTokens, limit: LIMIT, .. }), "{error}");
    drop(one);
    other.grow(9).unwrap();
    third.grow(9).unwrap();
    assert!(quota.share().grow(1).is_err(), "two of 9 each are beyond the limit");
    other.grow(1).unwrap();
    assert!(third.grow(1).is_err(), "the other has all of it");
    assert!(other.grow(usize::MAX).is_err());
    assert_eq!((other.held(), third.held(), quota.held()), (10, 9, 19));
}

#[tokio::test]
async fn who_waits_goes_before_who_is_new_and_in_order() {
    let quota = quota();
    let [holder, first, second, new] = [(); 4].map(|()| quota.share());
    holder.force(LIMIT + 1);
    let mut growing = Box::pin(first.grow_in_turn(LIMIT));
    let mut behind = Box::pin(second.grow_in_turn(1));
    assert!(!is_ready(growing.as_mut()).await && !is_ready(behind.as_mut()).await);
    holder.shrink_to(LIMIT);
    assert!(!is_ready(growing.as_mut()).await, "the limit is still held");
    holder.shrink_to(1);
    assert!(new.grow(1).is_err(), "another of the account waits");
    assert!(!is_ready(behind.as_mut()).await, "not its turn");
    growing.await;
    assert!(!is_ready(behind.as_mut()).await, "the first took all");
    drop(first);
    behind.await;
    new.grow(1).unwrap();
    assert_eq!((second.held(), quota.held()), (1, 3));
}

#[tokio::test]
async fn nothing_is_lost_when_a_waiting_share_is_given_up() {
    let quota = quota();
    let [holder, first, second] = [(); 3].map(|()| quota.share());
    holder.grow(LIMIT).unwrap();
    let mut given_up = Box::pin(first.grow_in_turn(3));
    let mut behind = Box::pin(second.grow_in_turn(4));
    assert!(!is_ready(given_up.as_mut()).await && !is_ready(behind.as_mut()).await);
    drop(holder);
    // Told that there is room, and gone before it takes any.
    drop(given_up);
    behind.await;
    quota.share().grow(1).unwrap();
    assert_eq!((first.held(), quota.held()), (0, 4));
    let released = quota.all_released();
    let mut released = Box::pin(released);
    assert!(!is_ready(released.as_mut()).await);
    drop(second);
    released.await;
}

#[test]
fn threads_never_hold_more_than_the_limit_and_one_request() {
    const LARGEST: usize = 7;
    const ROUNDS: usize = 200_000;
    let (quota, most, start) = (quota(), AtomicUsize::new(0), Barrier::new(8));
    let admitted: usize = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3, 4, 5, 6, 7].map(|thread| {
            let (quota, most, start) = (&quota, &most, &start);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut admitted = 0;
                start.wait();
                for round in 0..ROUNDS {
                    let share = quota.share();
                    let amount = LARGEST - (thread + round) % 2;
                    // One of the threads waits its turn, every now and then.
                    if thread == 0 && round % 16 == 0 {
                        runtime.block_on(share.grow_in_turn(amount));
                    } else if share.grow(amount).is_err() {
                        continue;
                    }
                    admitted += 1;
                    most.fetch_max(quota.held(), Ordering::SeqCst);
                    share.shrink_to(amount / 2);
                }
                admitted
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let most = most.into_inner();
    assert!(most < LIMIT + LARGEST, "{most} were held at once");
    assert!(admitted > ROUNDS / 16 && quota.held() == 0);
    quota.share().grow(1).unwrap();
}

#[tokio::test]
async fn an_account_below_its_fair_part_waits_for_nobody() {
    let quota = quota();
    let of = |account| quota.share_of(Account(account));
    let [holder, later] = [of(1), of(1)];
    holder.grow(LIMIT + 5).unwrap();
    let mut waits = Box::pin(later.grow_in_turn(1));
    assert!(!is_ready(waits.as_mut()).await);
    let others = [of(2), of(2), of(2)];
    others[0].grow(LIMIT / 2 - 1).unwrap();
    others[1].grow(7).unwrap();
    let error = others[2].grow(1).unwrap_err();
    assert!(matches!(error, Error::Overloaded { resource: Resource::QueuedTokens, limit: LIMIT, .. }), "{error}");
    // A third of the limit, rounded up, for each of three.
    let third = [of(3), of(3), of(3)];
    third[0].grow(3).unwrap();
    third[1].grow(1).unwrap();
    assert!(third[2].grow(1).is_err());
    // Free room is for waiting requests, a fair part is not.
    others.iter().chain(&third).for_each(|share| share.shrink_to(0));
    holder.shrink_to(LIMIT - 1);
    others[0].grow(LIMIT / 2).unwrap();
    assert!(others[1].grow(1).is_err());
    holder.shrink_to(LIMIT / 2);
    others[0].shrink_to(1);
    waits.await;
    assert_eq!((later.held(), quota.held()), (1, LIMIT / 2 + 2));
}

#[test]
fn who_is_refused_is_told_its_fair_part_where_others_hold_some() {
    let quota = quota();
    let of = |account| quota.share_of(Account(account));
    let refusal = |share: &Share| match share.grow(1) {
        Err(Error::Overloaded { fair_part, limit: LIMIT, .. }) => fair_part,
        other => panic!("{other:?}"),
    };
    let [full, own] = [of(1), of(1)];
    full.force(LIMIT + 2);
    assert_eq!(refusal(&own), None, "its part is all");
    own.force(3);
    let [other, third] = [of(2), of(3)];
    other.grow(1).unwrap();
    assert_eq!(refusal(&own), Some(FairPart { size: 5, accounts: 2, held: LIMIT + 2 }));
    third.grow(1).unwrap();
    assert_eq!(refusal(&of(1)), Some(FairPart { size: 4, accounts: 3, held: LIMIT + 5 }));
}

#[tokio::test]
async fn accounts_wait_apart_and_larger_parts_are_told() {
    let quota = quota();
    let of = |account| quota.share_of(Account(account));
    let [full, one, third] = [of(1), of(2), of(3)];
    full.force(2 * LIMIT);
    one.grow(4).unwrap();
    third.grow(1).unwrap();
    let more = of(2);
    let mut waits = Box::pin(more.grow_in_turn(1));
    assert!(!is_ready(waits.as_mut()).await, "a third of the limit is held");
    third.grow(1).unwrap();
    drop(third);
    waits.await;
    assert_eq!(quota.held(), 2 * LIMIT + 5);
}

#[test]
fn a_share_grows_to_a_total_once() {
    let quota = quota();
    let [share, other] = [(); 2].map(|()| quota.share());
    share.grow(3).unwrap();
    share.grow_to(LIMIT).unwrap();
    assert!(other.grow(1).is_err());
    share.grow_to(LIMIT).unwrap();
    share.grow_to(1).unwrap();
    assert_eq!(share.held(), LIMIT);
    assert!(other.grow_to(1).is_err());
    other.grow_to(0).unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Grow(usize, usize),
    Force(usize, usize),
    ShrinkTo(usize, usize),
    Absorb(usize, usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (share, amount) = (0..4usize, 0..15usize);
    prop_oneof![
        4 => (share.clone(), amount.clone()).prop_map(|(share, amount)| Step::Grow(share, amount)),
        1 => (share.clone(), amount.clone()).prop_map(|(share, amount)| Step::Force(share, amount)),
        2 => (share.clone(), amount).prop_map(|(share, amount)| Step::ShrinkTo(share, amount)),
        1 => (share.clone(), share.clone()).prop_map(|(share, other)| Step::Absorb(share, other)),
        1 => share.prop_map(Step::Drop),
    ]
}

/// Maximum units of a request in the histories below.
const LARGEST: usize = 14;

proptest! {
    #[test]
    fn whoever_holds_less_than_a_fair_part_is_admitted_and_the_sum_is_bounded(
        steps in prop::collection::vec((0..5u32, 0..4usize, 0..=LARGEST, any::<bool>()), 0..120),
    ) {
        let quota = quota();
        let mut shares: Vec<[Share; 4]> = (0..5).map(|n| [(); 4].map(|()| quota.share_of(Account(n)))).collect();
        for (account, request, amount, leaves) in steps {
            let account = account as usize;
            if leaves {
                shares[account][request] = quota.share_of(Account(account as u32));
                continue;
            }
            let held = |of: usize| shares[of].iter().map(Share::held).sum::<usize>();
            let holders = (0..5).filter(|&of| of == account || held(of) > 0).count();
            let is_below_part = held(account) * holders < LIMIT;
            // A request takes what it needs at once.
            if shares[account][request].held() == 0 {
                let admitted = shares[account][request].grow(amount).is_ok();
                prop_assert!(admitted || !is_below_part);
            }
            let mut all: Vec<usize> = (0..5).map(|of| shares[of].iter().map(Share::held).sum()).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            for (held, place) in all.iter().zip(1..) {
                prop_assert!(*held < LIMIT.div_ceil(place) + LARGEST, "{all:?}");
            }
            prop_assert_eq!(quota.held(), all.iter().sum::<usize>());
        }
        drop(shares);
        prop_assert_eq!((quota.held(), quota.lock().accounts.len()), (0, 0));
    }

    #[test]
    fn shares_are_those_of_the_model(steps in prop::collection::vec(step(), 0..60)) {
        let quota = quota();
        let mut shares = [(); 4].map(|()| quota.share());
        let mut model = [0; 4];
        for step in steps {
            let sum: usize = model.iter().sum();
            match step {
                Step::Grow(share, amount) => {
                    let is_admitted = sum - model[share] < LIMIT;
                    prop_assert_eq!(shares[share].grow(amount).is_ok(), is_admitted);
                    model[share] += if is_admitted { amount } else { 0 };
                }
                Step::Force(share, amount) => {
                    shares[share].force(amount);
                    model[share] += amount;
                }
                Step::ShrinkTo(share, amount) => {
                    shares[share].shrink_to(amount);
                    model[share] = model[share].min(amount);
                }
                Step::Absorb(share, other) if share != other => {
                    shares[share].absorb(&shares[other]);
                    model[share] += std::mem::take(&mut model[other]);
                }
                Step::Absorb(..) => {}
                Step::Drop(share) => {
                    shares[share] = quota.share();
                    model[share] = 0;
                }
            }
            prop_assert_eq!(shares.each_ref().map(Share::held), model);
            prop_assert_eq!(quota.held(), model.iter().sum::<usize>());
        }
        drop(shares);
        prop_assert_eq!(quota.held(), 0);
    }
}
