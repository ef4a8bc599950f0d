//! Reductions that MPI does not have, as functions that it calls.
//!
//! MPI knows no floats of 16 and 8 bits, and leaves open what the smallest of NaN and a number is; here it
//! is NaN on every rank. Floats of few bits are combined in 32 bits and rounded after each step.

use std::ffi::{c_int, c_void};

use corten_core::{
    Complex, DType, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, bf16, cast, f16,
};

use super::table::{Predefined, UserFunction};

/// The function that reduces elements of `dtype`; nothing where MPI has one itself, or none can be.
pub(super) fn user_function(dtype: DType, operation: Predefined) -> Option<UserFunction> {
    match dtype {
        DType::Float32 => extremum::<f32>(operation),
        DType::Float64 => extremum::<f64>(operation),
        DType::Float16 => float::<f16>(operation),
        DType::BFloat16 => float::<bf16>(operation),
        DType::Float8E5m2 => float::<F8E5M2>(operation),
        DType::Float8E4m3fn => float::<F8E4M3FN>(operation),
        DType::Float8E5m2fnuz => float::<F8E5M2FNUZ>(operation),
        DType::Float8E4m3fnuz => float::<F8E4M3FNUZ>(operation),
        DType::Complex32 => sum_or_product::<Complex<f16>>(operation),
        DType::BComplex32 => sum_or_product::<Complex<bf16>>(operation),
        _ => None,
    }
}

/// A dtype, and the one in which its elements are combined.
pub(in crate::mpi) trait Reduced: Element {
    /// What arithmetic is done in.
    type Wide: Arithmetic;
}

/// What reductions need.
pub(in crate::mpi) trait Arithmetic:
    Element + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> + std::ops::Div<Output = Self>
{
}

/// Numbers that have an order, but for NaN.
trait Ordered: PartialOrd + Copy {
    fn is_nan(self) -> bool;
}

macro_rules! reduced {
    ($($narrow:ty => $wide:ty;)*) => {$(
        impl Reduced for $narrow {
            type Wide = $wide;
        }
    )*};
}

reduced! {
    f16 => f32;
    bf16 => f32;
    f32 => f32;
    f64 => f64;
    F8E5M2 => f32;
    F8E4M3FN => f32;
    F8E5M2FNUZ => f32;
    F8E4M3FNUZ => f32;
    Complex<f16> => Complex<f32>;
    Complex<bf16> => Complex<f32>;
    Complex<f32> => Complex<f32>;
    Complex<f64> => Complex<f64>;
}

impl Arithmetic for f32 {}
impl Arithmetic for f64 {}
impl Arithmetic for Complex<f32> {}
impl Arithmetic for Complex<f64> {}

impl Ordered for f32 {
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Ordered for f64 {
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

fn float<T: Reduced<Wide: Ordered>>(operation: Predefined) -> Option<UserFunction> {
    sum_or_product::<T>(operation).or_else(|| extremum::<T>(operation))
}

fn sum_or_product<T: Reduced>(operation: Predefined) -> Option<UserFunction> {
    match operation {
        Predefined::Sum => Some(reduce::<T, Sum>),
        Predefined::Product => Some(reduce::<T, Product>),
        _ => None,
    }
}

fn extremum<T: Reduced<Wide: Ordered>>(operation: Predefined) -> Option<UserFunction> {
    match operation {
        Predefined::Min => Some(reduce::<T, Min>),
        Predefined::Max => Some(reduce::<T, Max>),
        _ => None,
    }
}

/// How two elements become one; commutes.
trait Combine<T> {
    fn combine(a: T, b: T) -> T;
}

struct Sum;
struct Product;
struct Min;
struct Max;

impl<T: Arithmetic> Combine<T> for Sum {
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a + b
    }
}

impl<T: Arithmetic> Combine<T> for Product {
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a * b
    }
}

impl<T: Ordered> Combine<T> for Min {
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        if a < b || a.is_nan() { a } else { b }
    }
}

impl<T: Ordered> Combine<T> for Max {
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        if a > b || a.is_nan() { a } else { b }
    }
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
    let (input, inout): (*const T, *mut T) = (input.cast(), inout.cast());
    // SAFETY: the caller gives a number.
    let len = unsafe { *len }.max(0) as usize;
    for index in 0..len {
        // SAFETY: the caller gives so many elements, all of whose bytes are valid ones: none is a bool.
        unsafe {
            let (a, b) = (input.add(index).read_unaligned(), inout.add(index).read_unaligned());
            let combined = C::combine(cast::<T, T::Wide>(a), cast(b));
            inout.add(index).write_unaligned(cast(combined));
        }
    }
}
