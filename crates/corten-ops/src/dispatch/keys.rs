//! The key set of a call.

use crate::Tensor;
use corten_core::{DType, Device, Generator, KeySet, Layout, tls};

/// Collects the keys of a call's arguments.
///
/// Factories have no tensor; their device and layout say where they run.
///
/// ```
/// use corten::core::DispatchKey;
/// use corten::ops::KeyBuilder;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let keys = KeyBuilder::new().tensor(&tensor![1.0]?).keys();
/// assert!(keys.has(DispatchKey::Dense));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct KeyBuilder(KeySet);

impl Default for KeyBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyBuilder {
    /// No keys yet.
    #[inline]
    pub fn new() -> Self {
        Self(KeySet::EMPTY)
    }

    /// Keys collected elsewhere.
    pub fn with(keys: KeySet) -> Self {
        Self(keys)
    }

    /// The keys so far, without the thread's sets.
    pub fn keys(self) -> KeySet {
        self.0
    }

    /// Adds a tensor's keys.
    #[inline]
    pub fn tensor(self, tensor: &Tensor) -> Self {
        Self(self.0 | tensor.key_set())
    }

    /// Adds an optional tensor's keys.
    #[inline]
    pub fn optional(self, tensor: Option<&Tensor>) -> Self {
        tensor.map_or(self, |tensor| self.tensor(tensor))
    }

    /// Adds the keys of every tensor in a list.
    pub fn list(self, tensors: &[Tensor]) -> Self {
        tensors.iter().fold(self, Self::tensor)
    }

    /// Adds the keys of every tensor present in a list.
    pub fn optional_list(self, tensors: &[Option<Tensor>]) -> Self {
        tensors.iter().flatten().fold(self, Self::tensor)
    }

    /// Adds a generator's backend.
    pub fn generator(self, generator: Option<&Generator>) -> Self {
        match generator {
            Some(generator) => Self(self.0 | of_device(generator.device(), Layout::Strided)),
            None => self,
        }
    }

    /// Adds the backend that a factory's options name, where no tensor has decided yet.
    pub fn options(self, layout: Option<Layout>, device: Option<Device>) -> Self {
        if !self.0.is_empty() && device.is_none() && layout.is_none() {
            return self;
        }
        let layout = layout.unwrap_or(Layout::Strided);
        match device {
            Some(device) => Self(of_device(device, layout)),
            None if self.0.is_empty() => Self(of_device(Device::CPU, layout)),
            None => self,
        }
    }

    /// The key set of the call on this thread.
    #[inline]
    pub fn finish(self) -> KeySet {
        tls::effective(self.0)
    }
}

fn of_device(device: Device, layout: Layout) -> KeySet {
    KeySet::for_tensor(device.device_type, layout, DType::Undefined)
}
