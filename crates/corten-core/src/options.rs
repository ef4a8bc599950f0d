//! What a factory is asked for: dtype, layout, device and the like, each optional.

use crate::{DType, Device, DeviceType, Layout, MemoryFormat, default_dtype};

/// Wishes for a new tensor. An unset field means the default: the default dtype, strided, CPU,
/// not pinned, no gradient, contiguous.
///
/// ```
/// use corten_core::{DType, TensorOptions};
///
/// let options = TensorOptions::default().dtype(DType::Float64).requires_grad(true);
/// assert_eq!(options.dtype_or_default(), DType::Float64);
/// assert!(options.device_or_default().is_cpu());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorOptions {
    /// The dtype.
    pub dtype: Option<DType>,
    /// The layout.
    pub layout: Option<Layout>,
    /// The device.
    pub device: Option<Device>,
    /// Whether host memory is page-locked.
    pub pinned_memory: Option<bool>,
    /// Whether the new tensor requires a gradient.
    pub requires_grad: Option<bool>,
    /// The memory format.
    pub memory_format: Option<MemoryFormat>,
}

const _: () = assert!(size_of::<TensorOptions>() <= 16, "passed by value everywhere");

impl TensorOptions {
    /// Nothing set.
    pub const fn new() -> Self {
        Self {
            dtype: None,
            layout: None,
            device: None,
            pinned_memory: None,
            requires_grad: None,
            memory_format: None,
        }
    }

    /// Sets the dtype.
    #[must_use]
    pub fn dtype(mut self, dtype: impl Into<Option<DType>>) -> Self {
        self.dtype = dtype.into();
        self
    }

    /// Sets the layout.
    #[must_use]
    pub fn layout(mut self, layout: impl Into<Option<Layout>>) -> Self {
        self.layout = layout.into();
        self
    }

    /// Sets the device.
    #[must_use]
    pub fn device(mut self, device: impl Into<Option<Device>>) -> Self {
        self.device = device.into();
        self
    }

    /// Sets whether host memory is page-locked.
    #[must_use]
    pub fn pinned_memory(mut self, pinned: impl Into<Option<bool>>) -> Self {
        self.pinned_memory = pinned.into();
        self
    }

    /// Sets whether the new tensor requires a gradient.
    #[must_use]
    pub fn requires_grad(mut self, requires_grad: impl Into<Option<bool>>) -> Self {
        self.requires_grad = requires_grad.into();
        self
    }

    /// Sets the memory format.
    #[must_use]
    pub fn memory_format(mut self, format: impl Into<Option<MemoryFormat>>) -> Self {
        self.memory_format = format.into();
        self
    }

    /// The fields of `other` where it has them, else those of `self`.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            dtype: other.dtype.or(self.dtype),
            layout: other.layout.or(self.layout),
            device: other.device.or(self.device),
            pinned_memory: other.pinned_memory.or(self.pinned_memory),
            requires_grad: other.requires_grad.or(self.requires_grad),
            memory_format: other.memory_format.or(self.memory_format),
        }
    }

    /// The dtype, or the default one.
    pub fn dtype_or_default(&self) -> DType {
        self.dtype.unwrap_or_else(default_dtype)
    }

    /// The layout, or strided.
    pub fn layout_or_default(&self) -> Layout {
        self.layout.unwrap_or_default()
    }

    /// The device, or the host.
    pub fn device_or_default(&self) -> Device {
        self.device.unwrap_or(Device::CPU)
    }

    /// Whether page-locked memory is asked for.
    pub fn pinned_memory_or_default(&self) -> bool {
        self.pinned_memory.unwrap_or(false)
    }

    /// Whether a gradient is asked for.
    pub fn requires_grad_or_default(&self) -> bool {
        self.requires_grad.unwrap_or(false)
    }
}

impl From<DType> for TensorOptions {
    fn from(dtype: DType) -> Self {
        Self::new().dtype(dtype)
    }
}

impl From<Device> for TensorOptions {
    fn from(device: Device) -> Self {
        Self::new().device(device)
    }
}

impl From<DeviceType> for TensorOptions {
    fn from(device_type: DeviceType) -> Self {
        Self::new().device(Device::new(device_type))
    }
}

impl From<Layout> for TensorOptions {
    fn from(layout: Layout) -> Self {
        Self::new().layout(layout)
    }
}

impl From<MemoryFormat> for TensorOptions {
    fn from(format: MemoryFormat) -> Self {
        Self::new().memory_format(format)
    }
}

impl From<&TensorOptions> for TensorOptions {
    fn from(options: &TensorOptions) -> Self {
        *options
    }
}
