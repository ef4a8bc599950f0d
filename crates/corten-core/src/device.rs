//! Device types and devices, and their text form `type[:index]`.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, bail, ensure, err};

macro_rules! device_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// A kind of device. The numbers are those of the serialised format.
        #[repr(i8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DeviceType { $($(#[$doc])* $name = $number,)* }

        impl DeviceType {
            /// Every device type, in the order of its number.
            pub const ALL: &[DeviceType] = &[$(DeviceType::$name,)*];

            /// The lower-case name, as in `"cuda:0"`.
            pub const fn name(self) -> &'static str {
                match self { $(DeviceType::$name => $text,)* }
            }
        }
    };
}

device_types! {
    /// The host.
    Cpu = 0, "cpu";
    /// NVIDIA GPUs.
    Cuda = 1, "cuda";
    /// Reserved for explicit MKLDNN.
    MklDnn = 2, "mkldnn";
    /// OpenGL.
    OpenGl = 3, "opengl";
    /// OpenCL.
    OpenCl = 4, "opencl";
    /// IDEEP.
    Ideep = 5, "ideep";
    /// AMD GPUs.
    Hip = 6, "hip";
    /// FPGA.
    Fpga = 7, "fpga";
    /// MAIA.
    Maia = 8, "maia";
    /// XLA / TPU.
    Xla = 9, "xla";
    /// Vulkan.
    Vulkan = 10, "vulkan";
    /// Metal.
    Metal = 11, "metal";
    /// Intel GPUs.
    Xpu = 12, "xpu";
    /// Apple GPUs through Metal performance shaders.
    Mps = 13, "mps";
    /// Shapes and dtypes without data.
    Meta = 14, "meta";
    /// Habana.
    Hpu = 15, "hpu";
    /// SX-Aurora.
    Ve = 16, "ve";
    /// Lazy tensors.
    Lazy = 17, "lazy";
    /// Graphcore.
    Ipu = 18, "ipu";
    /// MTIA.
    Mtia = 19, "mtia";
    /// A backend that lives outside this source tree.
    PrivateUse1 = 20, "privateuseone";
}

impl DeviceType {
    /// How many device types there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The device type with this number.
    #[inline]
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A device: a type and an index. Index -1 means "the current one of that type"; as in PyTorch,
/// `cpu` and `cpu:0` are different values.
///
/// ```
/// use corten_core::{Device, DeviceType};
///
/// let device: Device = "cuda:1".parse().unwrap_or(Device::CPU);
/// assert_eq!(device.device_type, DeviceType::Cuda);
/// assert_eq!(device.to_string(), "cuda:1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The kind of device.
    pub device_type: DeviceType,
    /// Which one, or -1.
    pub index: i8,
}

impl Device {
    /// The host.
    pub const CPU: Self = Self::new(DeviceType::Cpu);
    /// The device without data.
    pub const META: Self = Self::new(DeviceType::Meta);

    /// The current device of a type.
    pub const fn new(device_type: DeviceType) -> Self {
        Self { device_type, index: -1 }
    }

    /// Device `index` of a type.
    pub const fn with_index(device_type: DeviceType, index: i8) -> Self {
        Self { device_type, index }
    }

    /// The CUDA device with this index.
    pub const fn cuda(index: i8) -> Self {
        Self::with_index(DeviceType::Cuda, index)
    }

    /// Whether the device names one particular unit.
    pub const fn has_index(self) -> bool {
        self.index >= 0
    }

    /// Whether this is the host.
    pub const fn is_cpu(self) -> bool {
        matches!(self.device_type, DeviceType::Cpu)
    }

    /// Whether this is a CUDA device.
    pub const fn is_cuda(self) -> bool {
        matches!(self.device_type, DeviceType::Cuda)
    }

    /// Whether this is the device without data.
    pub const fn is_meta(self) -> bool {
        matches!(self.device_type, DeviceType::Meta)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device_type.name())?;
        if self.has_index() { write!(f, ":{}", self.index) } else { Ok(()) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<DeviceType> for Device {
    fn from(device_type: DeviceType) -> Self {
        Self::new(device_type)
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index)),
            None => (text, None),
        };
        ensure!(!name.is_empty(), Runtime, "Device string must not be empty");
        let device_type = parse_type(name)?;
        let Some(digits) = index else { return Ok(Self::new(device_type)) };
        let well_formed = !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits.len() == 1 || !digits.starts_with('0'));
        ensure!(well_formed, Runtime, "Invalid device string: '{text}'");
        let index = digits
            .parse::<i8>()
            .map_err(|_| err!(Runtime, "Could not parse device index '{digits}' in '{text}'"))?;
        Ok(Self::with_index(device_type, index))
    }
}

fn parse_type(name: &str) -> Result<DeviceType> {
    if let Some(found) = DeviceType::ALL.iter().find(|device_type| device_type.name() == name) {
        return Ok(*found);
    }
    let known: Vec<_> = DeviceType::ALL.iter().map(|device_type| device_type.name()).collect();
    bail!(
        Runtime,
        "Expected one of {} device type at start of device string: {name}",
        known.join(", ")
    )
}
