//! Operators without a kernel here: computed on the host, between two copies.

use crate::device::DeviceGuard;
use corten_core::{Device, DispatchKey, Result, bail, config, ensure, warn};
use corten_ops::{
    BoxedCall, IValue, Library, Stack, Tensor, op, replace_arguments, replace_tensors,
};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Registers the fallback.
pub(crate) fn register() {
    Library::new("aten").fallback(DispatchKey::CUDA, Arc::new(run_on_the_host));
}

/// Moves the arguments to the host, runs the operator there, and moves what it wrote and what it returns
/// to the device of the first CUDA tensor. The first time that an operator comes here is a warning where
/// `CORTEN_CUDA_FALLBACK_WARNING` is set.
fn run_on_the_host(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    say_once(call);
    let mut device = None;
    let written = replace_arguments(call, stack, &mut |tensor, _| {
        if !tensor.defined() || !tensor.device().is_cuda() {
            return Ok(None);
        }
        device.get_or_insert(tensor.device());
        Ok(Some(on(tensor, Device::CPU)?))
    })?;
    for value in stack.iter_mut() {
        if let IValue::Device(wanted) = value
            && wanted.is_cuda()
        {
            device.get_or_insert(*wanted);
            *wanted = Device::CPU;
        }
    }
    // Only a generator of a GPU brings a call here that is about the host.
    let Some(device) = device else {
        bail!(Runtime, "Expected a 'cpu' device type for generator but found 'cuda'")
    };
    let _guard = DeviceGuard::new(device.index)?;
    replace_generators(call, stack, device.index)?;
    call.op().call_boxed(stack)?;
    for (original, computed) in &written {
        write_back(original, computed)?;
    }
    for value in stack.iter_mut() {
        replace_tensors(value, &mut |tensor| match written
            .iter()
            .find(|(_, computed)| tensor.is_same(computed))
        {
            Some((original, _)) => Ok(original.clone()),
            None if tensor.defined() && tensor.device().is_cpu() => on(tensor, device),
            None => Ok(tensor.clone()),
        })?;
    }
    Ok(())
}

/// Random numbers that the host draws in the place of a kernel follow the device's generator.
fn replace_generators(call: &BoxedCall, stack: &mut Stack, device: i8) -> Result<()> {
    for (argument, value) in call.op().schema().arguments.iter().zip(stack.iter_mut()) {
        let twin = match value {
            IValue::Generator(given) => {
                let found = given.device().device_type;
                ensure!(
                    given.device().is_cuda(),
                    Runtime,
                    "Expected a 'cuda' device type for generator but found '{found}'"
                );
                given.host_twin()?
            }
            IValue::None if argument.name == "generator" => {
                crate::default_generator(device)?.host_twin()?
            }
            _ => continue,
        };
        *value = IValue::Generator(twin);
    }
    Ok(())
}

fn on(tensor: &Tensor, device: Device) -> Result<Tensor> {
    op::to_device(tensor, device, tensor.dtype(), false, false, None)
}

fn write_back(original: &Tensor, computed: &Tensor) -> Result<()> {
    if original.sizes() != computed.sizes() {
        op::resize_(original, &computed.sizes(), None)?;
    }
    op::copy_(original, computed, false).map(drop)
}

fn say_once(call: &BoxedCall) {
    static WANTED: LazyLock<bool> = LazyLock::new(|| config::flag("CORTEN_CUDA_FALLBACK_WARNING"));
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !*WANTED {
        return;
    }
    let name = call.op().def().qualified_name().to_string();
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
        warn(format!("{name} has no CUDA kernel and is computed on the host"));
    }
}
