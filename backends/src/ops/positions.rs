//! Embeddings of distances, for disentangled attention.

use super::target::Target;
use crate::LoadError;
use candle_core::{Result, Storage, Tensor};
use prefold_kernels::{DistanceRows, RowView};
use std::sync::Arc;

/// The row of each distance, on the host, and on the device too where that is another.
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
            device: match target.is_cpu() {
                true => None,
                false => Some(Tensor::from_slice(host.values(), host.values().len(), &target.device)?),
            },
            host,
        })
    }
}

/// Embeddings of distances in a layer, on the device: `[rows, width of all heads]`, in f32 on a CPU and in the type of the weights on a GPU.
#[derive(Debug)]
pub(crate) struct RelativePositions {
    /// Factors of the queries.
    keys: Option<Tensor>,
    /// Factors of the keys.
    queries: Option<Tensor>,
    rows: Arc<PositionRows>,
}

impl RelativePositions {
    /// The tables, in f32 on the host, brought to the device.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(
        [keys, queries]: [Option<Tensor>; 2],
        rows: Arc<PositionRows>,
        target: &Target,
    ) -> std::result::Result<Self, LoadError> {
        // A CPU rounds them with the other factors of its products.
        let place = |table: Tensor| target.upload(&table.to_dtype(target.projections())?);
        Ok(Self { keys: keys.map(place).transpose()?, queries: queries.map(place).transpose()?, rows })
    }

    /// Calls `f` with the tables on the host, where a layer has them.
    pub(super) fn on_host<R>(
        positions: Option<&Self>,
        f: impl FnOnce(Option<prefold_kernels::RelativePositions<'_>>) -> Result<R>,
    ) -> Result<R> {
        let Some(Self { keys, queries, rows }) = positions else { return f(None) };
        let tables = [keys, queries].map(|table| table.as_ref().map(Tensor::storage_and_layout));
        let [keys, queries] = tables.each_ref().map(|table| match table {
            None => Ok(None),
            Some((storage, layout)) => match &**storage {
                Storage::Cpu(storage) => {
                    let (data, row_stride) = (storage.as_slice::<f32>()?, layout.dims()[1]);
                    Ok(Some(RowView { data, row_stride, offset: layout.start_offset() }))
                }
                _ => candle_core::bail!("attention: the embeddings of distances are on a GPU, the scores on the CPU"),
            },
        });
        f(Some(prefold_kernels::RelativePositions { keys: keys?, queries: queries?, rows: &rows.host }))
    }

    /// Calls `f` with the tables on a GPU, where a layer has them.
    #[cfg(feature = "cuda")]
    pub(super) fn on_device<T: candle_core::cuda_backend::CudaDType, R>(
        positions: Option<&Self>,
        f: impl FnOnce(Option<prefold_kernels::cuda::RelativePositions<'_, T>>) -> Result<R>,
    ) -> Result<R> {
        let Some(Self { keys, queries, rows }) = positions else { return f(None) };
        let Some(device) = &rows.device else {
            candle_core::bail!("attention: the embeddings of distances are on the CPU, the scores on a GPU")
        };
        let tables = [keys, queries].map(|table| table.as_ref().map(Tensor::storage_and_layout));
        let [keys, queries] = tables.each_ref().map(|table| match table {
            None => Ok(None),
            Some((storage, layout)) => match &**storage {
                Storage::Cuda(storage) => Ok(Some(super::cuda::view::<T>((storage, layout))?)),
                _ => candle_core::bail!("attention: the embeddings of distances are on the CPU, the scores on a GPU"),
            },
        });
        super::cuda::with_view::<u32, _>(device, |values| {
            let rows = &rows.host;
            f(Some(prefold_kernels::cuda::RelativePositions { keys: keys?, queries: queries?, rows, values }))
        })
    }
}
