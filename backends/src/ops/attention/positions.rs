//! Relative position embeddings, for disentangled attention.

use crate::error::LoadError;
use crate::ops::device::target::Target;
use candle_core::{Result, Storage, Tensor};
use prefold_kernels::{DistanceRows, RowView};
use std::sync::Arc;

/// The row of each distance, on the host and on the device of the model.
#[derive(Debug)]
pub(crate) struct PositionRows {
    host: DistanceRows,
    #[cfg(feature = "cuda")]
    device: Option<Tensor>,
}

impl PositionRows {
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(host: DistanceRows, target: &Target) -> std::result::Result<Self, LoadError> {
        #[cfg(not(feature = "cuda"))]
        let _ = target;
        Ok(Self {
            #[cfg(feature = "cuda")]
            device: if target.is_cpu() {
                None
            } else {
                Some(Tensor::from_slice(host.values(), host.values().len(), &target.device)?)
            },
            host,
        })
    }
}

/// Relative position embeddings of a layer, `[rows, width of all heads]`; in f32 on a CPU, in the type of the weights on a GPU.
#[derive(Debug)]
pub(crate) struct RelativePositions {
    /// Embeddings that queries are multiplied with.
    keys: Option<Tensor>,
    /// Embeddings that keys are multiplied with.
    queries: Option<Tensor>,
    rows: Arc<PositionRows>,
}

impl RelativePositions {
    /// Copies the tables, in f32 on the host, to the device.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(
        [keys, queries]: [Option<Tensor>; 2],
        rows: Arc<PositionRows>,
        target: &Target,
    ) -> std::result::Result<Self, LoadError> {
        // A CPU rounds them later, with the other factors of its products.
        let place = |table: Tensor| target.upload(&table.to_dtype(target.projections())?);
        Ok(Self { keys: keys.map(place).transpose()?, queries: queries.map(place).transpose()?, rows })
    }

    /// Calls `f` with the tables on the host, if the layer has them.
    pub(in crate::ops) fn on_host<R>(
        positions: Option<&Self>,
        f: impl FnOnce(Option<prefold_kernels::RelativePositions<'_>>) -> Result<R>,
    ) -> Result<R> {
        let Some(Self { keys, queries, rows }) = positions else { return f(None) };
        let tables = [keys, queries].map(|table| table.as_ref().map(Tensor::storage_and_layout));
        let [keys, queries] = tables.each_ref().map(|table| match table {
            None => Ok(None),
            Some((storage, layout)) => match &**storage {
                Storage::Cpu(storage) => {
                    let data = &storage.as_slice::<f32>()?[layout.start_offset()..];
                    Ok(Some(RowView { data, row_stride: layout.dims()[1], offset: 0 }))
                }
                _ => candle_core::bail!("attention: relative position embeddings are on a GPU, the scores on the CPU"),
            },
        });
        f(Some(prefold_kernels::RelativePositions { keys: keys?, queries: queries?, rows: &rows.host }))
    }

    /// Calls `f` with the tables on a GPU, if the layer has them.
    #[cfg(feature = "cuda")]
    pub(in crate::ops) fn on_device<T: candle_core::cuda_backend::CudaDType, R>(
        positions: Option<&Self>,
        f: impl FnOnce(Option<prefold_kernels::cuda::RelativePositions<'_, T>>) -> Result<R>,
    ) -> Result<R> {
        let Some(Self { keys, queries, rows }) = positions else { return f(None) };
        let Some(device) = &rows.device else {
            candle_core::bail!("attention: relative position embeddings are on the CPU, the scores on a GPU")
        };
        let tables = [keys, queries].map(|table| table.as_ref().map(Tensor::storage_and_layout));
        let [keys, queries] = tables.each_ref().map(|table| match table {
            None => Ok(None),
            Some((storage, layout)) => match &**storage {
                Storage::Cuda(storage) => Ok(Some(crate::ops::tensor::cuda::view::<T>((storage, layout))?)),
                _ => candle_core::bail!("attention: relative position embeddings are on the CPU, the scores on a GPU"),
            },
        });
        crate::ops::tensor::cuda::with_view::<u32, _>(device, |values| {
            let rows = &rows.host;
            f(Some(prefold_kernels::cuda::RelativePositions { keys: keys?, queries: queries?, rows, values }))
        })
    }
}
