//! Calls that a device runs in one launch: what a back end tells of its launches, and what it is asked to print.
//!
//! Note [Device groups]: a compiled program puts calls together that run element by element. For a device whose
//! kernels are text it has one kernel printed for such a group. What a call computes is not declared a second
//! time: the operator is called on a few elements while the back end records, and the launches that it would
//! have made, expressions with their dtypes and numbers, become the steps of the kernel. A call that gives the
//! device anything else to do is not recorded, and runs by itself.

use corten_core::{DType, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// One element of any dtype, at the start.
pub type ElementBytes = [u64; 2];

/// What a back end knows of a launch besides its operands; nobody else looks into it.
pub type Launch = Arc<dyn Any + Send + Sync>;

/// An operand of a launch that was recorded.
///
/// ```
/// use corten::ops::device_groups::LaunchOperand;
/// use corten::core::DType;
///
/// let number = LaunchOperand { dtype: DType::Int64, address: 0, stride: 0, element: Some([3, 0]) };
/// assert_eq!(number.element, Some([3, 0]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LaunchOperand {
    /// The dtype of its elements in memory.
    pub dtype: DType,
    /// The address of the first element.
    pub address: usize,
    /// Bytes from one element to the next; 0 for a single element.
    pub stride: i64,
    /// The element, if it is a number of the host.
    pub element: Option<ElementBytes>,
}

/// A launch that was recorded instead of made.
///
/// ```
/// use corten::ops::device_groups::RecordedLaunch;
/// use std::sync::Arc;
///
/// let launch = RecordedLaunch {
///     launch: Arc::new("exp"),
///     operands: Default::default(),
///     length: Some(19),
///     reduces: false,
/// };
/// assert!(launch.launch.is::<&str>());
/// ```
#[derive(Clone)]
pub struct RecordedLaunch {
    /// What runs.
    pub launch: Launch,
    /// The result, and the inputs.
    pub operands: SmallVec<[LaunchOperand; 4]>,
    /// The number of steps, if they have one dimension at most.
    pub length: Option<i64>,
    /// Whether it reduces rows to one element each.
    pub reduces: bool,
}

/// An input of a step of a group.
///
/// ```
/// use corten::ops::device_groups::GroupInput;
///
/// assert_ne!(GroupInput::Step(0), GroupInput::Operand(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupInput {
    /// What an operand holds before the group runs, by its number.
    Operand(usize),
    /// The result of an earlier step.
    Step(usize),
    /// A number of the host.
    Number(usize),
}

/// A step of a group.
///
/// ```
/// use corten::ops::device_groups::{GroupInput, GroupStep};
/// use std::sync::Arc;
///
/// let step = GroupStep {
///     launch: Arc::new("exp"),
///     inputs: [GroupInput::Operand(0)].into_iter().collect(),
///     over_rows: false,
///     reduces: false,
/// };
/// assert_eq!(step.inputs.len(), 1);
/// ```
#[derive(Clone)]
pub struct GroupStep {
    /// What it runs.
    pub launch: Launch,
    /// Where its inputs come from.
    pub inputs: SmallVec<[GroupInput; 3]>,
    /// Whether it runs over one element per row.
    pub over_rows: bool,
    /// Whether it reduces every row to one element.
    pub reduces: bool,
}

/// A tensor that a group reads or writes.
///
/// ```
/// use corten::core::DType;
/// use corten::ops::device_groups::GroupOperand;
///
/// let strides = [4].into_iter().collect();
/// let read = GroupOperand { dtype: DType::Float32, strides, written: None };
/// assert!(read.written.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct GroupOperand {
    /// The dtype.
    pub dtype: DType,
    /// The strides in bytes along the dimensions of the group; 0 where one element serves all.
    pub strides: SmallVec<[i64; 4]>,
    /// The step whose result is written to it.
    pub written: Option<usize>,
}

/// Steps over one iteration space that run in one launch. All reads of an element come before it is written.
///
/// ```
/// use corten::ops::device_groups::DeviceGroup;
///
/// let group = DeviceGroup {
///     sizes: [1024].into_iter().collect(),
///     by_rows: false,
///     operands: Vec::new(),
///     steps: Vec::new(),
///     numbers: Vec::new(),
/// };
/// assert_eq!(group.sizes[0], 1024);
/// ```
#[derive(Clone)]
pub struct DeviceGroup {
    /// The sizes, the fastest dimension first.
    pub sizes: SmallVec<[i64; 4]>,
    /// Whether the first dimension is a row, which steps may reduce.
    pub by_rows: bool,
    /// The tensors.
    pub operands: Vec<GroupOperand>,
    /// The steps in order.
    pub steps: Vec<GroupStep>,
    /// The numbers.
    pub numbers: Vec<ElementBytes>,
}

/// A group that is ready to be launched.
///
/// ```
/// use corten::Result;
/// use corten::ops::device_groups::GroupKernel;
///
/// /// A kernel that does nothing.
/// struct Nothing;
///
/// impl GroupKernel for Nothing {
///     unsafe fn launch(&self, _: i8, _: &[*mut u8]) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// // SAFETY: it touches no memory.
/// unsafe { Nothing.launch(0, &[])? };
/// # Ok::<(), corten::Error>(())
/// ```
pub trait GroupKernel: Send + Sync {
    /// Launches it in the current stream of a device.
    ///
    /// # Safety
    /// The addresses must be those of the first elements of the group's operands, in memory of the device that
    /// is held, and that is used again only by work that comes later in the stream.
    ///
    /// # Errors
    /// Those of compiling and of the driver.
    unsafe fn launch(&self, device: i8, at: &[*mut u8]) -> Result<()>;
}

/// A back end that prints kernels of groups.
///
/// ```
/// use corten::Result;
/// use corten::ops::device_groups::{DeviceGroup, DeviceGroups, GroupKernel, RecordedLaunch};
/// use std::sync::Arc;
///
/// /// A back end that runs every call by itself.
/// struct Apart;
///
/// impl DeviceGroups for Apart {
///     fn record(&self, _: &mut dyn FnMut() -> Result<()>) -> Option<Vec<RecordedLaunch>> {
///         None
///     }
///
///     fn takes_rows(&self, _: i64, _: i64) -> bool {
///         false
///     }
///
///     fn kernel(&self, _: DeviceGroup) -> Option<Arc<dyn GroupKernel>> {
///         None
///     }
/// }
///
/// assert!(!Apart.takes_rows(2, 100));
/// ```
pub trait DeviceGroups: Sync {
    /// Runs `call`, which calls an operator on tensors of the device, and tells the launches that it would have
    /// made, in order. None of them is made. Nothing for a call that fails, or that gives the device anything
    /// else to do.
    fn record(&self, call: &mut dyn FnMut() -> Result<()>) -> Option<Vec<RecordedLaunch>>;

    /// Whether a group may reduce so many rows of this length: it then gives the same bits as the launches.
    fn takes_rows(&self, rows: i64, length: i64) -> bool;

    /// Prints the kernel of a group; nothing for one that it has no kernel for.
    fn kernel(&self, group: DeviceGroup) -> Option<Arc<dyn GroupKernel>>;
}

static OF_GPUS: OnceLock<&'static dyn DeviceGroups> = OnceLock::new();

/// Says how GPUs run groups. The first one stays: there is one back end.
pub fn set_device_groups(groups: &'static dyn DeviceGroups) {
    let _ = OF_GPUS.set(groups);
}

/// How GPUs run groups, where there is a back end.
pub fn device_groups() -> Option<&'static dyn DeviceGroups> {
    OF_GPUS.get().copied()
}
