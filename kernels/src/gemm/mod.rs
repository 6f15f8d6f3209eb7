//! Matrix product `y = x W^T`, with the weights packed once.
//!
//! The loops follow BLIS (F. G. Van Zee and R. A. van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS
//! Functionality", ACM TOMS 41(3), 2015), and so do the names:
//!
//! - *MR*, *NR*: rows and columns of a register block, constants of [`Dot`](crate::simd::Dot), which is the micro-kernel's step.
//! - *Packed A*: rows of `x`, *MC* at a time ([`MC`]), packed by each core into its L2. Its micro-panels are `[steps, MR]`.
//! - *Packed B*: the weights, in micro-panels of [`PANEL`] columns, a multiple of each instruction set's NR (see [`pack`]). Unlike in
//!   BLIS, B is packed when a model is loaded, not at each call.
//! - *KC*: words of a row that are summed in registers.
//! - *NC*: columns of packed B that are multiplied with all rows of a block before the next ones, here given by their bytes
//!   (`NC_BYTES`).

mod block;
mod epilogue;
mod pack;
mod packing;
mod quantization_error;
mod rows;
mod tiles;
mod vectors;

pub use pack::{PANEL, PackedMatrix, PackedMatrixBuilder};
pub use packing::Packing;

use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::isa::Isa;
use crate::rowwise::activation::{Activation, Function};
use crate::runtime::scratch::{as_f32, with_words};
use crate::runtime::shared_pointer::SharedPointer;
use crate::runtime::thread_pool;
use crate::store::Store;
use block::Block;
use epilogue::{Activated, Epilogue, Gated};
use half::bf16;
use rows::{RowBytes, with_rows};
use std::ops::Range;

/// Rows of a block (packed A): a core packs this many rows at a time, so that they stay in its L2 while it reads each
/// panel of packed B once for all of them. Long quantized rows, which are packed whole, have smaller blocks.
const MC: usize = 14 * 24;

/// Maximum words of the packed rows of a block.
const BLOCK_WORDS: usize = MC * 512;

/// Cost of packing a row, as a number of columns to multiply it with.
const PACKING: usize = 24;

/// Cost of reading a column from memory, as a number of rows to multiply it with.
const READING: usize = 8;

/// Maximum tasks per thread of a product: more than one, so that fast threads take work from slow ones.
const TASKS_PER_THREAD: usize = 4;

/// Minimum multiplications to use several threads: smaller products are done before a second thread has woken up.
const PARALLEL_PRODUCTS: usize = 1 << 18;

/// Maximum number of parts that a product of `m` rows can be run in without loss: each part still has a full block of rows for every
/// thread, so every block packs its rows and reads the weights once either way.
pub fn row_parts(m: usize) -> usize {
    m.div_ceil(MC).div_ceil(thread_pool::num_threads()).max(1)
}

/// A product `x W^T`: set what differs from [`new`](Self::new), then [`run`](Self::run).
#[derive(Debug, Clone)]
pub struct Gemm<'a, P: Packing> {
    /// Input, `[m, k]`.
    pub x: &'a [P::Input],
    /// `[n, k]`
    pub weight: &'a PackedMatrix<P>,
    /// Rows of the weight to multiply with: the columns of the product.
    pub columns: Range<usize>,
    /// Added to every row, `[columns.len()]`.
    pub bias: Option<&'a [f32]>,
    /// Replace the output or add to it.
    pub store: Store,
    /// Row stride of the output in values, if it is part of a wider matrix; `None` for the number of columns.
    pub out_stride: Option<usize>,
}

impl<'a, P: Packing> Gemm<'a, P> {
    /// A product with all rows of the weight, without bias, that replaces the output.
    pub fn new(x: &'a [P::Input], weight: &'a PackedMatrix<P>) -> Self {
        Self { x, weight, columns: 0..weight.rows(), bias: None, store: Store::Overwrite, out_stride: None }
    }

