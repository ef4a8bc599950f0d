//! Outer products added to a tensor.

use crate::meta::elementwise::check_category;
use crate::{Tensor, op};
use corten_core::{Complex, DType, Result, Scalar, ensure, promote_types};

/// `beta * self + alpha * outer(vec1, vec2)`.
///
/// # Errors
/// `Runtime` when ranks, shapes or factors do not fit.
pub fn addr(
    self_: &Tensor,
    vec1: &Tensor,
    vec2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    for (vector, name) in [(vec1, "vec1"), (vec2, "vec2")] {
        ensure!(
            vector.dim() == 1,
            Runtime,
            "addr: Expected 1-D argument {name}, but got {}-D",
            vector.dim()
        );
    }
    let dtype = promote_types(self_.dtype(), promote_types(vec1.dtype(), vec2.dtype())?)?;
    for (factor, name) in [(beta, "beta"), (alpha, "alpha")] {
        check_category(dtype, name, factor)?;
        if dtype != DType::Bool {
            factor.check_fits(dtype, "addr")?;
        }
    }
    let expanded = op::expand(self_, &[vec1.sizes()[0], vec2.sizes()[0]], false)?;
    let column = op::unsqueeze(vec1, 1)?;
    let same = [self_, vec1, vec2].iter().all(|tensor| tensor.dtype() == dtype);
    let rounds = dtype.is_reduced_float();
    if same && !rounds && dtype != DType::Bool && beta.to_complex() == Complex::new(1.0, 0.0) {
        // Where products are not rounded before they are added, they need not be stored.
        return op::addcmul(&expanded, &column, vec2, alpha);
    }
    let product = op::mul_tensor(&column, vec2)?;
    if dtype == DType::Bool {
        return booleans(&expanded, &product, beta.to_bool(), alpha.to_bool());
    }
    // The factor 1 is the rule.
    let times = |tensor: &Tensor, factor: Scalar| match factor {
        Scalar::Int(1) => Ok(tensor.clone()),
        factor => op::mul_scalar(tensor, factor),
    };
    let product = op::to_dtype(&times(&product, alpha)?, dtype, false, false, None)?;
    if !beta.to_bool() {
        // Only the strides of `self` count.
        let never = op::scalar_tensor(false.into(), Some(DType::Bool), None, None, None)?;
        return op::where_self(
            &never,
            &op::to_dtype(&expanded, dtype, false, false, None)?,
            &product,
        );
    }
    op::add_tensor(&times(&expanded, beta)?, &product, Scalar::Int(1))
}

/// Sums of booleans are `or`, products `and`.
fn booleans(self_: &Tensor, product: &Tensor, beta: bool, alpha: bool) -> Result<Tensor> {
    match (beta, alpha) {
        (true, true) => op::logical_or(self_, product),
        (true, false) => op::clone(self_, None),
        (false, true) => Ok(product.clone()),
        (false, false) => op::zeros_like(product, None, None, None, None, None),
    }
}
