use super::*;
use crate::capabilities::Task;
use crate::error::{BackendError, Resource};
use crate::response::Usage;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, with_local_recorder,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Remembers what was described and registered, and what counters add up to.
#[derive(Default)]
struct Notebook {
    described: Mutex<BTreeSet<String>>,
    used: Mutex<BTreeSet<String>>,
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
}

struct Count(String, Arc<Mutex<BTreeMap<String, u64>>>);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        *self.1.lock().unwrap().entry(self.0.clone()).or_default() += value;
    }

    fn absolute(&self, _value: u64) {}
}

impl Notebook {
    fn describe(&self, name: KeyName) {
        self.described.lock().unwrap().insert(name.as_str().to_owned());
    }

    fn use_of(&self, key: &Key) {
        self.used.lock().unwrap().insert(key.name().to_owned());
    }

    fn count(&self, series: &str) -> u64 {
        self.counts.lock().unwrap().get(series).copied().unwrap_or_default()
    }
}

impl Recorder for Notebook {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(key);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(key);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(key);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.use_of(key);
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let series = [&[key.name()], &labels[..]].concat().join(" ");
        Counter::from_arc(Arc::new(Count(series, Arc::clone(&self.counts))))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.use_of(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.use_of(key);
        Histogram::noop()
    }
}

fn answer() -> Response<u8> {
    Response { results: vec![0], usage: Usage::default(), timings: Timings::default(), share: None }
}

#[test]
fn every_name_is_described() {
    let notebook = Notebook::default();
    with_local_recorder(&notebook, || {
        describe();
        queue(1, 1);
        backend_idle(Duration::ZERO);
        let (planning, inference) = (Duration::ZERO, Duration::ZERO);
        let (total_tokens, unique_tokens, attention_work_saved) = (8, 6, 5);
        batch(&BatchReport { id: 1, total_tokens, unique_tokens, attention_work_saved, planning, inference }, 2);
        [None, Some(Level::Urgent)].into_iter().for_each(|level| interruptions(level, inference, 1));
        failed_sequences(1);
        truncated_inputs(1);
        input_length(1);
        queue_time(65, Duration::ZERO, Duration::ZERO);
        queue_time(1 << 20, Duration::ZERO, Duration::ZERO);
        quota(&Quota::new(1, Resource::Requests));
        for method in [Method::Embed, Method::EmbedAll, Method::Rerank, Method::Predict, Method::Tokenize] {
            Call::start(method, 1).finish(Ok(answer().timings()));
        }
        drop(Call::start(Method::Decode, 1));
    });
    assert_eq!(*notebook.used.lock().unwrap(), *notebook.described.lock().unwrap());
    assert_eq!(notebook.count("prefold_tokens_saved_total"), 2);
    assert_eq!(notebook.count("prefold_attention_work_saved_total"), 5);
}

#[test]
fn every_kind_of_error_has_a_series_from_the_start() {
    let field = "inputs";
    let problem = String::new;
    let errors = [
        Error::Empty { field, problem: problem() },
        Error::Validation { field, problem: problem() },
        Error::TooLong { field, problem: problem() },
        Error::ForeignIds { field, problem: problem() },
        Error::Tokenization { field, problem: problem() },
        Error::BatchTooLarge { field, got: 2, limit: 1 },
        Error::NotCapable { asked: Task::Embed, model_type: problem(), capabilities: Arc::default() },
        Error::Overloaded { resource: Resource::Requests, limit: 1, fair_part: None },
        Error::Backend(BackendError::Compute(problem())),
        Error::ShuttingDown,
    ];
    assert!(errors.iter().all(|error| ERROR_LABELS.contains(&error_label(error))));
}

#[test]
fn the_share_of_tokenization_is_a_part_of_the_whole() {
    let second = Duration::from_secs(1);
    let timings = Timings { total: 4 * second, tokenization: second, ..Timings::default() };
    assert_eq!(timings.tokenization_share(), 0.25);
    assert_eq!(Timings::default().tokenization_share(), 0.0);
}

#[test]
fn calls_add_up() {
    let notebook = Notebook::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    with_local_recorder(&notebook, || {
        runtime.block_on(async {
            drop(observe(Method::Embed, 3, Box::pin(async { Ok(answer()) })).await);
            let failure = Error::Backend(BackendError::Compute(String::new()));
            drop(observe(Method::Rerank, 2, Box::pin(async { Err::<Response<u8>, _>(failure) })).await);
            let refusal = Error::BatchTooLarge { field: "inputs", got: 140_000, limit: 1 };
            drop(observe(Method::EmbedAll, 140_000, Box::pin(async { Err::<Response<u8>, _>(refusal) })).await);
            let left = observe(Method::EmbedAll, 5, Box::pin(std::future::pending::<Result<Response<u8>, Error>>()));
            tokio::select! { biased; _ = left => {}, () = std::future::ready(()) => {} }
            let forever = observe(Method::Tokenize, 1, Box::pin(std::future::pending::<Result<Vec<u8>, Error>>()));
            tokio::select! { biased; _ = forever => {}, () = std::future::ready(()) => {} }
        });
    });
    let counts = [
        ("te_request_count embed", 1),
        ("te_request_success embed", 1),
        ("te_request_count embed_all", 2),
        ("te_request_failure batch_size", 1),
        ("te_embed_count", 3 + 5),
        ("te_embed_success", 3),
        ("te_request_count rerank", 1),
        ("te_request_success rerank", 0),
        ("te_request_failure inference", 1),
        ("te_predict_count", 2),
        ("te_predict_success", 0),
        ("te_request_count tokenize", 1),
        ("te_request_failure dropped", 2),
    ];
    for (series, expected) in counts {
        assert_eq!(notebook.count(series), expected, "{series}");
    }
}
