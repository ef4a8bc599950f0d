//! From a lowered group to the kernel of a back end, and launching it.

use super::DeviceStep;
use crate::ir::{BufferId, Program};
use crate::lower::{Location, Lowered};
use crate::memory;
use corten_core::{Access, AccessSet, Device, Result, ensure};
use corten_ops::Tensor;
use corten_ops::device_groups::{
    DeviceGroup, GroupInput, GroupKernel, GroupOperand, GroupStep, device_groups,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// A group that is ready to run on a device.
pub(crate) struct Kernel {
    device: Device,
    lowered: Lowered,
    kernel: Arc<dyn GroupKernel>,
}

/// Where the values of places are while steps are read in order.
struct Values {
    slots: Vec<Option<usize>>,
    externals: Vec<Option<usize>>,
}

impl Values {
    fn input(&self, location: Location) -> Option<GroupInput> {
        match location {
            Location::Slot(slot) => self.slots[slot].map(GroupInput::Step),
            Location::External(i) => {
                Some(self.externals[i].map_or(GroupInput::Operand(i), GroupInput::Step))
            }
            Location::Single(i) => Some(GroupInput::Number(i)),
        }
    }

    fn set(&mut self, location: Location, step: usize) -> Option<()> {
        match location {
            Location::Slot(slot) => self.slots[slot] = Some(step),
            Location::External(i) => self.externals[i] = Some(step),
            Location::Single(_) => return None,
        }
        Some(())
    }
}

/// The steps and operands as the back end takes them; `None` for steps that are none of a device.
fn group_of(lowered: &Lowered) -> Option<DeviceGroup> {
    let mut values = Values {
        slots: vec![None; lowered.slots.len()],
        externals: vec![None; lowered.externals.len()],
    };
    let mut steps: Vec<GroupStep> = Vec::new();
    for placed in &lowered.steps {
        let (&output, inputs) = placed.places.split_first()?;
        let inputs: SmallVec<[GroupInput; 3]> =
            inputs.iter().map(|&place| values.input(place)).collect::<Option<_>>()?;
        let Some(own) = placed.step.device_step() else {
            // The host's copy of a result that is stored a second time.
            let [GroupInput::Step(of)] = inputs[..] else { return None };
            values.set(output, of)?;
            continue;
        };
        let DeviceStep { launch, reduces } = own.downcast_ref::<DeviceStep>()?;
        steps.push(GroupStep {
            launch: launch.clone(),
            inputs,
            over_rows: placed.over_rows,
            reduces: *reduces,
        });
        values.set(output, steps.len() - 1)?;
    }
    let operands = lowered.externals.iter().enumerate().map(|(i, external)| GroupOperand {
        dtype: external.operand.dtype,
        strides: lowered.space.strides[i].clone(),
        written: values.externals[i].filter(|_| external.writes),
    });
    let operands: Vec<GroupOperand> = operands.collect();
    let plain = lowered.once.is_empty()
        && lowered.externals.iter().all(|external| external.prepared.is_none());
    plain.then(|| DeviceGroup {
        sizes: lowered.space.sizes.clone(),
        by_rows: lowered.by_rows,
        operands,
        steps,
        numbers: lowered.singles.clone(),
    })
}

impl Kernel {
    /// `None` where the back end has no kernel for the group.
    pub(crate) fn new(lowered: Lowered, device: Device) -> Option<Self> {
        let kernel = device_groups()?.kernel(group_of(&lowered)?)?;
        Some(Self { device, lowered, kernel })
    }

    /// Launches the group over the buffers of a program.
    ///
    /// # Errors
    /// Those of the allocation, of taking access, of compiling and of the driver.
    pub(crate) fn run(&self, program: &Program) -> Result<()> {
        let mut tensors: SmallVec<[Tensor; 8]> = SmallVec::new();
        for external in &self.lowered.externals {
            let storage = &program.buffer(external.operand.buffer).storage;
            if external.writes {
                memory::provide(storage)?;
            }
            tensors.push(external.operand.tensor(storage)?);
        }
        let wanted = tensors.iter().zip(&self.lowered.externals).map(|(tensor, external)| {
            (tensor.base(), if external.writes { Access::Write } else { Access::Read })
        });
        let wanted: SmallVec<[_; 8]> = wanted.collect();
        let set = AccessSet::acquire(&wanted)?;
        let mut at: SmallVec<[*mut u8; 8]> = SmallVec::new();
        for (i, external) in self.lowered.externals.iter().enumerate() {
            let bytes = external.operand.bytes();
            let (start, nbytes) = set.extent(i);
            let within = bytes.start >= 0 && bytes.end <= nbytes as i64 && !start.is_null();
            ensure!(
                within && program.buffer(external.operand.buffer).storage.device() == self.device,
                Runtime,
                "a tensor was given another storage while a program was about to run"
            );
            at.push(set.byte_ptr(i));
        }
        // SAFETY: the addresses are the first elements of the externals, which lie within their storages on the
        // device, as just checked, and are held; what frees them later does so in the order of the stream.
        unsafe { self.kernel.launch(self.device.index, &at) }
    }

    /// The buffers that are read or written.
    pub(crate) fn buffers(&self) -> Vec<BufferId> {
        self.lowered.externals.iter().map(|external| external.operand.buffer).collect()
    }

    /// Bytes that are read and written.
    pub(crate) fn bytes(&self) -> usize {
        let operands = self.lowered.externals.iter().map(|external| &external.operand);
        operands.map(|operand| operand.numel() as usize * operand.dtype.itemsize()).sum()
    }

    /// Buffers that are never in memory.
    pub(crate) fn removed(&self) -> usize {
        self.lowered.removed.len()
    }
}
