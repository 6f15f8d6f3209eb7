use super::*;
use crate::encode::encoder::Encoder;
use crate::non_empty::NonEmpty;
use crate::testing::support::{limits, tokenizer, wait_until};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

fn pool(workers: usize) -> TokenizerPool {
    let encoder = Encoder::new(tokenizer("qwen3-tiny"), None, limits(100, false)).unwrap();
    TokenizerPool::new(Encoders::new(NonEmpty::one(encoder)), workers).unwrap()
}

/// Items of this many bytes, of one account.
fn turns<T>(bytes: usize) -> Turns<impl Fn(&Encoders, &T) -> usize> {
    Turns { account: Account(0), first_alone: false, cost: move |_: &Encoders, _: &T| bytes }
}

/// Short ones run side by side with long ones.
const SHORT: usize = 1;

const LONG: usize = 1 << 20;

fn items(count: usize) -> Vec<(Place, usize)> {
    (0..count).map(|index| (Place { field: "inputs", index: Some(index) }, index)).collect()
}

#[tokio::test]
async fn a_panic_fails_its_request_only() {
    let pool = pool(2);
    let result = pool
        .map(items(8), turns(SHORT), |_, _, item| match item {
            5 => panic!("bad item"),
            _ => Ok(item),
        })
        .await;
    match result {
        Err(Error::Tokenization { field: "inputs", problem }) => assert!(problem.contains("bad item"), "{problem}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.map(items(3), turns(SHORT), |_, _, item| Ok(item)).await.unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn the_first_error_in_order_is_the_answer() {
    let result = pool(2)
        .map(items(50), turns(SHORT), |_, place, item| match item {
            0..20 => Ok(item),
            _ => Err(Error::Empty { field: place.field, problem: item.to_string() }),
        })
        .await;
    assert!(matches!(result, Err(Error::Empty { problem, .. }) if problem == "20"));
}

#[tokio::test]
async fn work_that_nobody_waits_for_is_left_undone() {
    let pool = pool(1);
    let done = Arc::new(AtomicUsize::new(0));
    let (start, started) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let counter = Arc::clone(&done);
    let request = pool.map(items(10), turns(SHORT), move |_, _, item| {
        start.send(()).unwrap();
        wait.lock().unwrap().recv().unwrap_err();
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(item)
    });
    let mut request = Box::pin(request);
    tokio::select! { biased; _ = &mut request => panic!("it waits"), () = std::future::ready(()) => {} }
    started.recv().unwrap();
    drop(request);
    drop(go);
    // The counter is let go of together with the job.
    wait_until("the job is over", || Arc::strong_count(&done) == 1);
    assert_eq!(done.load(Ordering::SeqCst), 1, "the item at work was finished, the others were not begun");
}

#[tokio::test]
async fn items_of_a_client_that_left_do_not_wait_for_their_turn() {
    let pool = pool(1);
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let mut busy = Box::pin(pool.map(items(1), turns(LONG), move |_, _, _| {
        wait.lock().unwrap().recv().unwrap_err();
        Ok(())
    }));
    let text = Arc::new(());
    let place = Place { field: "inputs", index: None };
    let mut behind = Box::pin(pool.map(vec![(place, Arc::clone(&text))], turns(LONG), |_, _, _| Ok(())));
    tokio::select! { biased; _ = &mut busy => panic!("it waits"), _ = &mut behind => panic!("it waits too"),
    () = std::future::ready(()) => {} }
    assert_eq!(Arc::strong_count(&text), 2);
    drop(behind);
    assert_eq!(Arc::strong_count(&text), 1, "the worker has not come to it");
    drop(go);
    busy.await.unwrap();
}

#[tokio::test]
async fn a_small_request_does_not_wait_for_a_large_one() {
    let pool = pool(1);
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let mut large = Box::pin(pool.map(items(100), turns(LONG), move |_, _, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        wait.lock().unwrap().recv().map_err(|_| Error::ShuttingDown)
    }));
    tokio::select! { biased; _ = &mut large => panic!("it waits"), () = std::future::ready(()) => {} }
    wait_until("it has begun", || begun.load(Ordering::SeqCst) == 1);
    assert_eq!(pool.map(items(3), turns(SHORT), |_, _, item| Ok(item)).await.unwrap(), [0, 1, 2]);
    assert_eq!(begun.load(Ordering::SeqCst), 1, "the first item of the large one still runs");
    drop(go);
    assert!(matches!(large.await, Err(Error::ShuttingDown)));
    assert_eq!(begun.load(Ordering::SeqCst), 1, "after an error the rest is left undone");
}

#[tokio::test]
async fn items_of_one_request_run_in_parallel() {
    let pool = pool(3);
    let meet = std::sync::Barrier::new(3);
    let met = pool.map(items(6), turns(SHORT), move |_, _, item| {
        meet.wait();
        Ok(item)
    });
    assert_eq!(met.await.unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn an_item_at_once_is_done_on_this_thread_and_may_panic() {
    let pool = pool(1);
    let place = Place { field: "inputs", index: None };
    let here = std::thread::current().id();
    assert_eq!(pool.at_once((place, 7), |_, _, item| Ok((item, std::thread::current().id()))).unwrap(), (7, here));
    let failed = pool.at_once((place, 7), |_, _, _| -> Result<(), Error> { panic!("bad item") });
    assert!(matches!(failed, Err(Error::Tokenization { problem, .. }) if problem.contains("bad item")));
}

#[tokio::test]
async fn the_first_of_items_that_share_something_runs_alone() {
    let pool = pool(3);
    let done = Arc::new(AtomicUsize::new(0));
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    let count = Arc::clone(&done);
    let alone = Turns { first_alone: true, ..turns(SHORT) };
    let mut shared = Box::pin(pool.map(items(6), alone, move |_, _, item| {
        if item == 0 {
            let wait = wait.lock().unwrap().take().unwrap();
            wait.recv().unwrap_err();
        }
        let before = count.fetch_add(1, Ordering::SeqCst);
        assert!(item == 0 || before > 0, "item {item} was begun before the first was done");
        Ok(item)
    }));
    tokio::select! { biased; _ = &mut shared => panic!("it waits"), () = std::future::ready(()) => {} }
    // The other workers are free for others meanwhile, and would have begun its items by now.
    let meet = std::sync::Barrier::new(2);
    let others = pool.map(items(40), turns(SHORT), move |_, _, item| {
        meet.wait();
        Ok(item)
    });
    assert_eq!(others.await.unwrap().len(), 40);
    assert_eq!(done.load(Ordering::SeqCst), 0);
    drop(go);
    assert_eq!(shared.await.unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn accounts_take_turns_whatever_number_of_requests_they_have() {
    let pool = pool(1);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    let request = |account: u32, count| {
        let (order, hold) = (Arc::clone(&order), (account == 0).then(|| wait.lock().unwrap().take()).flatten());
        let hold = std::sync::Mutex::new(hold);
        let turns = Turns { account: Account(account), ..turns(LONG) };
        pool.map(items(count), turns, move |_, _, _| {
            if let Some(hold) = hold.lock().unwrap().take() {
                hold.recv().unwrap_err();
            }
            order.lock().unwrap().push(account);
            Ok(())
        })
    };
    let mut all: Vec<_> = [0, 1, 1, 1, 1, 1, 1, 2].map(|account| Box::pin(request(account, 4))).into();
    for request in &mut all {
        tokio::select! { biased; _ = request => panic!("it waits"), () = std::future::ready(()) => {} }
    }
    drop(go);
    for request in all {
        request.await.unwrap();
    }
    let order = order.lock().unwrap();
    let of_two = order.iter().rposition(|&account| account == 2).unwrap();
    assert!(of_two < 12, "{order:?}");
}
