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
    assert!(matches!(error, Error::Overloaded { resource: Resource::QueuedTokens, limit: LIMIT }), "{error}");
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
    assert!(new.grow(1).is_err(), "another waits");
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
    const ROUNDS: usize = 1_000_000;
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

proptest! {
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
