//! Launchers of `cuda/activation.cu`.

use super::error::CudaError;
use super::launch::{Kernels, Launch, address, address_mut};
use super::names::{names, per_16_bytes};
use crate::element::Element;
use crate::error::{check_len, whole_rows};
use crate::rowwise::Activation;
use cudarc::driver::{CudaView, CudaViewMut};

impl Kernels {
    /// `out = activation(gate) * up`; a row of `gate_up` is `[gate | up]`, each of `width` values.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn activate_mul<T: Element>(
        &self,
        activation: Activation,
        gate_up: &CudaView<'_, T>,
        width: usize,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        let blocks = whole_rows("gate_up", width.saturating_mul(2), gate_up.len())?;
        check_len("out", blocks * width, out.len())?;
        let (gate_up, out) = (address(self, gate_up), address_mut(self, out));
        let launch = Launch::by_rows(names::<T>().activate_mul, blocks, width, per_16_bytes::<T>(), &[gate_up, out]);
        self.launch(launch, &[gate_up, out, width as u64, code(activation)])
    }
}

/// The number of a function in the kernels.
fn code(activation: Activation) -> u64 {
    match activation {
        Activation::Gelu => 0,
        Activation::GeluTanh => 1,
        Activation::Relu => 2,
        Activation::Silu => 3,
    }
}

/// `activation(x + bias)`, value by value.
#[derive(Debug)]
pub struct Activate<'a> {
    /// The function.
    pub activation: Activation,
    /// Values of a row.
    pub width: usize,
    /// Added to every row first, `[width]`; `None` where `x` includes it already.
    pub bias: Option<CudaView<'a, f32>>,
}

impl Activate<'_> {
    /// Writes the function of `x`, `[rows, width]`, to `out`.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run<T: Element>(
        &self,
        kernels: &Kernels,
        x: &CudaView<'_, T>,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        check_len("out", x.len(), out.len())?;
        self.queue::<T>(kernels, address(kernels, x), address_mut(kernels, out), x.len())
    }

    /// The same in place.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run_in_place<T: Element>(&self, kernels: &Kernels, x: &mut CudaViewMut<'_, T>) -> Result<(), CudaError> {
        let len = x.len();
        let x = address_mut(kernels, x);
        self.queue::<T>(kernels, x, x, len)
    }

    fn queue<T: Element>(&self, kernels: &Kernels, x: u64, out: u64, len: usize) -> Result<(), CudaError> {
        let width = self.width;
        let blocks = whole_rows("x", width, len)?;
        if let Some(bias) = &self.bias {
            check_len("bias", width, bias.len())?;
        }
        let bias = self.bias.as_ref().map_or(0, |bias| address(kernels, bias));
        let launch = Launch::by_rows(names::<T>().activate, blocks, width, 4, &[x, bias, out]);
        kernels.launch(launch, &[x, bias, out, width as u64, code(self.activation)])
    }
}
