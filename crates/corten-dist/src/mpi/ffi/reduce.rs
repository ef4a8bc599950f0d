//! Reductions that MPI does not have, as functions that it calls.
//!
//! MPI knows no floats of 16 and 8 bits, and leaves open what the smallest of NaN and a number is.

use std::ffi::{c_int, c_void};

use corten_core::DType;

use super::table::UserFunction;
use crate::reduction::{self, Combination, Combine, Operands, Reduced, Visit};

/// The function that combines elements of `dtype`; nothing where MPI has one itself, or none can be.
pub(super) fn user_function(dtype: DType, combination: Combination) -> Option<UserFunction> {
    struct Function;
    impl Visit for Function {
        type Output = UserFunction;
        fn visit<T: Reduced, C: Combine<T::Wide>>(self) -> UserFunction {
            reduce::<T, C>
        }
    }
    let has_order = dtype.is_floating_point();
    let is_extremum = matches!(combination, Combination::Min | Combination::Max);
    let is_narrow = (has_order || dtype.is_complex()) && !is_known(dtype);
    let is_own = is_narrow || (has_order && is_extremum);
    is_own.then(|| reduction::visit(dtype, combination, Function)).flatten()
}

/// Whether MPI has floats or complex numbers of this dtype.
fn is_known(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64 | DType::Complex64 | DType::Complex128)
}

/// What MPI calls. See [`UserFunction`].
///
/// # Safety
/// `input` and `inout` name `*len` elements of type `T`, which nobody else touches meanwhile.
unsafe extern "C" fn reduce<T: Reduced, C: Combine<T::Wide>>(
    input: *mut c_void,
    inout: *mut c_void,
    len: *mut c_int,
    _datatype: *mut c_void,
) {
    let starts = [input.cast_const().cast(), inout.cast_const().cast()];
    let operands = Operands { starts: &starts, factors: &[], divisor: None };
    // SAFETY: the caller gives a number.
    let len = unsafe { *len }.max(0) as usize;
    // SAFETY: the caller's promise.
    unsafe { reduction::fold_elements::<T, C>(inout.cast(), &operands, len) }
}
