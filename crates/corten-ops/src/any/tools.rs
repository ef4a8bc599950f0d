//! Traces and cross products.

use crate::composite::support::expect_dtype;
use crate::iter::allocate;
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, ensure, geometry, not_implemented_for};

/// The sum of a matrix's diagonal.
///
/// # Errors
/// `Runtime` for other than a matrix, `NotImplemented` for bool.
pub fn trace(self_: &Tensor) -> Result<Tensor> {
    let dim = self_.dim();
    ensure!(dim == 2, Runtime, "trace: expected a matrix, but got tensor with dim {dim}");
    if self_.dtype() == DType::Bool {
        return Err(not_implemented_for("trace", DType::Bool));
    }
    op::sum(&op::diagonal(self_, 0, 0, 1)?, None)
}

/// The cross product along a dimension of size 3.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for bool.
pub fn linalg_cross(self_: &Tensor, other: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(
        self_.dim() == other.dim(),
        Runtime,
        "linalg.cross: inputs must have the same number of dimensions."
    );
    let axis = geometry::wrap_dim(dim, self_.dim())?;
    let size = |tensor: &Tensor| tensor.sizes().get(axis).copied().unwrap_or(1);
    ensure!(
        size(self_) == 3 && size(other) == 3,
        Runtime,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        size(self_),
        size(other)
    );
    let shape = geometry::infer_broadcast(&self_.sizes(), &other.sizes())?;
    expect_dtype(other, self_.dtype())?;
    if self_.dtype() == DType::Bool {
        return Err(not_implemented_for("cross", DType::Bool));
    }
    let axis = axis as i64;
    let out = allocate(&shape, None, self_.dtype(), self_.device())?;
    for place in 0..3 {
        let times = |first: i64, second: i64| {
            let first = op::select_int(self_, axis, (place + first) % 3)?;
            op::mul_tensor(&first, &op::select_int(other, axis, (place + second) % 3)?)
        };
        let difference = op::sub__tensor(&times(1, 2)?, &times(2, 1)?, Scalar::Int(1))?;
        op::copy_(&op::select_int(&out, axis, place)?, &difference, false)?;
    }
    Ok(out)
}

/// The tensor with every slice along `dim` scaled down to a norm of at most `maxnorm`.
///
/// # Errors
/// `Runtime` for a norm that is none and fewer than two dimensions.
pub fn renorm(self_: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    ensure!(!p.is_complex(), Runtime, "renorm: p must be real-valued");
    ensure!(p.to_f64() > 0.0, Runtime, "renorm: non-positive-norm not supported");
    ensure!(!maxnorm.is_complex(), Runtime, "renorm: maxnorm must be real-valued");
    let most = maxnorm.to_f64();
    ensure!(most >= 0.0, Runtime, "renorm: expected maxnorm to be >= 0 but got {most}");
    let rank = self_.dim();
    ensure!(rank > 1, Runtime, "renorm: input needs at least 2 dimensions, got {rank} dimensions");
    let axis = geometry::wrap_dim(dim, rank)? as i64;
    let others: Vec<i64> = (0..rank as i64).filter(|&other| other != axis).collect();
    let wide = match self_.dtype() {
        DType::Float16 | DType::BFloat16 => Some(DType::Float32),
        _ => None,
    };
    let norm = op::linalg_vector_norm(self_, p, Some(&others), true, wide)?;
    let above = op::gt_scalar(&norm, Scalar::Float(most))?;
    // Where the norm is small enough its slope must not reach the factor, infinite as it may be.
    let safe = op::where_scalarother(&above, &norm, Scalar::Float(1.0))?;
    let factor = op::mul_scalar(
        &op::reciprocal(&op::add_scalar(&safe, Scalar::Float(1e-7), Scalar::Int(1))?)?,
        Scalar::Float(most),
    )?;
    let factor = op::where_scalarother(&above, &factor, Scalar::Float(1.0))?;
    let factor = match wide {
        Some(_) => op::to_dtype(&factor, self_.dtype(), false, false, None)?,
        None => factor,
    };
    contiguous(&op::mul_tensor(self_, &factor)?)
}

fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    op::contiguous(tensor, corten_core::MemoryFormat::Contiguous)
}
