//! Helpers of the tests.
#![allow(dead_code)]

use corten_autograd::Autograd;
use corten_core::{DType, Reader, Result, TensorBase, TensorOptions, Writer};
use corten_ops::{Tensor, op};

pub(crate) fn init() {
    corten_ops::init();
    corten_cpu::init().expect("kernels");
    corten_autograd::init().expect("autograd");
}

/// A float32 tensor.
pub(crate) fn tensor(values: &[f32], sizes: &[i64]) -> Tensor {
    init();
    let base = TensorBase::empty(sizes, TensorOptions::from(DType::Float32)).unwrap();
    let tensor = Tensor::from(base);
    Writer::<f32>::new(&tensor).unwrap().copy_from_slice(values);
    tensor
}

/// A float32 vector.
pub(crate) fn vector(values: &[f32]) -> Tensor {
    tensor(values, &[values.len() as i64])
}

/// A float32 scalar.
pub(crate) fn scalar(value: f32) -> Tensor {
    tensor(&[value], &[])
}

/// A vector of ones that requires a gradient.
pub(crate) fn ones(count: usize) -> Tensor {
    vector(&vec![1.0; count]).requires_grad_(true).unwrap()
}

/// The elements in row-major order.
pub(crate) fn list(tensor: &Tensor) -> Vec<f32> {
    let plain = corten_autograd::no_grad(|| {
        op::contiguous(&op::detach(tensor).unwrap(), corten_core::MemoryFormat::Contiguous)
    });
    let plain = plain.unwrap();
    Reader::<f32>::new(&plain).unwrap().to_vec()
}

/// The accumulated gradient.
pub(crate) fn grad(tensor: &Tensor) -> Vec<f32> {
    list(&tensor.grad().expect("a gradient"))
}

pub(crate) fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.message().to_owned(),
    }
}

/// A slice of the first dimension.
pub(crate) fn slice(tensor: &Tensor, start: i64, end: i64) -> Tensor {
    op::slice_tensor(tensor, 0, Some(start), Some(end), 1).unwrap()
}

pub(crate) fn copy(tensor: &Tensor) -> Tensor {
    op::clone(tensor, None).unwrap()
}

pub(crate) fn sum(tensor: &Tensor) -> Tensor {
    op::sum(tensor, None).unwrap()
}

/// In-place multiplication with a number.
pub(crate) fn scale_(tensor: &Tensor, factor: f64) -> Result<Tensor> {
    op::mul__scalar(tensor, factor.into())
}

/// In-place addition of a number.
pub(crate) fn shift_(tensor: &Tensor, term: f64) -> Result<Tensor> {
    op::add__scalar(tensor, term.into(), 1_i64.into())
}

pub(crate) fn name(tensor: &Tensor) -> String {
    tensor.grad_fn().unwrap().map_or("None".to_owned(), |node| node.name().into_owned())
}
