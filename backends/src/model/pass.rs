//! A forward pass through the blocks of a transformer, and the steps that blocks have in common.

use super::adapted::{Projection, Rows};
use super::buffers::{Name, Workspace};
use super::layout::Layout;
use super::loader::Norms;
use crate::ops::{self, Norm, Store};
use candle_core::{Result, Tensor};

/// One forward pass, with a yield point before each operation.
pub(super) struct Pass<'a, 'y> {
    pub(super) space: Workspace<'a, 'y>,
    pub(super) layout: &'a Layout,
    pub(super) row_block: usize,
}

impl Pass<'_, '_> {
    /// Rows of the residual stream as the input of a linear layer.
    pub(super) fn activations(&mut self, rows: &Tensor) -> Result<Tensor> {
        let (count, width) = rows.dims2()?;
        let converted = self.space.buffers.narrow(Name::Normed, count, width)?;
        if converted.dtype() == rows.dtype() {
            return Ok(rows.clone());
        }
        ops::convert(rows, &converted, self.space.yields)?;
        Ok(converted)
    }

    /// Rows of the residual stream as the input of a linear layer, normalised if there is a norm.
    pub(super) fn input(&mut self, norm: Option<&Norm>, residual: &Tensor) -> Result<Tensor> {
        let Some(norm) = norm else { return self.activations(residual) };
        let normed = self.space.buffers.rows(Name::Normed, residual.dim(0)?)?;
        norm.forward(residual, &normed, self.space.yields)?;
        Ok(normed)
    }

    /// Adds a block's output, its last linear layer applied to `x`, to the residual stream, with the norms that follow.
    pub(super) fn add(
        &mut self,
        norms: &Norms,
        product: &Projection,
        (x, rows): (&Tensor, Rows<'_>),
        residual: &Tensor,
    ) -> Result<()> {
        let Some(norm) = norms.output.as_ref().or(norms.inner_sum.as_ref()) else {
            product.forward((x, rows), residual, Store::Accumulate, &mut self.space)?;
            return self.finish(norms, residual);
        };
        for (x, (rows, residual)) in blocks(x, self.row_block)?.zip(self.row_blocks(residual, rows)?) {
            let (x, residual) = (x?, residual?);
            let other = self.space.buffers.rows(Name::BlockOutput, residual.dim(0)?)?;
            if norms.output.is_some() {
                product.forward((&x, rows), &other, Store::Overwrite, &mut self.space)?;
                norm.forward_add(&other, &residual, self.space.yields)?;
                continue;
            }
            ops::convert(&residual, &other, self.space.yields)?;
            product.forward((&x, rows), &residual, Store::Accumulate, &mut self.space)?;
            norm.forward_in_place(&residual, self.space.yields)?;
            ops::add(&other, &residual, self.space.yields)?;
        }
        self.finish(norms, residual)
    }

    /// Normalises the sum of a block's input and output in models with norms after blocks.
    pub(super) fn finish(&mut self, norms: &Norms, residual: &Tensor) -> Result<()> {
        match &norms.sum {
            None => Ok(()),
            Some(norm) => norm.forward_in_place(residual, self.space.yields),
        }
    }

    /// Views of at most `row_block` rows, each with its layout rows.
    pub(super) fn row_blocks<'a>(
        &self,
        x: &Tensor,
        rows: Rows<'a>,
    ) -> Result<impl Iterator<Item = (Rows<'a>, Result<Tensor>)> + use<'a>> {
        let row_block = self.row_block;
        Ok(blocks(x, row_block)?.enumerate().map(move |(index, x)| (rows.from(index * row_block), x)))
    }
}

/// Views of at most `row_block` rows.
pub(super) fn blocks(x: &Tensor, row_block: usize) -> Result<impl Iterator<Item = Result<Tensor>> + use<>> {
    let (x, rows) = (x.clone(), x.dim(0)?);
    Ok((0..rows).step_by(row_block).map(move |start| x.narrow(0, start, row_block.min(rows - start))))
}
