//! Linear layers and embeddings with LoRA adapters: `W x + scale * B (A x)` with `A` and `B` of each row's own adapter.
//!
//! `lora_a` of all adapters is one matrix, and so is `lora_b`. In the product with `lora_a` a row keeps the columns of its own adapter; the
//! others are set to 0. So texts of different adapters share a batch, and a row's result depends on that row alone. Runs of rows without an
//! adapter are skipped. Where a layer is made of several matrices, each with its own adapters, an adapter has columns
//! for each of them, and `lora_b` has zeros where a row of one matrix meets columns of another.

use super::buffers::{Name, Workspace, joins_gate_and_up};
use super::loader::Loader;
use crate::config::AdaptersConfig;
use crate::config::adapters::{first_factor, second_factor};
use crate::config::tensors::MatrixSlice;
use crate::error::LoadError;
use crate::ops::{self, Linear, Store, Table};
use candle_core::{Device, Result, Tensor};
use prefold_kernels::Dtype;
use std::ops::Range;

type LoadResult<T> = std::result::Result<T, LoadError>;

/// The adapters of some rows.
#[derive(Debug)]
pub(super) struct RowAdapters {
    /// Index of each row's adapter, arbitrary for rows without one. `[rows]`, `u32`
    pub(super) own: Tensor,
    /// Row of each token in the `lora_a` table of the word embeddings. `[rows]`, `u32`
    pub(super) words: Tensor,
    /// Runs of rows that have an adapter, in ascending order.
    pub(super) runs: Vec<Range<usize>>,
}

impl RowAdapters {
    /// The runs inside `rows`, split into at most `most` rows each.
    fn runs_in(&self, rows: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
        self.runs.iter().flat_map(move |run| {
            let (start, end) = (run.start.max(rows.start), run.end.min(rows.end));
            (start..end.max(start)).step_by(most.max(1)).map(move |first| first..end.min(first + most))
        })
    }
}

/// Runs of rows that have an adapter.
pub(super) fn runs(has_one: impl Iterator<Item = bool>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (row, _) in has_one.enumerate().filter(|(_, has_one)| *has_one) {
        match runs.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => runs.push(row..row + 1),
        }
    }
    runs
}

/// Neighbouring rows of a layout and their adapters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) adapters: Option<&'a RowAdapters>,
    /// Index of the first row in the layout.
    pub(super) first: usize,
}

impl Rows<'_> {
    /// The rows from `offset` on.
    pub(super) fn from(self, offset: usize) -> Self {
        Self { first: self.first + offset, ..self }
    }
}

/// A linear layer with optional LoRA adapters.
#[derive(Debug)]
pub(super) struct Projection {
    pub(super) linear: Linear,
    factors: Option<Box<Factors>>,
}

/// `lora_a` and `lora_b` of all adapters of a layer.
#[derive(Debug)]
struct Factors {
    /// `[adapters * group, in_features]`
    first: Linear,
    second: SecondFactors,
}

/// `lora_b` of all adapters, with the scale.
#[derive(Debug)]
struct SecondFactors {
    /// `[out_features, adapters * group]`
    matrix: Linear,
    /// Columns of an adapter, the rank times the matrices of the layer; and of all adapters.
    group: usize,
    columns: usize,
}

impl Projection {
    /// True if the layer has adapters. Its output must then be written before an activation is applied.
    pub(super) fn is_adapted(&self) -> bool {
        self.factors.is_some()
    }

