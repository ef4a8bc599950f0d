//! Reductions as functions that gloo calls.

use std::ffi::c_void;

use corten_core::DType;

use crate::error::{DistError, Result};
use crate::reduction::{self, Combination, Combine, Operands, Reduced, Visit};

/// Writes `n` elements of a op b to `out`, which may be `a` or `b`.
///
/// # Safety
/// Each pointer must have `n` elements of the dtype that the function was asked for; `out` is one of the others
/// or overlaps neither. The first argument is not used.
pub(super) type ReduceFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, *const c_void, usize);

/// The function that combines elements of a dtype.
///
/// # Errors
/// `Internal` for what [`Combination::of`] does not give.
pub(super) fn function(dtype: DType, combination: Combination) -> Result<ReduceFunction> {
    struct Function;
    impl Visit for Function {
        type Output = ReduceFunction;
        fn visit<T: Reduced, C: Combine<T::Wide>>(self) -> ReduceFunction {
            reduce::<T, C>
        }
    }
    reduction::visit(dtype, combination, Function).ok_or_else(|| {
        DistError::from(corten_core::err!(Internal, "{combination:?} of {}", dtype.name()))
    })
}

/// # Safety
/// As for [`ReduceFunction`].
unsafe extern "C" fn reduce<T: Reduced, C: Combine<T::Wide>>(
    _user: *mut c_void,
    out: *mut c_void,
    a: *const c_void,
    b: *const c_void,
    n: usize,
) {
    let operands = Operands { starts: &[a.cast(), b.cast()], factors: &[], divisor: None };
    // SAFETY: the caller's promise.
    unsafe { reduction::fold_elements::<T, C>(out.cast(), &operands, n) }
}
