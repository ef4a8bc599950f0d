//! The device and the operator in use.

use corten::core::{Device, DeviceType, ErrorKind};
use corten::prelude::*;
use custom_backend::{blocks_in_use, bytes_in_use, cube, register_device, register_operator};
use std::sync::{Mutex, MutexGuard, PoisonError};

const DEVICE: Device = Device { device_type: DeviceType::PrivateUse1, index: 0 };

/// Registers the device. Tests run on threads of one process, and the counts of its memory are the
/// process's: whoever uses the device holds the guard, before its tensors and after them.
fn device() -> Result<MutexGuard<'static, ()>> {
    static IN_USE: Mutex<()> = Mutex::new(());
    let guard = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    register_device()?;
    Ok(guard)
}

fn on_device(values: &[f32]) -> Result<Tensor> {
    let host = Tensor::from_slice(values, &[values.len() as i64])?;
    op::to_device(&host, DEVICE, host.dtype(), false, false, None)
}

#[test]
fn the_device_computes_in_its_own_memory() -> Result<()> {
    let _device = device()?;
    let before = (bytes_in_use(), blocks_in_use());
    let a = on_device(&[1.0, 2.0, 3.0])?;
    let b = on_device(&[10.0, 20.0, 30.0])?;
    let sum = (&a + &b)?;
    assert_eq!(sum.device(), DEVICE);
    assert_eq!(blocks_in_use(), before.1 + 3);
    assert_eq!(bytes_in_use(), before.0 + 36);
    assert_eq!(sum.to_vec::<f32>()?, [11.0, 22.0, 33.0]);
    drop((a, b, sum));
    assert_eq!((bytes_in_use(), blocks_in_use()), before);
    Ok(())
}

#[test]
fn its_loop_follows_strides_and_works_in_place() -> Result<()> {
    let _device = device()?;
    let table = op::view(&on_device(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, &[3, 2])?;
    let turned = op::t(&table)?;
    let column = op::view(&on_device(&[10.0, 20.0])?, &[2, 1])?;
    let sum = op::add_tensor(&turned, &column, Scalar::Int(2))?;
    assert_eq!(&sum.sizes()[..], [2, 3]);
    assert_eq!(sum.to_vec::<f32>()?, [21.0, 23.0, 25.0, 42.0, 44.0, 46.0]);
    op::add__tensor(&table, &table, Scalar::Int(1))?;
    assert_eq!(table.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    Ok(())
}

#[test]
fn it_refuses_what_it_cannot_add() -> Result<()> {
    let _device = device()?;
    let doubles = op::to_device(&on_device(&[1.0])?, DEVICE, DType::Float64, false, false, None)?;
    let kind = (&doubles + &doubles).err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::NotImplemented));
    Ok(())
}

#[test]
fn other_operators_fall_back_to_the_host() -> Result<()> {
    let _device = device()?;
    let row = op::view(&on_device(&[1.0, 2.0])?, &[1, 2])?;
    let column = op::view(&on_device(&[3.0, 4.0])?, &[2, 1])?;
    let product = op::mm(&row, &column)?;
    assert_eq!(product.device(), DEVICE);
    assert_eq!(product.to_vec::<f32>()?, [11.0]);
    let scaled = (&row * &row)?;
    assert_eq!(scaled.device(), DEVICE);
    assert_eq!(scaled.to_vec::<f32>()?, [1.0, 4.0]);
    Ok(())
}

#[test]
fn the_operator_has_a_derivative() -> Result<()> {
    register_operator()?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, -1.0], &[3])?;
    assert_eq!(cube(&x)?.to_vec::<f32>()?, [1.0, 8.0, -1.0]);
    x.requires_grad_(true)?;
    cube(&x)?.sum()?.backward()?;
    let grad = x.grad().map(|grad| grad.to_vec::<f32>()).transpose()?;
    assert_eq!(grad, Some(vec![3.0, 12.0, 3.0]));
    Ok(())
}

#[test]
fn an_operator_without_a_derivative_does_not_lose_gradients() -> Result<()> {
    let library = corten::ops::Library::new("outside_plain");
    library.define("twice(Tensor self) -> Tensor")?;
    library
        .implement("twice", corten::ops::Target::CompositeExplicitAutograd, |_call, stack| {
            let input: &Tensor = stack[0].get()?;
            let result = (input + input)?;
            stack.replace(result);
            Ok(())
        })?
        .keep();
    let x = Tensor::from_slice(&[1.0f32], &[1])?;
    x.requires_grad_(true)?;
    let mut stack: corten::ops::Stack = std::iter::once((&x).into()).collect();
    corten::ops::call("outside_plain::twice", &mut stack)?;
    // The kernel runs with recording on: what it calls leads the gradient further.
    let result: &Tensor = stack[0].get()?;
    result.sum()?.backward()?;
    let grad = x.grad().map(|grad| grad.to_vec::<f32>()).transpose()?;
    assert_eq!(grad, Some(vec![2.0]));
    Ok(())
}
