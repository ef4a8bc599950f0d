//! Softmax of slices that may be masked out entirely.

use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar};

/// Softmax in which a slice of nothing but minus infinity gives zeros.
///
/// # Errors
/// Those of `softmax`.
pub fn safe_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let out = op::softmax_int(self_, dim, dtype)?;
    let masked = op::all_dim(&op::eq_scalar(self_, Scalar::from(f64::NEG_INFINITY))?, dim, true)?;
    let zeros =
        op::scalar_tensor(Scalar::from(0.0), Some(out.dtype()), None, Some(out.device()), None)?;
    op::where_self(&masked, &zeros, &out)
}
