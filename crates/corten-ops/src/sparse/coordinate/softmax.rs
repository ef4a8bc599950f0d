//! Softmax over the entries that are there: the others count as minus infinity.

use super::entries::{self, flat_places};
use super::reduce::rows_of;
use crate::composite::support::along;
use crate::sparse::Coo;
use crate::{Tensor, op};
use corten_core::{Result, Scalar, ensure, geometry::wrap_dim};

/// The softmax along a dimension.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    forward(self_, dim, half_to_float, false)
}

/// The logarithm of the softmax along a dimension.
///
/// # Errors
/// `Index` for a dimension that there is not.
pub fn log_softmax(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    forward(self_, dim, half_to_float, true)
}

fn forward(self_: &Tensor, dim: i64, half_to_float: bool, log: bool) -> Result<Tensor> {
    ensure!(
        !half_to_float,
        Runtime,
        "softmax with half to float conversion is not supported on {}",
        self_.device().device_type
    );
    let sizes = self_.sizes();
    let dim = wrap_dim(dim, sizes.len())?;
    let parts = entries::coalesced(&Coo::expect(self_, "_sparse_softmax")?, &sizes)?;
    if parts.nnz() == 0 {
        return parts.tensor(&sizes);
    }
    let count = parts.sparse_dim() as usize;
    if dim >= count {
        let at = (dim - count + 1) as i64;
        let values = match log {
            true => op::log_softmax_int(&parts.values, at, None)?,
            false => op::softmax_int(&parts.values, at, None)?,
        };
        return Coo { values, ..parts }.tensor(&sizes);
    }
    let groups = Groups::of(&parts, &sizes, dim)?;
    let largest = groups.spread(&groups.largest(&parts.values)?)?;
    let shifted = op::sub_tensor(&parts.values, &largest, Scalar::Int(1))?;
    let exps = op::exp(&shifted)?;
    let total = groups.spread(&groups.sum(&exps)?)?;
    let values = match log {
        true => op::sub_tensor(&shifted, &op::log(&total)?, Scalar::Int(1))?,
        false => op::div_tensor(&exps, &total)?,
    };
    Coo { values, ..parts }.tensor(&sizes)
}

/// Which entries lie on one line along a dimension.
struct Groups {
    of: Tensor,
    count: i64,
}

impl Groups {
    fn of(parts: &Coo, sizes: &[i64], dim: usize) -> Result<Self> {
        let others: Vec<usize> =
            (0..parts.sparse_dim() as usize).filter(|&other| other != dim).collect();
        if others.is_empty() {
            let row = op::select_int(&parts.indices, 0, 0)?;
            let of = op::zeros_like(&row, None, None, None, None, None)?;
            return Ok(Self { of, count: 1 });
        }
        let lengths: Vec<i64> = others.iter().map(|&other| sizes[other]).collect();
        let flat = flat_places(&rows_of(&parts.indices, &others)?, &lengths)?;
        let (found, of) = op::_unique(&flat, true, true)?;
        Ok(Self { of, count: found.size(0)? })
    }

    /// One row for each group.
    fn rows(&self, values: &Tensor, fill: Scalar) -> Result<Tensor> {
        let mut shape = values.sizes();
        shape[0] = self.count;
        let device = Some(values.device());
        op::full(&shape, fill, Some(values.dtype()), None, device, None)
    }

    fn largest(&self, values: &Tensor) -> Result<Tensor> {
        let lowest = self.rows(values, Scalar::Float(f64::NEG_INFINITY))?;
        let index = along(&self.of, values.dim(), 0)?;
        let index = op::expand(&index, &values.sizes(), false)?;
        op::scatter_reduce_two(&lowest, 0, &index, values, "amax", true)
    }

    fn sum(&self, values: &Tensor) -> Result<Tensor> {
        let zeros = self.rows(values, Scalar::Int(0))?;
        op::index_add(&zeros, 0, &self.of, values, Scalar::Int(1))
    }

    fn spread(&self, rows: &Tensor) -> Result<Tensor> {
        op::index_select(rows, 0, &self.of)
    }
}

/// The gradient of [`softmax`]: $y (g - \sum g y)$.
///
/// # Errors
/// Those of the operators.
pub fn softmax_backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    _self: &Tensor,
) -> Result<Tensor> {
    backward(grad_output, output, dim, false)
}

/// The gradient of [`log_softmax`]: $g - e^y \sum g$.
///
/// # Errors
/// Those of the operators.
pub fn log_softmax_backward(
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    _self: &Tensor,
) -> Result<Tensor> {
    backward(grad_output, output, dim, true)
}

fn backward(grad: &Tensor, output: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
    let sizes = output.sizes();
    let dim = wrap_dim(dim, sizes.len())?;
    let parts = Coo::expect(output, "_sparse_softmax_backward_data")?;
    let grad = match Coo::of(grad) {
        None => entries::dense_at(grad, &parts.indices)?,
        Some(given) => {
            let given = entries::coalesced(&given, &sizes)?;
            entries::entries_at(&given, &sizes, &parts.indices)?
        }
    };
    if parts.nnz() == 0 {
        return parts.tensor(&sizes);
    }
    let (count, out) = (parts.sparse_dim() as usize, &parts.values);
    let weighed = if log { grad.clone() } else { op::mul_tensor(&grad, out)? };
    let total = if dim >= count {
        op::sum_dim_intlist(&weighed, Some(&[(dim - count + 1) as i64]), true, None)?
    } else {
        let groups = Groups::of(&parts, &sizes, dim)?;
        groups.spread(&groups.sum(&weighed)?)?
    };
    let values = if log {
        op::sub_tensor(&grad, &op::mul_tensor(&op::exp(out)?, &total)?, Scalar::Int(1))?
    } else {
        op::mul_tensor(out, &op::sub_tensor(&grad, &total, Scalar::Int(1))?)?
    };
    Coo { values, ..parts }.tensor(&sizes)
}
