//! Relative position embeddings, projected for each layer when a model is loaded.

use super::loader::{Loader, load_linear};
use crate::config::tensors::slices;
use crate::config::{DisentangledConfig, PositionsConfig};
use crate::error::LoadError;
use crate::ops::{Norm, PositionRows, RelativePositions, Store, Target, Vector, Yields};
use candle_core::{DType, Device, Tensor};
use prefold_core::Uninterrupted;
use prefold_kernels::{DistanceRows, Dtype};
use std::sync::Arc;

type Result<T> = std::result::Result<T, LoadError>;

/// The table of all layers.
pub(super) struct Distances {
    config: DisentangledConfig,
    /// `[rows, hidden_size]`, normalised if the model does so.
    table: Tensor,
    rows: Arc<PositionRows>,
}

impl Distances {
    /// The table for sequences of up to `positions` tokens; `None` in models without disentangled attention.
    pub(super) fn load(loader: &Loader<'_>, positions: usize) -> Result<Option<Self>> {
        let PositionsConfig::Disentangled(config) = loader.config.positions else { return Ok(None) };
        let (names, hidden, target) = (&loader.config.names, loader.config.hidden_size, Target::cpu(Dtype::Float32));
        let shape = [config.rows(), hidden];
        let values: Vec<f32> = loader.weights.read(&format!("{}.weight", names.relative_bias), &shape)?;
        let table = Tensor::from_vec(values, (shape[0], shape[1]), &Device::Cpu)?;
        if config.norm_rel_ebd {
            let vector = |suffix: &str| -> Result<Vector> {
                let name = format!("{}.{suffix}", names.relative_norm);
                Vector::new(loader.weights.read(&name, &[hidden])?, &target)
            };
            let norm = Norm::layer(vector("weight")?, vector("bias")?, loader.config.norm.eps);
            norm.forward_in_place(&table, &mut Yields::new(&mut Uninterrupted))?;
        }
        let rows = DistanceRows::new(positions, |distance| config.row(distance));
        Ok(Some(Self { config, table, rows: Arc::new(PositionRows::new(rows, loader.target)?) }))
    }

    /// The table projected to the keys and queries of a layer.
    pub(super) fn of_layer(&self, loader: &Loader<'_>) -> Result<Arc<RelativePositions>> {
        let names = &loader.config.names;
        let [key, query] =
            if self.config.share_att_key { [names.k, names.q] } else { [names.position_key, names.position_query] };
        let projected = |is_used: bool, name: &str| is_used.then(|| self.project(loader, name)).transpose();
        let tables = [projected(self.config.c2p, key)?, projected(self.config.p2c, query)?];
        Ok(Arc::new(RelativePositions::new(tables, Arc::clone(&self.rows), loader.target)?))
    }

    /// The table projected by a linear layer, in float32 on the CPU for any type of weights.
    fn project(&self, loader: &Loader<'_>, name: &str) -> Result<Tensor> {
        let (width, hidden) = (loader.config.attention.q_width(), loader.config.hidden_size);
        let parts = slices(&loader.prefix, &[(name, width)]);
        let linear = load_linear(loader.weights, &Target::cpu(Dtype::Float32), &parts, hidden, true)?;
        let out = Tensor::zeros((self.config.rows(), width), DType::F32, &Device::Cpu)?;
        linear.forward(&self.table, &out, Store::Overwrite, &mut Yields::new(&mut Uninterrupted))?;
        Ok(out)
    }
}
