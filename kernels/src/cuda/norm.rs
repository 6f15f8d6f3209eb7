//! Launchers of `cuda/norm.cu`.

use super::error::CudaError;
use super::launch::{Kernels, Launch, address, address_mut};
use super::names::{RMS_NORM_ADD, names};
use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use cudarc::driver::{CudaView, CudaViewMut};

/// Residual addition and RMSNorm in one pass over the rows.
#[derive(Debug)]
pub struct AddRmsNorm<'a, T> {
    /// Added to the residual stream first, `[rows, width]`; `None` where the product has added it already (`beta = 1`).
    pub delta: Option<CudaView<'a, T>>,
    /// `[width]`
    pub weight: CudaView<'a, f32>,
    /// Added to the mean square.
    pub eps: f32,
}

impl<T: Element> AddRmsNorm<'_, T> {
    /// `x += delta; out = x / sqrt(mean(x^2) + eps) * weight`, row by row; statistics in f32.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run(
        &self,
        kernels: &Kernels,
        x: &mut CudaViewMut<'_, f32>,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        let len = x.len();
        self.check(len, out.len())?;
        let x = address_mut(kernels, x);
        self.queue(kernels, x, len, out)
    }

    /// The same without `delta`; `x` stays unchanged.
    ///
    /// # Errors
    /// The lengths do not fit together, or there is something to add.
    pub fn run_shared(
        &self,
        kernels: &Kernels,
        x: &CudaView<'_, f32>,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        check_len("delta", 0, self.delta.as_ref().map_or(0, CudaView::len))?;
        self.check(x.len(), out.len())?;
        self.queue(kernels, address(kernels, x), x.len(), out)
    }

    fn check(&self, x: usize, out: usize) -> Result<(), CudaError> {
        whole_rows("x", self.weight.len(), x)?;
        check_len("out", x, out)?;
        if let Some(delta) = &self.delta {
            check_len("delta", x, delta.len())?;
        }
        Ok(())
    }

    fn queue(&self, kernels: &Kernels, x: u64, len: usize, out: &mut CudaViewMut<'_, T>) -> Result<(), CudaError> {
        let width = self.weight.len();
        let delta = self.delta.as_ref().map_or(0, |delta| address(kernels, delta));
        let (weight, out) = (address(kernels, &self.weight), address_mut(kernels, out));
        let launch = Launch::by_rows(names::<T>().add_rms_norm, len / width, width, 4, &[x, delta, weight, out]);
        kernels.launch(launch, &[x, delta, weight, self.eps.to_bits().into(), out, width as u64])
    }
}

impl Kernels {
    /// `out += x / sqrt(mean(x^2) + eps) * weight`, row by row, as [`crate::rms_norm_add`].
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn rms_norm_add(
        &self,
        x: &CudaView<'_, f32>,
        weight: &CudaView<'_, f32>,
        eps: f32,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), CudaError> {
        let width = weight.len();
        let rows = whole_rows("x", width, x.len())?;
        check_len("out", x.len(), out.len())?;
        let (x, weight, out) = (address(self, x), address(self, weight), address_mut(self, out));
        let launch = Launch::by_rows(RMS_NORM_ADD, rows, width, 4, &[x, weight, out]);
        self.launch(launch, &[x, weight, eps.to_bits().into(), out, width as u64])
    }
}

/// LayerNorm, as [`crate::LayerNorm`].
#[derive(Debug)]
pub struct LayerNorm<'a> {
    /// `[width]`
    pub weight: CudaView<'a, f32>,
    /// `[width]`
    pub bias: CudaView<'a, f32>,
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm<'_> {
    /// Normalises `x`, `[rows, width]`, into `out`.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run<T: Element>(
        &self,
        kernels: &Kernels,
        x: &CudaView<'_, f32>,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        check_len("out", x.len(), out.len())?;
        self.queue::<T>(kernels, address(kernels, x), address_mut(kernels, out), x.len())
    }

    /// Normalises `x`, `[rows, width]`, in place.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run_in_place(&self, kernels: &Kernels, x: &mut CudaViewMut<'_, f32>) -> Result<(), CudaError> {
        let len = x.len();
        let x = address_mut(kernels, x);
        self.queue::<f32>(kernels, x, x, len)
    }

    /// Normalises `width` columns of `x`, `[rows, stride]`, from column `offset` on, in place, where `width` is the norm's.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run_columns<T: Element>(
        &self,
        kernels: &Kernels,
        x: &mut CudaViewMut<'_, T>,
        stride: usize,
        offset: usize,
    ) -> Result<(), CudaError> {
        let width = self.weight.len();
        check_len("bias", width, self.bias.len())?;
        let blocks = whole_rows("x", stride, x.len())?;
        let end = offset.saturating_add(width);
        if end > stride {
            return Err(KernelError::Index { argument: "offset", found: end, limit: stride + 1 }.into());
        }
        let x = address_mut(kernels, x) + (offset * size_of::<T>()) as u64;
        let (weight, bias) = (address(kernels, &self.weight), address(kernels, &self.bias));
        // If the stride is a multiple of the step, every row is aligned to it.
        let addresses = [x, weight, bias, (stride * size_of::<T>()) as u64];
        let launch = Launch::by_rows(names::<T>().layer_norm_columns, blocks, width, 4, &addresses);
        kernels.launch(launch, &[x, weight, bias, self.eps.to_bits().into(), width as u64, stride as u64])
    }

    fn queue<T: Element>(&self, kernels: &Kernels, x: u64, out: u64, len: usize) -> Result<(), CudaError> {
        let width = self.weight.len();
        check_len("bias", width, self.bias.len())?;
        let blocks = whole_rows("x", width, len)?;
        let (weight, bias) = (address(kernels, &self.weight), address(kernels, &self.bias));
        let launch = Launch::by_rows(names::<T>().layer_norm, blocks, width, 4, &[x, weight, bias, out]);
        kernels.launch(launch, &[x, weight, bias, self.eps.to_bits().into(), out, width as u64])
    }
}
