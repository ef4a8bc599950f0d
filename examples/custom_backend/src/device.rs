//! The device's kernels.

use crate::allocator::{CountingAllocator, DEVICE};
use crate::once;
use corten::core::{DType, Device, DeviceType, DispatchKey, Result, Scalar, ensure, set_allocator};
use corten::ops::parallel::GRAIN;
use corten::ops::{BoxedCall, IValue, Library, Stack, TensorIterator, op, stubs};
use corten::{Tensor, cpu};
use std::sync::{Arc, Mutex};

/// Makes the device known. Idempotent.
///
/// # Errors
/// `Runtime` when another backend with kernels of its own took the place.
pub fn register_device() -> Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    once(&DONE, register)
}

fn register() -> Result<()> {
    static ALLOCATOR: CountingAllocator = CountingAllocator;
    set_allocator(DeviceType::PrivateUse1, &ALLOCATOR, 0);
    // The memory is the host's, so the host's loop copies from and to it.
    stubs::COPY_.set(DeviceType::PrivateUse1, cpu::kernels::copy::copy)?;
    stubs::ADD_TENSOR.set(DeviceType::PrivateUse1, add)?;
    Library::new("outside").fallback(DispatchKey::PrivateUse1, Arc::new(run_on_the_host));
    Ok(())
}

/// `add`, for f32. The iterator has broadcast the operands, checked them for overlap and allocated
/// the result; what is left is the loop over one block.
fn add(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let f32_only = (0..iter.ntensors()).all(|i| iter.dtype(i) == DType::Float32);
    ensure!(f32_only, NotImplemented, "\"add\" of this device is for f32 only");
    let alpha = scalars.first().map_or(1.0, |alpha| alpha.to_f64()) as f32;
    iter.for_each(
        |at, strides, n0, n1| {
            for (row, i) in (0..n1).flat_map(|row| (0..n0).map(move |i| (row, i))) {
                let element = |operand: usize| {
                    let offset = i * strides[operand] + row * strides[operand + at.len()];
                    at[operand].wrapping_offset(offset as isize).cast::<f32>()
                };
                // SAFETY: the iterator vouches for the operands of this block, all of them f32.
                unsafe { *element(0) = *element(1) + alpha * *element(2) };
            }
        },
        GRAIN,
    )
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
