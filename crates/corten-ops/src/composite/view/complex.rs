//! Parts of complex numbers, and transposes with and without conjugation.

use crate::{Tensor, op};
use corten_core::{Dims, Result, bail, ensure, warn};

/// The real part; a real tensor itself.
///
/// # Errors
/// `OutOfMemory`.
pub fn real(self_: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_complex() {
        return Ok(self_.clone());
    }
    // The real part of a conjugate is that of the number.
    let plain = if self_.is_conj() { op::_conj(self_)? } else { self_.clone() };
    op::select_int(&op::view_as_real(&plain)?, -1, 0)
}

/// The imaginary part.
///
/// # Errors
/// `Type` for real tensors.
pub fn imag(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype().is_complex(),
        Type,
        "imag is not implemented for tensors with non-complex dtypes."
    );
    if !self_.is_conj() {
        return op::select_int(&op::view_as_real(self_)?, -1, 1);
    }
    let part = op::select_int(&op::view_as_real(&op::_conj(self_)?)?, -1, 1)?;
    op::_neg_view(&part)
}

/// The conjugate as a view; a real tensor itself.
///
/// # Errors
/// `OutOfMemory`.
pub fn conj(self_: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_complex() {
        return Ok(self_.clone());
    }
    if self_.is_sparse() || self_.is_sparse_compressed() {
        return op::conj_physical(self_);
    }
    op::_conj(self_)
}

/// A copy where the conjugate is lazy, else the tensor itself.
///
/// # Errors
/// `OutOfMemory`.
pub fn resolve_conj(self_: &Tensor) -> Result<Tensor> {
    if self_.is_conj() { op::clone(self_, None) } else { Ok(self_.clone()) }
}

/// A copy where the negation is lazy, else the tensor itself.
///
/// # Errors
/// `OutOfMemory`.
pub fn resolve_neg(self_: &Tensor) -> Result<Tensor> {
    if self_.is_neg() { op::clone(self_, None) } else { Ok(self_.clone()) }
}

/// `Tensor.T`: all dimensions in reverse order.
///
/// # Errors
/// `OutOfMemory`.
pub fn numpy_t(self_: &Tensor) -> Result<Tensor> {
    let rank = self_.dim() as i64;
    if rank != 2 && rank != 0 {
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is \
             deprecated and it will throw an error in a future release. Consider `x.mT` to \
             transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to \
             reverse the dimensions of a tensor.",
        );
    }
    if rank == 0 {
        warn(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.",
        );
    }
    let reversed: Dims = (0..rank).rev().collect();
    op::permute(self_, &reversed)
}

/// `Tensor.H`: a matrix transposed and conjugated.
///
/// # Errors
/// `Runtime` for ranks other than 0 and 2.
pub fn matrix_h(self_: &Tensor) -> Result<Tensor> {
    match self_.dim() {
        0 => {
            warn("Tensor.H is deprecated on 0-D tensors. Consider using x.conj().");
            op::conj(self_)
        }
        2 => conjugated(self_, op::transpose_int(self_, 0, 1)?),
        rank => {
            let hint =
                if rank > 2 { " For batches of matrices, consider using tensor.mH" } else { "" };
            bail!(
                Runtime,
                "tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor.{hint}"
            )
        }
    }
}

fn conjugated(self_: &Tensor, transposed: Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() { op::conj(&transposed) } else { Ok(transposed) }
}

fn check_batches(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dim() != 1,
        Runtime,
        "{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
    );
    Ok(())
}

/// `Tensor.mT`: the last two dimensions exchanged.
///
/// # Errors
/// `Runtime` for vectors.
pub fn mt(self_: &Tensor) -> Result<Tensor> {
    check_batches("tensor.mT", self_)?;
    if self_.dim() == 0 {
        warn(
            "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these \
             cases.",
        );
        return Ok(self_.clone());
    }
    op::transpose_int(self_, -2, -1)
}

/// `Tensor.mH`: the last two dimensions exchanged, and conjugated.
///
/// # Errors
/// `Runtime` for vectors.
pub fn mh(self_: &Tensor) -> Result<Tensor> {
    check_batches("tensor.mH", self_)?;
    if self_.dim() == 0 {
        warn("Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().");
        return op::conj(self_);
    }
    conjugated(self_, op::transpose_int(self_, -2, -1)?)
}

/// The last two dimensions exchanged, and conjugated.
///
/// # Errors
/// `Runtime` for vectors.
pub fn adjoint(self_: &Tensor) -> Result<Tensor> {
    check_batches("tensor.adjoint()", self_)?;
    if self_.dim() == 0 {
        warn("adjoint() is deprecated on 0-D tensors. Consider using x.conj().");
        return op::conj(self_);
    }
    conjugated(self_, op::transpose_int(self_, -2, -1)?)
}
