//! Shapes of samplers whose parameters are tensors: those of the first parameter, contiguous.

use crate::{Tensor, op};
use corten_core::{Generator, MemoryFormat, Result};

fn like(parameter: &Tensor) -> Result<Tensor> {
    op::empty_like(parameter, None, None, None, None, Some(MemoryFormat::Contiguous))
}

/// `poisson`.
///
/// # Errors
/// Those of the allocation.
pub fn poisson(self_: &Tensor, _: Option<&Generator>) -> Result<Tensor> {
    like(self_)
}

/// `binomial`.
///
/// # Errors
/// When the parameters do not broadcast.
pub fn binomial(count: &Tensor, prob: &Tensor, _: Option<&Generator>) -> Result<Tensor> {
    like(&op::broadcast_tensors(&[count.clone(), prob.clone()])?[0])
}

/// `_standard_gamma`.
///
/// # Errors
/// Those of the allocation.
pub fn standard_gamma(self_: &Tensor, _: Option<&Generator>) -> Result<Tensor> {
    like(self_)
}

/// `_standard_gamma_grad`.
///
/// # Errors
/// When the operands do not broadcast.
pub fn standard_gamma_grad(self_: &Tensor, output: &Tensor) -> Result<Tensor> {
    like(&op::broadcast_tensors(&[self_.clone(), output.clone()])?[0])
}

/// `_sample_dirichlet`.
///
/// # Errors
/// Those of the allocation.
pub fn sample_dirichlet(self_: &Tensor, _: Option<&Generator>) -> Result<Tensor> {
    like(self_)
}

/// `_dirichlet_grad`.
///
/// # Errors
/// When the operands do not broadcast.
pub fn dirichlet_grad(x: &Tensor, alpha: &Tensor, total: &Tensor) -> Result<Tensor> {
    like(&op::broadcast_tensors(&[x.clone(), alpha.clone(), total.clone()])?[0])
}