    /// Computes the product; `out` is `[m, columns.len()]`, from its first value to its last.
    ///
    /// # Errors
    /// If lengths do not fit together, rows of the output overlap, or `columns` is not a range of the weight's rows.
    pub fn run(&self, out: &mut [f32]) -> Result<(), KernelError> {
        self.run_with(Isa::best(), out)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with(&self, isa: Isa, out: &mut [f32]) -> Result<(), KernelError> {
        let width = self.columns.len();
        let (m, out_stride) = (self.check(width, out.len())?, self.out_stride.unwrap_or(width));
        let first = SharedPointer::new(out);
        self.for_each_block(isa, m, |x, rows, columns| {
            let out = first.at(rows.start * out_stride + columns.start - self.columns.start);
            self.run_block(isa, (x, rows), columns, self.store, (out, out_stride), None);
        });
        Ok(())
    }

    /// Writes `activation(x W^T + b)` to `out`, `[m, columns.len()]` as in [`run`](Self::run); always replaces the output, regardless of
    /// [`store`](Self::store).
    ///
    /// Each core applies the activation to its sums while they are in its cache.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_activated<E: Element>(&self, activation: Activation, out: &mut [E]) -> Result<(), KernelError> {
        self.run_activated_with(Isa::best(), activation, out)
    }

