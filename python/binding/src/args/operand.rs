//! Operands of the fast paths.

use crate::py::{Obj, ffi};
use crate::tensor;
use corten_core::Scalar;
use corten_ops::Tensor;

/// What an object is to a fast path.
pub(crate) enum Operand<'a> {
    /// A tensor that overrides nothing.
    Tensor(&'a Tensor),
    /// A Python number that is no complex one.
    Number(Scalar),
    /// Anything else.
    Other,
}

/// Looks at an object's exact type.
#[inline]
pub(crate) fn operand(object: &Obj) -> Operand<'_> {
    if tensor::is_dense_cpu(object) {
        return Operand::Tensor(tensor::this(object));
    }
    let (float, int) = (&raw mut ffi::PyFloat_Type, &raw mut ffi::PyLong_Type);
    let ty = object.type_ptr();
    if ty == float || ty == int || object.is_bool() {
        return match object.to_scalar() {
            Ok(scalar) => Operand::Number(scalar),
            Err(raised) => {
                raised.clear();
                Operand::Other
            }
        };
    }
    Operand::Other
}
