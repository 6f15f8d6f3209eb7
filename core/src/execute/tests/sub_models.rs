//! Times of a model's parts, and batches within them.

use super::tests::{budget, config, stop};
use super::*;
use crate::admission::queue_quota::QueueLimits;
use crate::backend::{Backend, Batch, Folding, ModelBackend, ModelInfo};
use crate::flow::Flow;
use crate::outputs::submitted::Submitted;
use crate::outputs::{Output, OutputKind, Outputs};
use crate::plan::tokens::{TaskId, Tokens};
use crate::schedule::batcher::Compaction;
use crate::testing::support::{DIM, info, tasks};
use crate::yield_point::YieldPoint;
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(250);

/// A table that takes a microsecond for each row, and an encoder that takes a millisecond, as they say.
struct TableAndEncoder {
    info: ModelInfo,
    times: Vec<Duration>,
}

const TABLE: TaskId = TaskId(0);
const ENCODER: TaskId = TaskId(1);

impl Backend for TableAndEncoder {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn submit(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        self.times = vec![Duration::ZERO; 2];
        for (b, task) in batch.ragged.tasks().iter().enumerate() {
            let rows = batch.ragged.rows(b).len() as u32;
            self.times[usize::from(task.0)] += rows * Duration::from_micros(if *task == TABLE { 1 } else { 1000 });
        }
        let output = Output::of(OutputKind::Embedding, vec![0.0; DIM], DIM);
        Ok(Submitted::Done(vec![output; batch.ragged.num_sequences()]))
    }

    fn sub_model_times(&self) -> &[Duration] {
        &self.times
    }
}

/// Rows for the table and for the encoder in each batch that these texts were in.
async fn batches(pipeline: &Arc<Pipeline>, texts: Vec<(TaskId, usize)>) -> Vec<[usize; 2]> {
    let tokens = |(i, &(task, len)): (usize, &(TaskId, usize))| Tokens::new(vec![i as u32; len]).with_task(task);
    let sequences = texts.iter().enumerate().map(tokens).collect();
    let answers = pipeline.submit(sequences, Outputs::EMBEDDING, Flow::default()).unwrap().collect().await.unwrap();
    let mut batches = BTreeMap::<u64, [usize; 2]>::new();
    for (answer, (task, len)) in answers.iter().zip(texts) {
        batches.entry(answer.batch.id).or_default()[usize::from(task.0)] += len;
    }
    batches.into_values().collect()
}

#[tokio::test]
async fn a_cheap_part_does_not_make_the_batches_of_another_longer() {
    let limits = QueueLimits { tokens: 100_000, inputs: 1000 };
    let compaction = Compaction { folding: Folding::Whole, ..config(budget(10_000, 100)).compaction };
    let config = PipelineConfig { limits, compaction, max_batch_time: Some(LIMIT), ..config(budget(10_000, 100)) };
    let backend = TableAndEncoder { info: info(tasks(&[1]), 1000), times: vec![] };
    let (pipeline, threads, _) =
        spawn(vec![ModelBackend::Whole(Box::new(backend)).into()], config, WarmUp::off(compaction)).unwrap();
    assert_eq!(batches(&pipeline, vec![(TABLE, 100), (ENCODER, 100)]).await, [[100, 100]]);
    for _ in 0..20 {
        assert_eq!(batches(&pipeline, vec![(TABLE, 5000), (TABLE, 4000)]).await, [[9000, 0]]);
    }
    assert_eq!(batches(&pipeline, vec![(ENCODER, 60); 8]).await, [[0, 240]; 2]);
    let both = [vec![(TABLE, 2000)], vec![(ENCODER, 60); 5]].concat();
    assert_eq!(batches(&pipeline, both).await, [[2000, 240], [0, 60]]);
    assert_eq!(batches(&pipeline, vec![(TABLE, 100); 90]).await, [[9000, 0]]);
    stop(&pipeline, threads);
}
