//! Launches of the kernels that gather and scatter by indices.

mod advanced;

pub(crate) use advanced::{apart, fit_values, index_into, index_plan, put_at};

use crate::failure;
use crate::kernel::{Argument, Template};
use crate::launch::Shape;
use crate::operands::Operands;
use crate::pointwise::Numbers;
use crate::stream::Stream;
use crate::strided_loop::{StridedLoop, byte_strides};
use crate::text;
use corten_core::{Access, DType, Dims, Result, Scalar, ensure};
use corten_ops::{Tensor, op};

static GATHER: Template = Template { name: "gather", text: &[text::INDEX] };
static SCATTER: Template = Template { name: "scatter", text: &[text::INDEX] };

/// What is made of an element and a value that is scattered to it; the numbers of `index.cuh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Combine {
    Assign = 0,
    Add = 1,
    Multiply = 2,
    Larger = 3,
    Smaller = 4,
}

/// A dtype of the same size whose elements are copied as bits.
pub(crate) fn bits_of(dtype: DType) -> DType {
    match dtype.itemsize() {
        1 => DType::UInt8,
        2 => DType::Int16,
        4 => DType::Int32,
        8 => DType::Int64,
        _ => DType::Complex128,
    }
}

/// An index on the device of the tensor that it is for, in 32 or 64 bits.
pub(crate) fn index_on(like: &Tensor, index: &Tensor) -> Result<Tensor> {
    let index = match index.device() == like.device() {
        true => index.clone(),
        false => op::to_device(index, like.device(), index.dtype(), false, false, None)?,
    };
    match index.dtype() {
        DType::Int32 | DType::Int64 => Ok(index),
        _ => op::to_dtype(&index, DType::Int64, false, false, None),
    }
}

/// A vector of indices along `dim` as an operand of a walk over `sizes`.
pub(crate) fn along(index: &Tensor, sizes: &[i64], dim: usize) -> Result<Tensor> {
    let mut shape: Dims = Dims::from_elem(1, sizes.len());
    if let Some(size) = shape.get_mut(dim) {
        *size = index.numel();
    }
    let mut wide: Dims = sizes.into();
    if let Some(size) = wide.get_mut(dim) {
        *size = index.numel();
    }
    op::expand(&op::reshape(index, &shape)?, &wide, false)
}

/// Strides in bytes over the dimensions of an index: those of the tensor, and 0 along `dim`.
fn strides_beside(tensor: &Tensor, dim: usize) -> (Dims, i64) {
    let mut strides = byte_strides(tensor);
    let step = strides.get(dim).copied().unwrap_or(0);
    if let Some(stride) = strides.get_mut(dim) {
        *stride = 0;
    }
    (strides, step)
}

/// `out[p] = self_[p with index[p] at dim]` for each position of the index.
///
/// # Errors
/// `Runtime` for more elements than a launch takes; an index out of bounds is reported later.
pub(crate) fn gather_into(out: &Tensor, self_: &Tensor, dim: usize, index: &Tensor) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let (own, mut step) = strides_beside(self_, dim);
    let walk = StridedLoop::new(&index.sizes(), vec![byte_strides(out), own, byte_strides(index)]);
    let mut geometry = walk.geometry()?;
    let held =
        Operands::hold(&[(out, Access::Write), (self_, Access::Read), (index, Access::Read)])?;
    let mut at = [held.at(0), held.at(1), held.at(2)];
    let (mut n, mut size) = (index.numel() as u32, self_.sizes().get(dim).copied().unwrap_or(1));
    let stream = Stream::current(out.device().index);
    let mut report = failure::address(stream.device())?;
    let walked = geometry.as_mut_slice();
    let mut parameters = [
        (&raw mut n).cast(),
        (&raw mut at).cast(),
        walked.as_mut_ptr().cast(),
        (&raw mut size).cast(),
        (&raw mut step).cast(),
        (&raw mut report).cast(),
    ];
    let arguments = [Argument::Storage(bits_of(out.dtype())), Argument::Storage(index.dtype())];
    let shape = Shape::over(index.numel());
    // SAFETY: the operands are held; the kernel follows no index out of bounds.
    unsafe { GATHER.launch(&arguments, shape, stream, &mut parameters)? };
    drop(held);
    Ok(())
}

/// How [`scatter_into`] combines.
pub(crate) struct Scattered {
    pub(crate) how: Combine,
    /// Every value is multiplied by it where they are combined.
    pub(crate) alpha: Scalar,
    /// Positions with this index are left out.
    pub(crate) skipped: i64,
}

impl Scattered {
    /// Values as they are.
    pub(crate) fn by(how: Combine) -> Self {
        Self { how, alpha: Scalar::Int(1), skipped: i64::MIN }
    }
}

/// `self_[p with index[p] at dim] = source[p]`, or combined with it. The source has the index's sizes.
///
/// # Errors
/// As [`gather_into`].
pub(crate) fn scatter_into(
    self_: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
    scattered: &Scattered,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "scatter(): Expected self.dtype to be equal to src.dtype"
    );
    let (own, mut step) = strides_beside(self_, dim);
    let walk =
        StridedLoop::new(&index.sizes(), vec![own, byte_strides(source), byte_strides(index)]);
    let mut geometry = walk.geometry()?;
    let wanted = [(self_, Access::Write), (source, Access::Read), (index, Access::Read)];
    let held = Operands::hold(&wanted)?;
    let mut at = [held.at(0), held.at(1), held.at(2)];
    let (mut n, mut size) = (index.numel() as u32, self_.sizes().get(dim).copied().unwrap_or(1));
    let stream = Stream::current(self_.device().index);
    let (mut report, mut skipped) = (failure::address(stream.device())?, scattered.skipped);
    let copies = scattered.how == Combine::Assign;
    let dtype = if copies { bits_of(self_.dtype()) } else { self_.dtype() };
    let mut numbers = Numbers::of(&[scattered.alpha], dtype)?;
    let walked = geometry.as_mut_slice();
    let mut parameters = [
        (&raw mut n).cast(),
        (&raw mut at).cast(),
        walked.as_mut_ptr().cast(),
        (&raw mut size).cast(),
        (&raw mut step).cast(),
        (&raw mut skipped).cast(),
        (&raw mut report).cast(),
        (&raw mut numbers).cast(),
    ];
    let arguments = [
        Argument::Storage(dtype),
        Argument::Storage(index.dtype()),
        Argument::Value(dtype),
        Argument::Number(scattered.how as u32),
    ];
    // SAFETY: the operands are held; the kernel follows no index out of bounds.
    unsafe { SCATTER.launch(&arguments, Shape::over(index.numel()), stream, &mut parameters)? };
    drop(held);
    Ok(())
}