    /// Writes some columns of `W x + b` with the adapters of the rows to `out`, or adds them.
    pub(super) fn forward_columns(
        &self,
        columns: Range<usize>,
        (x, rows): (&Tensor, Rows<'_>),
        out: &Tensor,
        store: Store,
        space: &mut Workspace<'_, '_>,
    ) -> Result<()> {
        self.linear.forward_columns(columns.clone(), x, out, store, space.yields)?;
        let (Some(factors), Some(adapters)) = (&self.factors, rows.adapters) else { return Ok(()) };
        let count = x.dim(0)?;
        for run in adapters.runs_in(rows.first..rows.first + count, count) {
            let (first, len) = (run.start - rows.first, run.len());
            let all = space.buffers.narrow(Name::AdapterColumns, len, factors.first.out_features())?;
            factors.first.forward(&x.narrow(0, first, len)?, &all, Store::Overwrite, space.yields)?;
            let out = out.narrow(0, first, len)?;
            factors.second.add(columns.clone(), (&all, &adapters.own.narrow(0, run.start, len)?), &out, space)?;
        }
        Ok(())
    }

    /// Writes or adds all columns; see [`forward_columns`](Self::forward_columns).
    pub(super) fn forward(
        &self,
        x: (&Tensor, Rows<'_>),
        out: &Tensor,
        store: Store,
        space: &mut Workspace<'_, '_>,
    ) -> Result<()> {
        self.forward_columns(0..self.linear.out_features(), x, out, store, space)
    }
}

impl SecondFactors {
    /// Adds the product of `lora_b` with the columns of each row's own adapter.
    fn add(
        &self,
        columns: Range<usize>,
        (x, own): (&Tensor, &Tensor),
        out: &Tensor,
        space: &mut Workspace<'_, '_>,
    ) -> Result<()> {
        let kept = space.buffers.narrow(Name::OwnColumns, x.dim(0)?, self.columns)?;
        ops::own_columns(x, own, self.group, &kept, space.yields)?;
        self.matrix.forward_columns(columns, &kept, out, Store::Accumulate, space.yields)
    }
}

/// The LoRA adapters of the word embeddings.
#[derive(Debug)]
pub(super) struct WordFactors {
    /// `[adapters * vocab_size, rank]`
    first: Table,
    second: SecondFactors,
}

impl WordFactors {
    /// Adds the adapters' changes to the word embeddings of all rows, at most `row_block` rows at a time.
    pub(super) fn add(
        &self,
        adapters: &RowAdapters,
        sum: &Tensor,
        row_block: usize,
        space: &mut Workspace<'_, '_>,
    ) -> Result<()> {
        for run in adapters.runs_in(0..sum.dim(0)?, row_block) {
            let (start, len) = (run.start, run.len());
            let part = space.buffers.narrow(Name::AdapterColumns, len, self.second.group)?;
            self.first.embed(&adapters.words.narrow(0, start, len)?, &part, Store::Overwrite, space.yields)?;
            let (own, sum) = (adapters.own.narrow(0, start, len)?, sum.narrow(0, start, len)?);
            self.second.add(0..self.second.matrix.out_features(), (&part, &own), &sum, space)?;
        }
        Ok(())
    }
}

impl Loader<'_> {
    /// The input of a feed-forward block: a gated layer where its activation is part of the product, which a block with adapters and a
    /// GPU compute separately.
    pub(super) fn feed_forward_input(
        &self,
        parts: &[MatrixSlice],
        in_features: usize,
        bias: bool,
    ) -> LoadResult<Projection> {
        if joins_gate_and_up(self.config, self.target) {
            return Ok(Projection { linear: self.gated_linear(parts, in_features, bias)?, factors: None });
        }
        self.projection(parts, in_features, bias)
    }

    /// A linear layer, with its adapters if the model has any.
    pub(super) fn projection(&self, parts: &[MatrixSlice], in_features: usize, bias: bool) -> LoadResult<Projection> {
        let linear = self.linear_of(parts, in_features, bias)?;
        let factors = match &self.config.adapters {
            None => None,
            Some(adapters) if parts.iter().all(|part| !part.swapped) => {
                Some(Box::new(self.factors(adapters, parts, in_features)?))
            }
            Some(_) => {
                let problem = "a LoRA adapter of a linear layer whose halves are swapped".to_owned();
                return Err(LoadError::unsupported("the checkpoint", problem, "rows in the order of the layer"));
            }
        };
        Ok(Projection { linear, factors })
    }

    fn factors(&self, adapters: &AdaptersConfig, parts: &[MatrixSlice], in_features: usize) -> LoadResult<Factors> {
        let (count, rank, group) = (adapters.count(), adapters.rank, parts.len() * adapters.rank);
        let mut first = vec![0.0; count * group * in_features];
        // A row of `lora_b` for each row of the layer: the part that it belongs to, and the values of all adapters for it.
        let mut rows: Vec<(usize, Vec<f32>)> = Vec::new();
        for (number, MatrixSlice { name, rows: height, .. }) in parts.iter().enumerate() {
            let a = self.weights.read::<f32>(&first_factor(name), &[count, rank, in_features])?;
            for (adapter, a) in a.chunks_exact(rank * in_features).enumerate() {
                let start = (adapter * group + number * rank) * in_features;
                first[start..start + a.len()].copy_from_slice(a);
            }
            let b = self.weights.read::<f32>(&second_factor(name), &[count, *height, rank])?;
            let of_row = |row: usize| b.chunks_exact(rank).skip(row).step_by(*height).flatten().copied().collect();
            rows.extend((0..*height).map(|row| (number, of_row(row))));
        }
        let at = |row: usize, column: usize| {
            let (number, values) = &rows[row];
            let (adapter, within) = (column / group, column % group);
            if within / rank == *number { values[adapter * rank + within % rank] } else { 0.0 }
        };
        let name = parts.first().map_or("", |part| &part.name);
        Ok(Factors {
            first: self.factor(&first_factor(name), [count * group, in_features], first)?,
            second: self.second_factors(adapters, (&second_factor(name), parts.len()), rows.len(), at)?,
        })
    }

    /// The LoRA adapters of the word embeddings.
    pub(super) fn word_factors(&self, adapters: &AdaptersConfig) -> LoadResult<WordFactors> {
        let (name, vocab_size) = (self.config.names.words, self.config.vocab_size);
        let (count, rank, width) = (adapters.count(), adapters.rank, self.config.embeddings.size);
        let first = self.weights.read::<f32>(&first_factor(name), &[count, vocab_size, rank])?;
        let second = self.weights.read::<f32>(&second_factor(name), &[count, rank, width])?;
        let first = Tensor::from_vec(first, (count * vocab_size, rank), &Device::Cpu)?;
        let at = |row: usize, column: usize| second[column * width + row];
        Ok(WordFactors {
            first: Table::Plain(self.target.upload(&first)?),
            second: self.second_factors(adapters, (&second_factor(name), 1), width, at)?,
        })
    }

    /// The token type embeddings, followed by a changed copy for each adapter.
    pub(super) fn adapted_token_types(&self, adapters: &AdaptersConfig, rows: usize) -> LoadResult<Table> {
        let (name, width) = (self.config.names.token_types, self.config.embeddings.size);
        let (count, rank) = (adapters.count(), adapters.rank);
        let plain = self.weights.read::<f32>(&format!("{name}.weight"), &[rows, width])?;
        let first = self.weights.read::<f32>(&first_factor(name), &[count, rows, rank])?;
        let second = self.weights.read::<f32>(&second_factor(name), &[count, rank, width])?;
        let mut all = plain.clone();
        for (first, second) in first.chunks_exact(rows * rank).zip(second.chunks_exact(rank * width)) {
            for (row, factors) in plain.chunks_exact(width).zip(first.chunks_exact(rank)) {
                all.extend(row.iter().enumerate().map(|(column, value)| {
                    let terms = factors.iter().zip(second.iter().skip(column).step_by(width));
                    value + adapters.scale * terms.map(|(a, b)| a * b).sum::<f32>()
                }));
            }
        }
        let table = Tensor::from_vec(all, ((count + 1) * rows, width), &Device::Cpu)?;
        Ok(Table::Plain(self.target.upload(&table)?))
    }

    /// `lora_b` of all adapters side by side, for a layer of `parts` matrices; `at` gives the value in a row and a column.
    fn second_factors(
        &self,
        adapters: &AdaptersConfig,
        (name, parts): (&str, usize),
        rows: usize,
        at: impl Fn(usize, usize) -> f32,
    ) -> LoadResult<SecondFactors> {
        let width = parts * adapters.width();
        let values = (0..rows * width).map(|index| adapters.scale * at(index / width, index % width)).collect();
        Ok(SecondFactors {
            matrix: self.factor(name, [rows, width], values)?,
            group: parts * adapters.rank,
            columns: width,
        })
    }

    /// A `lora_a` or `lora_b` matrix in the type of the model, or in float32 if the model is in int8.
    fn factor(&self, name: &str, shape: [usize; 2], values: Vec<f32>) -> LoadResult<Linear> {
        let dtype = match self.target.dtype() {
            Dtype::Int8 => Dtype::Float32,
            dtype => dtype,
        };
        let shape = (shape[0], shape[1]);
        let matrix = Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(ops::candle_dtype(dtype))?;
        Linear::load(self.target, (name, dtype), shape, false, std::iter::once(Ok(matrix)), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_those_of_the_rows_with_an_adapter() {
        let runs = runs([false, true, true, false, true].into_iter());
        assert_eq!(runs, [1..3, 4..5]);
        let own = Tensor::zeros(5, candle_core::DType::U32, &Device::Cpu).unwrap();
        let adapters = RowAdapters { words: own.clone(), own, runs };
        let inside = |rows, most| adapters.runs_in(rows, most).collect::<Vec<_>>();
        assert_eq!(inside(0..5, 8), [1..3, 4..5]);
        assert_eq!(inside(0..5, 1), [1..2, 2..3, 4..5]);
        assert_eq!(inside(2..4, 8), vec![2..3]);
        assert_eq!(inside(3..4, 8), Vec::<Range<usize>>::new());
    }
}