    /// [`run_activated`](Self::run_activated) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_activated_with<E: Element>(
        &self,
        isa: Isa,
        activation: Activation,
        out: &mut [E],
    ) -> Result<(), KernelError> {
        let width = self.columns.len();
        let (m, out_stride) = (self.check(width, out.len())?, self.out_stride.unwrap_or(width));
        let (out, first_column) = (SharedPointer::new(out), self.columns.start);
        let function = Self::function::<E>(activation);
        self.run_epilogue(isa, m, &Activated { isa, function, out, out_stride, first_column });
        Ok(())
    }

    /// Writes `activation(gate) * up` to `out`, where gate and up are the products with both halves of a
    /// [gated](PackedMatrixBuilder::gated) weight. Columns are whole panels; `out` has half as many, and less the padding of the last
    /// panel. Always replaces the output.
    ///
    /// # Errors
    /// As [`run`](Self::run); and if the weight is not gated, or the columns are not whole panels.
    pub fn run_gated<E: Element>(&self, activation: Activation, out: &mut [E]) -> Result<(), KernelError> {
        self.run_gated_with(Isa::best(), activation, out)
    }

    /// [`run_gated`](Self::run_gated) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_gated_with<E: Element>(
        &self,
        isa: Isa,
        activation: Activation,
        out: &mut [E],
    ) -> Result<(), KernelError> {
        let Some(intermediate) = self.weight.intermediate() else {
            return Err(KernelError::Value { argument: "weight", found: self.weight.rows(), expected: "gated" });
        };
        let Range { start, end } = self.columns;
        if let Some(found) = [start, end].into_iter().find(|column| !column.is_multiple_of(PANEL)) {
            return Err(KernelError::Value { argument: "columns", found, expected: "whole panels" });
        }
        let width = (end / 2).min(intermediate).saturating_sub(start / 2);
        let (m, out_stride) = (self.check(width, out.len())?, self.out_stride.unwrap_or(width));
        let (out, first_column) = (SharedPointer::new(out), start);
        let function = Self::function::<E>(activation);
        self.run_epilogue(isa, m, &Gated { isa, function, out, out_stride, first_column, intermediate });
        Ok(())
    }

    /// The activation to the precision of the product and of the output. Quantized rows have larger errors than bf16.
    fn function<E: Element>(activation: Activation) -> Function {
        if P::IS_QUANTIZED { activation.to_precision_of::<bf16>() } else { activation.to_precision_of::<E>() }
    }

    /// Computes the product and hands its sums to an epilogue: a panel at a time on tiles, else a block.
    fn run_epilogue(&self, isa: Isa, m: usize, epilogue: &dyn Epilogue) {
        self.for_each_block(isa, m, |x, rows, columns| {
            if Self::runs_on_tiles(isa) {
                let unused = (std::ptr::null_mut(), 0);
                self.run_block(isa, (x, rows), columns, Store::Overwrite, unused, Some(epilogue));
                return;
            }
            let width = columns.len();
            with_words(rows.len() * width, |sums| {
                let sums = as_f32(sums);
                let out = (sums.as_mut_ptr(), width);
                self.run_block(isa, (x, rows.clone()), columns.clone(), Store::Overwrite, out, None);
                // SAFETY: blocks have disjoint rows and columns.
                unsafe { epilogue.apply(rows, columns, sums, width) };
            });
        });
    }

    /// Calls `f` with the input, the rows and the columns of each block of a product of `m` rows, on all cores.
    fn for_each_block(&self, isa: Isa, m: usize, f: impl Fn(RowBytes<'_>, Range<usize>, Range<usize>) + Sync) {
        if m == 0 || self.columns.is_empty() {
            return;
        }
        let k = self.weight.cols();
        let split = Split::new(m, self.columns.clone(), k, Self::block_rows(isa, k));
        with_rows::<P, _>(isa, self.x, k, |x| {
            thread_pool::for_each(split.tasks(), |task| {
                let (rows, columns) = split.task(task);
                f(x, rows, columns);
            });
        });
    }

    fn runs_on_tiles(isa: Isa) -> bool {
        P::ELEMENTS > 1 && isa.has_tiles()
    }

    fn block_rows(isa: Isa, k: usize) -> usize {
        if Self::runs_on_tiles(isa) {
            return tiles::block_rows(k * P::DTYPE_SIZE);
        }
        if P::IS_QUANTIZED { (BLOCK_WORDS / k.div_ceil(2)).clamp(28, MC) } else { MC }
    }

    /// Computes a block; `out` is the address of its first element and the distance of its rows. No other thread writes to the block.
    fn run_block(
        &self,
        isa: Isa,
        (x, rows): (RowBytes<'_>, Range<usize>),
        columns: Range<usize>,
        store: Store,
        (out, out_stride): (*mut f32, usize),
        epilogue: Option<&dyn Epilogue>,
    ) {
        let skipped = columns.start - self.columns.start;
        let bias = self.bias.map(|bias| &bias[skipped..][..columns.len()]);
        let block = Block { x, rows, weight: self.weight, bias, columns, store, out, out_stride, epilogue };
        P::multiply(isa, block);
    }

    /// The rows of the product, whose output has `width` columns.
    fn check(&self, width: usize, out_len: usize) -> Result<usize, KernelError> {
        let m = whole_rows("x", self.weight.cols(), self.x.len())?;
        if self.columns.end > self.weight.rows() {
            let limit = self.weight.rows() + 1;
            return Err(KernelError::Index { argument: "end of the columns", found: self.columns.end, limit });
        }
        let out_stride = self.out_stride.unwrap_or(width);
        if out_stride < width {
            let expected = "at least the columns";
            return Err(KernelError::Value { argument: "out_stride", found: out_stride, expected });
        }
        check_len("out", if m * width == 0 { 0 } else { (m - 1) * out_stride + width }, out_len)?;
        if let Some(bias) = self.bias {
            check_len("bias", self.columns.len(), bias.len())?;
        }
        Ok(m)
    }
}

/// A product split into blocks of rows and columns. The split does not influence the result.
struct Split {
    m: usize,
    row_blocks: usize,
    columns: Range<usize>,
    column_blocks: usize,
}

impl Split {
    /// The split that minimises the time of the busiest thread: enough blocks for the threads to share evenly, but few,
    /// because each packs its rows and reads its columns.
    fn new(m: usize, columns: Range<usize>, k: usize, block_rows: usize) -> Self {
        let (threads, fewest) = (thread_pool::num_threads(), m.div_ceil(block_rows));
        if m * columns.len() * k < PARALLEL_PRODUCTS || threads == 1 {
            return Self { m, row_blocks: fewest, columns, column_blocks: 1 };
        }
        let panels = columns.end.div_ceil(PANEL) - columns.start / PANEL;
        let even = fewest.next_multiple_of(threads).min(m);
        let splits = [fewest, even].into_iter().flat_map(|row_blocks| {
            let most = (TASKS_PER_THREAD * threads).div_ceil(row_blocks).min(panels);
            (1..=most).map(move |column_blocks| (row_blocks, column_blocks))
        });
        let cost = |&(row_blocks, column_blocks): &(usize, usize)| {
            let (rows, columns) = (m.div_ceil(row_blocks), panels.div_ceil(column_blocks) * PANEL);
            (row_blocks * column_blocks).div_ceil(threads) * (rows + READING) * (columns + PACKING)
        };
        let (row_blocks, column_blocks) = splits.min_by_key(cost).unwrap_or((fewest, 1));
        Self { m, row_blocks, columns, column_blocks }
    }

    fn tasks(&self) -> usize {
        self.row_blocks * self.column_blocks
    }

    /// The rows and columns of a task; column blocks end at panel boundaries, except the last.
    fn task(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let (i, j) = (task / self.column_blocks, task % self.column_blocks);
        let rows = self.m * i / self.row_blocks..self.m * (i + 1) / self.row_blocks;
        let (first, last) = (self.columns.start / PANEL, self.columns.end.div_ceil(PANEL));
        let end = |j| (first + (last - first) * j / self.column_blocks) * PANEL;
        (rows, end(j).max(self.columns.start)..end(j + 1).min(self.columns.end))
    }
}
