//! Rotary position embedding (RoPE), after the per-head RMSNorm of q and k that some models have.

use crate::error::{KernelError, check_len, whole_rows};
use crate::isa::Isa;
use crate::rowwise::norm::inverse_rms;
use crate::rowwise::rows::for_row_blocks;
use crate::simd::{self, Operation, Simd, Vector, for_vectors};

/// RoPE cache: cos and sin of every (position, frequency).
#[derive(Debug, Clone)]
pub struct RopeTable {
    /// `[positions, 2 * frequencies]`: a row is `[cos | sin]`.
    table: Vec<f32>,
    frequencies: usize,
}

impl RopeTable {
    /// The cache of positions `0..positions` for the inverse frequencies `inv_freq` (`[head_dim / 2]`).
    ///
    /// Angles are computed in f64: in f32 an angle of a thousand radians is off by 1e-4.
    pub fn new(inv_freq: &[f64], positions: usize) -> Self {
        let mut table = Vec::with_capacity(positions * inv_freq.len() * 2);
        for position in 0..positions {
            let angles = inv_freq.iter().map(|f| f * position as f64);
            table.extend(angles.clone().map(|a| a.cos() as f32));
            table.extend(angles.map(|a| a.sin() as f32));
        }
        Self { table, frequencies: inv_freq.len() }
    }

    /// The cache times a factor for each position: heads are rotated and scaled.
    pub fn scaled(&self, factor: impl Fn(usize) -> f64) -> Self {
        let mut table = self.table.clone();
        for (position, row) in table.chunks_exact_mut((2 * self.frequencies).max(1)).enumerate() {
            let factor = factor(position);
            row.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
        }
        Self { table, frequencies: self.frequencies }
    }

    /// Number of positions.
    pub fn positions(&self) -> usize {
        if self.frequencies == 0 { 0 } else { self.table.len() / (2 * self.frequencies) }
    }

    /// Head dimension: twice the number of frequencies.
    pub fn head_dim(&self) -> usize {
        2 * self.frequencies
    }

    /// All values, `[positions, head_dim]`: a row is `[cos | sin]`.
    pub fn values(&self) -> &[f32] {
        &self.table
    }

    /// `[cos | sin]` of a position.
    pub(crate) fn row(&self, position: usize) -> &[f32] {
        &self.table[position * 2 * self.frequencies..][..2 * self.frequencies]
    }
}

/// Neighbouring heads of a row that share a norm weight.
#[derive(Debug, Clone, Copy)]
pub struct HeadSpan<'a> {
    /// Column of the first head's first value.
    pub offset: usize,
    /// Number of heads.
    pub num_heads: usize,
    /// The weight of the RMSNorm before the rotation, `[head_dim]`; `None` for no norm.
    pub norm: Option<&'a [f32]>,
}

/// Per-head RMSNorm (where a span has a weight) and split-half RoPE, in place.
///
/// The rows may hold q, k and v, or some of them: the spans locate the heads.
#[derive(Debug, Clone, Copy)]
pub struct QkNormRope<'a> {
    /// cos and sin; also gives `head_dim`.
    pub table: &'a RopeTable,
    /// The position of each row, `[rows]`.
    pub position_ids: &'a [u32],
    /// Values of a row.
    pub row_width: usize,
    /// The heads to normalise and rotate.
    pub spans: &'a [HeadSpan<'a>],
    /// Added to the mean square of the norm.
    pub eps: f32,
}

impl QkNormRope<'_> {
    /// Normalises and rotates the heads of `rows`, `[position_ids.len(), row_width]`.
    ///
    /// # Errors
    /// If the lengths do not fit together, a span ends after the row, or a position is outside the RoPE cache.
    pub fn run(&self, rows: &mut [f32]) -> Result<(), KernelError> {
        self.run_with(Isa::best(), rows)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with(&self, isa: Isa, rows: &mut [f32]) -> Result<(), KernelError> {
        self.check(rows.len())?;
        for_row_blocks(rows, self.row_width, |first, rows| simd::run(isa, Rows { op: self, first, rows }));
        Ok(())
    }

    fn check(&self, found: usize) -> Result<(), KernelError> {
        let dim = self.table.head_dim();
        whole_rows("rows", self.row_width, found)?;
        check_len("rows", self.position_ids.len() * self.row_width, found)?;
        for span in self.spans {
            let end = span.offset + span.num_heads * dim;
            if end > self.row_width {
                return Err(KernelError::Index {
                    argument: "end of a head span",
                    found: end,
                    limit: self.row_width + 1,
                });
            }
            if let Some(weight) = span.norm {
                check_len("norm weight", dim, weight.len())?;
            }
        }
        let limit = self.table.positions();
        match self.position_ids.iter().max() {
            Some(&position) if position as usize >= limit => {
                Err(KernelError::Index { argument: "position id", found: position as usize, limit })
            }
            _ => Ok(()),
        }
    }
}

/// A range of the rows.
struct Rows<'a> {
    op: &'a QkNormRope<'a>,
    /// Index of the first row.
    first: usize,
    rows: &'a mut [f32],
}

impl Operation for Rows<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let dim = self.op.table.head_dim();
        let positions = &self.op.position_ids[self.first..];
        for (row, &position) in self.rows.chunks_exact_mut(self.op.row_width).zip(positions) {
            let angles = self.op.table.row(position as usize);
            for span in self.op.spans {
                for head in row[span.offset..][..span.num_heads * dim].chunks_exact_mut(dim) {
                    // SAFETY: the instruction set is the caller's duty.
                    unsafe {
                        if let Some(weight) = span.norm {
                            normalize::<S::V>(head, weight, self.op.eps);
                        }
                        rotate::<S::V>(head, angles);
                    }
                }
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn normalize<V: Vector>(head: &mut [f32], weight: &[f32], eps: f32) {
    assert_eq!(head.len(), weight.len());
    // SAFETY: the instructions are the caller's duty; vectors are within `head` and `weight`.
    unsafe {
        let scale = V::set1(inverse_rms::<V>(head, eps));
        for_vectors::<V>(head.len(), |i, count| {
            let x = V::loadu_up_to(head.as_ptr().add(i), count);
            let weight = V::loadu_up_to(weight.as_ptr().add(i), count);
            x.mul(scale).mul(weight).store_elements(head.as_mut_ptr().add(i), count);
        });
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn rotate<V: Vector>(head: &mut [f32], angles: &[f32]) {
    assert_eq!(head.len(), angles.len());
    let half = head.len() / 2;
    let (low, high) = head.split_at_mut(half);
    let (cos, sin) = angles.split_at(half);
    for_vectors::<V>(half, |i, count| {
        // SAFETY: the instructions are the caller's duty; vectors are within halves.
        unsafe {
            let (a, b) = (V::loadu_up_to(low.as_ptr().add(i), count), V::loadu_up_to(high.as_ptr().add(i), count));
            let (c, s) = (V::loadu_up_to(cos.as_ptr().add(i), count), V::loadu_up_to(sin.as_ptr().add(i), count));
            a.mul(c).sub(b.mul(s)).store_elements(low.as_mut_ptr().add(i), count);
            b.mul(c).add(a.mul(s)).store_elements(high.as_mut_ptr().add(i), count);
        }
    });
}
