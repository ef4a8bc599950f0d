//! Groups of calls on a device, which its back end prints as one kernel. See Note [Device groups] in `corten-ops`.

mod kernel;
mod recipe;

pub(crate) use kernel::Kernel;

use crate::ir::{Node, Program};
use crate::recipe::Recipe;
use corten_core::{Device, Result, err};
use corten_cpu::pointwise::steps::Step;
use corten_ops::device_groups::Launch;
use std::any::Any;
use std::sync::Arc;

/// A step that a device runs. The host plans with it, and does not run it.
struct DeviceStep {
    launch: Launch,
    reduces: bool,
}

impl Step for DeviceStep {
    unsafe fn run(&self, _: &[*mut u8], _: &[i64], _: usize, _: usize) -> Result<()> {
        Err(err!(Internal, "a step of a device is run on the host"))
    }

    fn device_step(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The device on which a node runs: that of the first tensor that it is given.
pub(crate) fn device_of(program: &Program, node: &Node) -> Device {
    let first = node.reads().next();
    first.map_or(Device::CPU, |operand| program.buffer(operand.buffer).storage.device())
}

/// What a node runs element by element, wherever it runs.
pub(crate) fn recipe_of(program: &Program, node: &Node) -> Option<Arc<Recipe>> {
    match device_of(program, node) {
        device if device.is_cpu() => crate::recipe::of(node),
        device => recipe::of(node, device),
    }
}
