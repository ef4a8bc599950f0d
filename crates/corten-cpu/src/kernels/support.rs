//! What the kernels of the heavy families share: new tensors, checked operands, dtype switches.

use corten_core::{Complex, DType, Element, MemoryFormat, Result, TensorBase, TensorOptions, bf16};
use corten_core::{cast, f16};
pub(crate) use corten_ops::composite::support::expect_dtype;
use corten_ops::{Tensor, op};

// Note [Kernels on the meta device]: a kernel finds out what its result looks like, allocates it,
// and then computes. One that is declared with `meta_kernel = "itself"` serves the meta device too
// and stops in between, so that checks, shapes and strides are written once and cannot differ.
// Shape functions of their own (`corten_ops::meta`) would repeat the geometry of the heavy families.

/// Whether a tensor has a shape but no data, so that nothing can be computed.
/// See Note [Kernels on the meta device].
pub(crate) fn is_shape_only(tensor: &Tensor) -> bool {
    tensor.device().is_meta()
}

/// A new tensor with dtype and device of `like`.
pub(crate) fn empty(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    empty_as(sizes, like, like.dtype())
}

/// A new tensor with the device of `like`.
pub(crate) fn empty_as(sizes: &[i64], like: &Tensor, dtype: DType) -> Result<Tensor> {
    Ok(TensorBase::empty(sizes, options_as(like, dtype))?.into())
}

/// A new tensor in a memory format.
pub(crate) fn empty_in(
    sizes: &[i64],
    like: &Tensor,
    dtype: DType,
    format: MemoryFormat,
) -> Result<Tensor> {
    Ok(TensorBase::empty(sizes, options_as(like, dtype).memory_format(format))?.into())
}

fn options_as(like: &Tensor, dtype: DType) -> TensorOptions {
    TensorOptions::new().dtype(dtype).device(like.device())
}

/// The tensor, or a contiguous copy of it.
pub(crate) fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    contiguous_in(tensor, MemoryFormat::Contiguous)
}

/// The tensor, or a copy of it in a memory format.
pub(crate) fn contiguous_in(tensor: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    match tensor.is_contiguous_for(format) {
        true => Ok(tensor.clone()),
        false => op::contiguous(tensor, format),
    }
}

/// The elements of a dense tensor in memory order.
pub(crate) fn flat(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.as_view_of(&[tensor.numel()], &[1], tensor.storage_offset())?.into())
}

/// [`contiguous`] for an operand that may be absent; an undefined tensor counts as absent.
pub(crate) fn contiguous_opt(tensor: Option<&Tensor>) -> Result<Option<Tensor>> {
    defined(tensor).map(contiguous).transpose()
}

/// An undefined tensor counts as absent.
pub(crate) fn defined(tensor: Option<&Tensor>) -> Option<&Tensor> {
    tensor.filter(|tensor| tensor.defined())
}

/// Element `index` of a list argument; a list of one stands for all.
pub(crate) fn nth(list: &[i64], index: usize) -> i64 {
    if list.len() == 1 { list[0] } else { list[index] }
}

/// An element type and the type in which many of them are summed.
pub(crate) trait Summed: Element {
    /// `f32` for the half precisions, else the type itself.
    type Sum: Element + Default;

    /// Adds an element to a sum; integers wrap around.
    fn add(sum: &mut Self::Sum, value: Self);
    /// The element nearest to a sum.
    fn of(sum: Self::Sum) -> Self;
    /// The element nearest to a sum times the reciprocal of a count, which for integers is 0 or 1.
    fn share(sum: Self::Sum, count: usize) -> Self;
}

macro_rules! summed {
    ($($t:ty => $sum:ty, |$a:ident, $b:ident| $add:expr;)*) => {$(
        impl Summed for $t {
            type Sum = $sum;

            #[inline(always)]
            fn add(sum: &mut $sum, value: Self) {
                let ($a, $b): ($sum, $sum) = (*sum, cast(value));
                *sum = $add;
            }
            #[inline(always)]
            fn of(sum: $sum) -> Self {
                cast(sum)
            }
            #[inline(always)]
            fn share(sum: $sum, count: usize) -> Self {
                cast(sum * cast::<f64, $sum>(1.0 / count as f64))
            }
        }
    )*};
}

summed! {
    f16 => f32, |a, b| a + b;
    bf16 => f32, |a, b| a + b;
    f32 => f32, |a, b| a + b;
    f64 => f64, |a, b| a + b;
    Complex<f32> => Complex<f32>, |a, b| a + b;
    Complex<f64> => Complex<f64>, |a, b| a + b;
    u8 => u8, |a, b| a.wrapping_add(b);
    i8 => i8, |a, b| a.wrapping_add(b);
    i16 => i16, |a, b| a.wrapping_add(b);
    i32 => i32, |a, b| a.wrapping_add(b);
    i64 => i64, |a, b| a.wrapping_add(b);
}
