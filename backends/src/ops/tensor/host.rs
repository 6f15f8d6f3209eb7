//! Tensor values on the host.

#[cfg(feature = "cuda")]
use crate::ops::tensor::cuda::OnDevice as Value;
use crate::ops::tensor::storage::slice;
#[cfg(not(feature = "cuda"))]
use candle_core::WithDType as Value;
use candle_core::{Result, Storage, Tensor, bail};

/// Calls `read` with the values of a contiguous `f32` tensor, row by row, once they are computed. Values on the host are not copied; of a
/// [`Buffer`](crate::ops::Buffer) on a device only the view is copied.
pub(crate) fn on_host<R>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> R) -> Result<R> {
    of_type(tensor, read)
}

/// Calls `read` with the values of a contiguous `u32` tensor; see [`on_host`].
pub(in crate::ops) fn words_on_host<R>(tensor: &Tensor, read: impl FnOnce(&[u32]) -> R) -> Result<R> {
    of_type(tensor, read)
}

fn of_type<T: Value, R>(tensor: &Tensor, read: impl FnOnce(&[T]) -> R) -> Result<R> {
    #[cfg(feature = "cuda")]
    if tensor.device().is_cuda() {
        return crate::ops::tensor::cuda::to_host::<T>(tensor).map(|values| read(&values));
    }
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { bail!("the tensor's device is not supported") };
    slice((storage, layout)).map(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn values_on_the_host_are_not_copied() {
        let rows = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], (2, 2), &Device::Cpu).unwrap();
        let second = rows.narrow(0, 1, 1).unwrap();
        on_host(&rows, |rows| {
            on_host(&second, |second| {
                assert_eq!(second, [3.0, 4.0]);
                assert_eq!(second.as_ptr(), rows[2..].as_ptr());
            })
        })
        .unwrap()
        .unwrap();
        assert!(on_host(&rows.t().unwrap(), |_| ()).is_err(), "rows do not lie one after another");
    }
}
