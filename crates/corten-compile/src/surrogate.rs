//! Few elements that stand for operands while an operator is recorded.

use crate::ir::{Argument, Operand};
use corten_core::{
    Access, AccessSet, DType, Element, Result, Scalar, TensorBase, TensorOptions, match_dtype,
};
use corten_ops::{IValue, Tensor, derived};

/// Elements of an operand of many: more than a vector has, and no multiple of it.
pub(crate) const LENGTH: usize = 19;

/// How many elements an operand has, which is all that rules of promotion ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Rank 0.
    Scalar,
    /// One element of a higher rank.
    One,
    /// More elements.
    Many,
}

impl Extent {
    pub(crate) fn of(operand: &Operand) -> Self {
        match operand.sizes.len() {
            0 => Self::Scalar,
            _ if operand.numel() == 1 => Self::One,
            _ => Self::Many,
        }
    }
}

/// A tensor of an operand's dtype and extent; `seed` decides its elements. Many elements have gaps between
/// them, so that no way around the iterator takes them.
pub(crate) fn surrogate(operand: &Operand, seed: usize) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(operand.dtype);
    let tensor = match Extent::of(operand) {
        Extent::Scalar => TensorBase::empty(&[], options)?,
        Extent::One => TensorBase::empty(&[1], options)?,
        Extent::Many => TensorBase::empty_strided(&[LENGTH as i64], &[2], options)?,
    };
    fill(&tensor, seed)?;
    if operand.wrapped_number {
        tensor.set_wrapped_number(true);
    }
    Ok(tensor.into())
}

/// Dense rows of a dtype.
pub(crate) fn rows(dtype: DType, sizes: [usize; 2], seed: usize) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(dtype);
    let tensor = TensorBase::empty(&sizes.map(|size| size as i64), options)?;
    fill(&tensor, seed)?;
    Ok(tensor.into())
}

/// An argument with surrogates in place of its tensors; `None` for lists of them.
pub(crate) fn argument(given: &Argument, seed: usize) -> Result<Option<IValue>> {
    Ok(Some(match given {
        Argument::Value(value) => value.clone(),
        Argument::Number(number) => IValue::Tensor(derived::wrapped(*number)?),
        Argument::Tensor(operand) => IValue::Tensor(surrogate(operand, seed)?),
        Argument::Tensors(_) | Argument::OptionalTensors(_) => return Ok(None),
    }))
}

fn fill(tensor: &TensorBase, seed: usize) -> Result<()> {
    let dtype = tensor.dtype();
    let step = tensor.strides().last().map_or(1, |&stride| stride as usize);
    let set = AccessSet::acquire(&[(tensor, Access::Write)])?;
    match_dtype!(dtype, "compile", All, T => {
        let first = set.byte_ptr(0).cast::<T>();
        for k in 0..tensor.numel() as usize {
            // SAFETY: the set holds the tensor for writing, which has an element of this dtype there.
            unsafe { first.add(k * step).write_unaligned(T::from_scalar(value(dtype, k, seed))) };
        }
        Ok(())
    })
}

/// Values on both sides of zero and one, integers from one on, and truth values.
fn value(dtype: DType, k: usize, seed: usize) -> Scalar {
    let mixed = (7 * k + 5 * seed + k * seed) % LENGTH;
    match dtype {
        DType::Bool => Scalar::Bool((mixed + seed).is_multiple_of(2)),
        _ if dtype.is_integral(false) => Scalar::Int(1 + (mixed % 11) as i64),
        _ => Scalar::Float(mixed as f64 * 0.1875 - 0.9 + seed as f64 * 0.0173),
    }
}
