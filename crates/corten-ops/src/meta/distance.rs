//! Shapes of distances between rows.

use crate::Tensor;
use crate::iter::allocate;
use corten_core::{Result, ensure, geometry};

/// # Errors
/// `Runtime` for operands of `cdist` that do not fit.
pub fn check(x1: &Tensor, x2: &Tensor, p: f64) -> Result<()> {
    for (name, x) in [("X1", x1), ("X2", x2)] {
        let dim = x.dim();
        ensure!(dim >= 2, Runtime, "cdist only supports at least 2D tensors, {name} got: {dim}D");
    }
    let last = |x: &Tensor| x.sizes().last().copied().unwrap_or(1);
    ensure!(
        last(x1) == last(x2),
        Runtime,
        "X1 and X2 must have the same number of columns. X1: {} X2: {}",
        last(x1),
        last(x2)
    );
    for (name, x) in [("X1", x1), ("X2", x2)] {
        ensure!(
            x.dtype().is_floating_point(),
            Runtime,
            "cdist only supports floating-point dtypes, {name} got: {}",
            x.dtype().type_name()
        );
    }
    ensure!(p >= 0.0, Runtime, "cdist only supports non-negative p values");
    Ok(())
}

/// `_cdist_forward`.
///
/// # Errors
/// As for [`check`].
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, _compute_mode: Option<i64>) -> Result<Tensor> {
    check(x1, x2, p)?;
    let (a, b) = (x1.sizes(), x2.sizes());
    let mut shape = geometry::infer_broadcast(&a[..a.len() - 2], &b[..b.len() - 2])?;
    shape.extend([a[a.len() - 2], b[b.len() - 2]]);
    allocate(&shape, None, x1.dtype(), x1.device())
}

/// `_pdist_forward`.
///
/// # Errors
/// `Runtime` for other than a matrix.
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    let dim = self_.dim();
    ensure!(dim == 2, Runtime, "pdist only supports 2D tensors, got: {dim}D");
    ensure!(
        self_.dtype().is_floating_point(),
        Runtime,
        "pdist only supports floating-point dtypes"
    );
    ensure!(p >= 0.0, Runtime, "pdist only supports non-negative p values");
    let rows = self_.sizes()[0];
    let pairs = if rows < 2 { 0 } else { rows.saturating_mul(rows - 1) / 2 };
    allocate(&[pairs], None, self_.dtype(), self_.device())
}
