//! Radix plans of arbitrary batches.

use prefold_core::{PlanBuilder, RadixPlan, RaggedBatch, TokenSlice};

#[path = "../../../core/src/plan/tests/radix_check.rs"]
mod radix_check;

/// Maximum tokens of a batch, because the naive reference is slow.
const MAX_TOKENS: usize = 4096;

/// Asserts the plan's invariants.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let multiple = usize::from(first % 16) + 1;
    let batch = batch(rest);
    radix_check::check(&batch, multiple);

    let plan = RadixPlan::new(&batch, multiple);
    let mut builder = PlanBuilder::default();
    builder.recycle(RadixPlan::identity(&batch));
    let mut new_nodes = 0;
    for b in 0..batch.num_sequences() {
        let (ids, positions) = (&batch.input_ids()[batch.rows(b)], &batch.position_ids()[batch.rows(b)]);
        let untyped = batch.token_type_ids().is_none();
        let counted = untyped && positions.iter().zip(0..).all(|(&position, index)| position == index);
        new_nodes += if counted { builder.push(ids) } else { builder.push(batch.sequence(b)) };
    }
    assert_eq!(builder.finish(multiple), plan, "the same plan in used memory, and for positions that are not listed");

    let work = batch.attention_work();
    assert!(plan.attention_work() <= work, "sharing saves work");
    assert_eq!(plan.unique_tokens(), new_nodes);
}

/// Batch built from the bytes of a program: each is a token of a small alphabet, of type 0 or 1, or an instruction.
fn batch(program: &[u8]) -> RaggedBatch {
    let mut batch = RaggedBatch::default();
    let mut sequence = Sequence::default();
    let mut program = program.iter().copied();
    while let Some(byte) = program.next() {
        if batch.total_tokens() + sequence.ids.len() >= MAX_TOKENS {
            break;
        }
        match byte {
            // Starts with a prefix of an earlier sequence, so that deep sharing is common.
            0xf0..=0xf7 => {
                sequence.close(&mut batch);
                let (which, len) = (program.next().unwrap_or(0), program.next().unwrap_or(u8::MAX));
                sequence.copy(&batch, which.into(), len.into());
            }
            0xf8..=0xfb => sequence.close(&mut batch),
            // Skips positions.
            0xfc..=0xff => sequence.next_position += u32::from(byte - 0xfb),
            token => sequence.push((token % 16).into(), u32::from(token >= 0xe0)),
        }
    }
    sequence.close(&mut batch);
    batch
}

#[derive(Default)]
struct Sequence {
    ids: Vec<u32>,
    types: Vec<u32>,
    positions: Vec<u32>,
    next_position: u32,
}

impl Sequence {
    fn push(&mut self, id: u32, token_type: u32) {
        self.ids.push(id);
        self.types.push(token_type);
        self.positions.push(self.next_position);
        self.next_position += 1;
    }

    fn copy(&mut self, batch: &RaggedBatch, which: usize, len: usize) {
        if let Some(b) = which.checked_rem(batch.num_sequences()) {
            let rows = batch.rows(b);
            let rows = rows.start..rows.end.min(rows.start + len);
            self.ids = batch.input_ids()[rows.clone()].to_vec();
            self.types = batch.token_type_ids().map_or(vec![0; rows.len()], |types| types[rows.clone()].to_vec());
            self.positions = batch.position_ids()[rows].to_vec();
            self.next_position = self.positions.last().map_or(0, |last| last + 1);
        }
    }

    fn close(&mut self, batch: &mut RaggedBatch) {
        let Self { ids, types, positions, .. } = std::mem::take(self);
        if !ids.is_empty() {
            let tokens = TokenSlice::new(&ids).with_token_types(&types).expect("as many types as ids");
            let tokens = tokens.with_positions(&positions).expect("as many positions as ids");
            batch.push(tokens).expect("not empty");
        }
    }
}
