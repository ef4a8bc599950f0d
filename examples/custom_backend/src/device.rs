//! The device's kernels.

use crate::allocator::{CountingAllocator, DEVICE};
use corten::core::{Access, AccessSet, Device, DeviceType, DispatchKey, Result, Scalar, set_allocator};
use corten::ops::{BoxedCall, IValue, Library, Stack, TensorIterator, op, stubs};
use corten::{Tensor, cpu};
use std::sync::{Arc, Once};

/// Makes the device known. Idempotent.
///
/// # Errors
/// `Runtime` when another backend with kernels of its own took the place.
pub fn register_device() -> Result<()> {
    static ALLOCATOR: CountingAllocator = CountingAllocator;
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| result = register());
    return result;

    fn register() -> Result<()> {
        set_allocator(DeviceType::PrivateUse1, &ALLOCATOR, 0);
        // The memory is the host's, so the host's loop copies from and to it.
        stubs::COPY_.set(DeviceType::PrivateUse1, cpu::kernels::copy::copy)?;
        stubs::ADD_TENSOR.set(DeviceType::PrivateUse1, add)?;
        Library::new("outside").fallback(DispatchKey::PrivateUse1, Arc::new(run_on_the_host));
        Ok(())
    }
}

/// `add`, for dense operands of f32.
fn add(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let alpha = scalars.first().map_or(1.0, |alpha| alpha.to_f64()) as f32;
    let (out, a, b) = (iter.output(0), iter.input(0).clone(), iter.input(1).clone());
    let set = AccessSet::acquire(&[
        (out.base(), Access::Write),
        (a.base(), Access::Read),
        (b.base(), Access::Read),
    ])?;
    let (out, a, b) = (set.write::<f32>(0)?, set.read::<f32>(1)?, set.read::<f32>(2)?);
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a + alpha * b;
    }
    Ok(())
}

/// Runs an operator that has no kernel here on the host, and brings its results back.
fn run_on_the_host(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    for value in stack.iter_mut() {
        move_tensors(value, Device::CPU)?;
    }
    call.op().call_boxed(stack)?;
    stack.iter_mut().try_for_each(|value| move_tensors(value, DEVICE))
}

fn move_tensors(value: &mut IValue, device: Device) -> Result<()> {
    let moved = |tensor: &Tensor| match tensor.defined() {
        true => op::to_device(tensor, device, tensor.dtype(), false, false, None),
        false => Ok(tensor.clone()),
    };
    match value {
        IValue::Tensor(tensor) => *tensor = moved(tensor)?,
        IValue::TensorList(list) => {
            for tensor in list {
                *tensor = moved(tensor)?;
            }
        }
        IValue::Device(wanted) => *wanted = device,
        _ => {}
    }
    Ok(())
}
