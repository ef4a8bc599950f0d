//! Batches in page-locked memory.

use corten_core::{KeySet, Result, TensorBase, bail, geometry, pinned_storage};
use corten_ops::{Tensor, op};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A batch whose tensors can be copied to pinned memory, from which transfers to a device run
/// beside the host's work.
///
/// ```
/// use corten::data::PinMemory;
/// use corten::prelude::*;
///
/// let batch = (tensor![1.0]?, vec!["a name".to_owned()]);
/// match batch.pin_memory() {
///     Ok((pinned, _)) => assert_eq!(pinned.to_element::<f32>()?, 1.0),
///     // Without a device there is no such memory.
///     Err(error) => assert!(error.message().contains("accelerator")),
/// }
/// # Ok::<(), corten::Error>(())
/// ```
pub trait PinMemory: Sized {
    /// The batch with its tensors pinned.
    ///
    /// # Errors
    /// `Runtime` without a device, and for tensors that are not dense ones of the CPU.
    fn pin_memory(self) -> Result<Self>;
}

/// Whether there is pinned memory.
pub(crate) fn is_available() -> bool {
    pinned_storage(1).is_ok()
}

impl PinMemory for Tensor {
    fn pin_memory(self) -> Result<Self> {
        if !self.device().is_cpu() || self.storage_opt().is_none() {
            bail!(
                Runtime,
                "cannot pin a tensor on {}: only dense CPU tensors can be pinned",
                self.device()
            );
        }
        let sizes = self.sizes();
        let (strides, ..) = geometry::ascending(&sizes, &self.strides(), 0);
        let steps = sizes.iter().zip(strides.iter()).map(|(size, stride)| (size - 1) * stride);
        let elements = if self.numel() == 0 { 0 } else { 1 + steps.sum::<i64>() };
        let Ok(storage) = pinned_storage(elements as usize * self.itemsize()) else {
            bail!(Runtime, "Cannot access accelerator device when none is available.");
        };
        let keys = KeySet::for_tensor(self.device().device_type, self.layout(), self.dtype());
        let base = TensorBase::new_with_storage(storage, self.dtype(), keys, &sizes, &strides, 0)?;
        let pinned = Tensor::from(base);
        op::copy_(&pinned, &op::detach(&self)?, false)?;
        Ok(pinned)
    }
}

impl<T: PinMemory> PinMemory for Vec<T> {
    fn pin_memory(self) -> Result<Self> {
        self.into_iter().map(T::pin_memory).collect()
    }
}

impl<K: Ord, V: PinMemory> PinMemory for BTreeMap<K, V> {
    fn pin_memory(self) -> Result<Self> {
        self.into_iter().map(|(key, value)| Ok((key, value.pin_memory()?))).collect()
    }
}

impl<K: Hash + Eq, V: PinMemory> PinMemory for HashMap<K, V> {
    fn pin_memory(self) -> Result<Self> {
        self.into_iter().map(|(key, value)| Ok((key, value.pin_memory()?))).collect()
    }
}

macro_rules! pin_tuples {
    ($(($($name:ident $at:tt),+);)+) => {$(
        impl<$($name: PinMemory),+> PinMemory for ($($name,)+) {
            fn pin_memory(self) -> Result<Self> {
                Ok(($(self.$at.pin_memory()?,)+))
            }
        }
    )+};
}

pin_tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

macro_rules! nothing_to_pin {
    ($($value:ty),+) => {$(
        impl PinMemory for $value {
            fn pin_memory(self) -> Result<Self> {
                Ok(self)
            }
        }
    )+};
}

nothing_to_pin!(String, &'static str, i64, i32, i16, i8, u64, u32, u16, u8, usize, f64, f32, bool);
