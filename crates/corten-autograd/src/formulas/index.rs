//! Gradients of reading and writing by index.

use crate::formulas::any::conjugate_number;
use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

pub(crate) fn zeros_of(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::new_zeros(grad, sizes, None, None, None, None)
}

/// Zeros with the gradient added where the indices point.
///
/// # Errors
/// Those of the operators.
pub fn index_backward(grad: &Tensor, sizes: &[i64], indices: &[Option<Tensor>]) -> Result<Tensor> {
    op::index_put(&zeros_of(grad, sizes)?, indices, grad, true)
}

/// Unchanged when values were added, else without the places that were written.
///
/// # Errors
/// Those of the operators.
pub fn index_put_self_backward(
    grad: &Tensor,
    indices: &[Option<Tensor>],
    accumulate: bool,
) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    op::index_put(grad, indices, &zeros_of(grad, &[])?, false)
}

/// The gradient at the places that were written. The engine sums what was broadcast.
///
/// # Errors
/// Those of the operators.
pub fn index_put_values_backward(
    grad: &Tensor,
    indices: &[Option<Tensor>],
    _sizes: &[i64],
) -> Result<Tensor> {
    op::index_tensor(grad, indices)
}

/// Zeros with the slices of the gradient added along `dim`.
///
/// # Errors
/// Those of the operators.
pub fn index_select_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    index: &Tensor,
) -> Result<Tensor> {
    let grad = &op::to_dense(grad, None, None)?;
    if sizes.is_empty() {
        return op::view(&op::sum(grad, None)?, &[]);
    }
    op::index_add(&zeros_of(grad, sizes)?, dim, index, grad, Scalar::Int(1))
}

/// Zeros with the gradient added where the elements were gathered.
///
/// # Errors
/// Those of the operators.
pub fn gather_backward(
    grad: &Tensor,
    input: &Tensor,
    dim: i64,
    index: &Tensor,
    sparse_grad: bool,
) -> Result<Tensor> {
    if sparse_grad {
        return op::_gather_sparse_backward(input, dim, index, grad);
    }
    let sizes = &input.sizes();
    op::scatter_add(&zeros_of(grad, sizes)?, dim, index, grad)
}

fn select_slices(grad: &Tensor, dim: i64, index: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let slices = op::index_select(grad, dim, index)?;
    if sizes.is_empty() { op::view(&op::sum(&slices, None)?, &[]) } else { Ok(slices) }
}

/// `alpha` times the slices of the gradient that were added to.
///
/// # Errors
/// Those of the operators.
pub fn index_add_source_backward(
    grad: &Tensor,
    dim: i64,
    index: &Tensor,
    sizes: &[i64],
    alpha: Scalar,
) -> Result<Tensor> {
    let slices = select_slices(grad, dim, index, sizes)?;
    op::mul_scalar(&slices, conjugate_number(alpha))
}

/// The slices of the gradient that were written.
///
/// # Errors
/// Those of the operators.
pub fn index_copy_source_backward(
    grad: &Tensor,
    dim: i64,
    index: &Tensor,
    sizes: &[i64],
) -> Result<Tensor> {
    select_slices(grad, dim, index, sizes)
}

/// The sum of the gradient over the slices that were filled.
///
/// # Errors
/// Those of the operators.
pub fn index_fill_value_backward(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    // An index that occurs twice still fills once: what is left after filling is taken away.
    let rest = op::index_fill_int_scalar(grad, dim, index, Scalar::Int(0))?;
    op::sum(&(grad - rest)?, None)
}

/// Zeros with the gradient where the mask is true.
///
/// # Errors
/// Those of the operators.
pub fn masked_select_backward(grad: &Tensor, sizes: &[i64], mask: &Tensor) -> Result<Tensor> {
    // The input may have been broadcast by the mask: the engine sums.
    let shape = geometry_broadcast(sizes, &mask.sizes())?;
    op::masked_scatter(&zeros_of(grad, &shape)?, mask, grad)
}

fn geometry_broadcast(a: &[i64], b: &[i64]) -> Result<corten_core::Dims> {
    corten_core::geometry::infer_broadcast(a, b)
}

/// The gradient where the mask is true, padded to the source's shape.
///
/// # Errors
/// Those of the operators.
pub fn masked_scatter_backward(grad: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if grad.device().is_meta() {
        return op::new_empty(grad, sizes, None, None, None, None);
    }
    let numel: i64 = sizes.iter().product();
    let mut selected = op::masked_select(grad, mask)?;
    let missing = numel - selected.numel();
    if missing > 0 {
        // Elements of the source that were not used.
        let zeros = zeros_of(&selected, &[missing])?;
        selected = op::cat(&[selected, zeros], 0)?;
    }
    op::view(&selected, sizes)
}

/// Zeros with the gradient added at the flat indices.
///
/// # Errors
/// Those of the operators.
pub fn take_backward(grad: &Tensor, sizes: &[i64], index: &Tensor) -> Result<Tensor> {
    op::put(&zeros_of(grad, sizes)?, index, grad, true)
}

/// Unchanged when values were added, else without the places that were written.
///
/// # Errors
/// Those of the operators.
pub fn put_self_backward(grad: &Tensor, index: &Tensor, accumulate: bool) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    op::put(grad, index, &zeros_of(grad, &index.sizes())?, false)
}

/// The gradient at the places that were written.
///
/// # Errors
/// Those of the operators.
pub fn put_source_backward(grad: &Tensor, index: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    op::reshape(&op::take(grad, index)?, sizes)
}
