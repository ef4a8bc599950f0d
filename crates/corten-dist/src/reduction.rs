//! Reductions of memory, element by element, for back ends that call functions for them.
//!
//! All of them are commutative, and floats of 16 bits are combined in 32 bits and rounded once.

use std::ffi::c_void;
use std::slice;

use corten_core::{Complex, DType, bf16, f16, match_dtype};
use half::slice::HalfFloatSliceExt;

use crate::error::{DistError, Result};
use crate::reduce_op::{Factor, ReduceOp};

/// Writes `n` elements of a op b to `out`, which may be `a` or `b`.
///
/// # Safety
/// Each pointer must be aligned and have `n` elements of the dtype that the function was asked for;
/// `out` is one of the others or overlaps neither. The first argument is not used.
pub(crate) type Reduction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, *const c_void, usize);

/// What combines two elements. Averages and sums with factors are sums, with [`before`] and [`after`]
/// around them.
#[derive(Clone, Copy)]
enum Combination {
    Sum,
    Product,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// The function that reduces elements of `dtype`.
///
/// # Errors
/// What [`ReduceOp::check`] refuses, and dtypes that have no arithmetic.
pub(crate) fn function(op: &ReduceOp, dtype: DType) -> Result<Reduction> {
    op.check(dtype)?;
    let kind = match op {
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_) => Combination::Sum,
        ReduceOp::Product => Combination::Product,
        ReduceOp::Min => Combination::Min,
        ReduceOp::Max => Combination::Max,
        ReduceOp::BitAnd => Combination::And,
        ReduceOp::BitOr => Combination::Or,
        ReduceOp::BitXor => Combination::Xor,
    };
    let refused = || {
        DistError::runtime(format!("ReduceOp.{} is not supported for {}", op.name(), dtype.name()))
    };
    let is_float = dtype.is_floating_point() || dtype.is_complex();
    if matches!(op, ReduceOp::PremulSum(_)) && !is_float {
        return Err(refused());
    }
    if dtype == DType::Bool {
        return if matches!(op, ReduceOp::Avg) { Err(refused()) } else { Ok(of_bools(kind)) };
    }
    let found = if dtype.is_integral(false) {
        match_dtype!(dtype, "all_reduce", Integral, T => Ok(of_integers::<T>(kind)))
    } else if dtype.is_reduced_float() {
        match_dtype!(dtype, "all_reduce", Float, T => Ok(of_floats::<T>(kind)))
    } else if dtype.is_complex() {
        match_dtype!(dtype, "all_reduce", Complex, T => Ok(of_complex::<T>(kind)))
    } else {
        match_dtype!(dtype, "all_reduce", Float, T => Ok(of_floats::<T>(kind)))
    };
    found.ok().flatten().ok_or_else(refused)
}

/// Multiplies this rank's elements before they are summed, where `op` asks for it.
///
/// # Errors
/// `Runtime` for a factor of a dtype that is neither float nor complex.
///
/// # Safety
/// `data` must be aligned and have `n` elements of `dtype`.
pub(crate) unsafe fn before(op: &ReduceOp, dtype: DType, data: *mut u8, n: usize) -> Result<()> {
    let ReduceOp::PremulSum(factor) = op else { return Ok(()) };
    let factor = match factor {
        Factor::Number(number) => *number,
        Factor::Tensor(tensor) => tensor.item().map_err(DistError::from)?.to_f64(),
    };
    // SAFETY: the caller's promise.
    unsafe { scale(dtype, data, n, Scale::Multiply(factor)) }
}

/// Divides the sum by the number of ranks, where `op` asks for it. Integers are rounded toward zero.
///
/// # Errors
/// None for what [`function`] accepts.
///
/// # Safety
/// `data` must be aligned and have `n` elements of `dtype`.
pub(crate) unsafe fn after(
    op: &ReduceOp,
    dtype: DType,
    data: *mut u8,
    n: usize,
    ranks: usize,
) -> Result<()> {
    let ReduceOp::Avg = op else { return Ok(()) };
    // SAFETY: the caller's promise.
    unsafe { scale(dtype, data, n, Scale::Divide(ranks)) }
}

#[derive(Clone, Copy)]
enum Scale {
    Multiply(f64),
    Divide(usize),
}

/// # Safety
/// `data` must be aligned and have `n` elements of `dtype`.
unsafe fn scale(dtype: DType, data: *mut u8, n: usize, by: Scale) -> Result<()> {
    let (dtype, n) = if dtype.is_complex() { (dtype.to_real(), 2 * n) } else { (dtype, n) };
    let done = match by {
        Scale::Multiply(factor) => match_dtype!(dtype, "PREMUL_SUM", Float, T => {
            // SAFETY: the caller's promise; a complex number is two real ones.
            let elements = unsafe { slice::from_raw_parts_mut(data.cast::<T>(), n) };
            elements.iter_mut().for_each(|x| *x = x.times(factor));
            Ok(())
        }),
        Scale::Divide(ranks) => match_dtype!(dtype, "AVG", Real, T => {
            // SAFETY: as above.
            let elements = unsafe { slice::from_raw_parts_mut(data.cast::<T>(), n) };
            elements.iter_mut().for_each(|x| *x = x.divided(ranks));
            Ok(())
        }),
    };
    done.map_err(DistError::from)
}

/// Numbers that are scaled.
trait Scaled: Copy {
    fn times(self, factor: f64) -> Self;
    fn divided(self, ranks: usize) -> Self;
}

macro_rules! scaled_integers {
    ($($t:ty)*) => {$(
        impl Scaled for $t {
            fn times(self, factor: f64) -> Self {
                (self as f64 * factor) as Self
            }
            fn divided(self, ranks: usize) -> Self {
                (i128::from(self) / ranks as i128) as Self
            }
        }
    )*};
}
scaled_integers! { u8 i8 i16 i32 i64 u16 u32 u64 }

impl Scaled for f64 {
    fn times(self, factor: f64) -> Self {
        self * factor
    }
    fn divided(self, ranks: usize) -> Self {
        self / ranks as Self
    }
}

impl Scaled for f32 {
    fn times(self, factor: f64) -> Self {
        self * factor as Self
    }
    fn divided(self, ranks: usize) -> Self {
        self / ranks as Self
    }
}

macro_rules! scaled_halves {
    ($($t:ty)*) => {$(
        impl Scaled for $t {
            fn times(self, factor: f64) -> Self {
                Self::from_f32(self.to_f32() * factor as f32)
            }
            fn divided(self, ranks: usize) -> Self {
                Self::from_f32(self.to_f32() / ranks as f32)
            }
        }
    )*};
}
scaled_halves! { f16 bf16 }

/// Has `combine` put the elements of one operand into the other, in place.
///
/// # Safety
/// As for [`Reduction`].
unsafe fn in_place<T: Copy>(
    out: *mut c_void,
    a: *const c_void,
    b: *const c_void,
    n: usize,
    combine: impl FnOnce(&mut [T], &[T]),
) {
    if n == 0 {
        return;
    }
    let other = if std::ptr::addr_eq(out, b) { a } else { b };
    if !std::ptr::addr_eq(out, a) && !std::ptr::addr_eq(out, b) {
        // SAFETY: the caller says that `out` overlaps neither operand, then.
        unsafe { std::ptr::copy_nonoverlapping(a.cast::<T>(), out.cast::<T>(), n) };
    }
    if std::ptr::addr_eq(out, other) {
        // SAFETY: `n` aligned elements; combining memory with itself reads a copy.
        let copy = unsafe { slice::from_raw_parts(other.cast::<T>(), n) }.to_vec();
        // SAFETY: as above; `copy` is other memory.
        combine(unsafe { slice::from_raw_parts_mut(out.cast(), n) }, &copy);
        return;
    }
    // SAFETY: `n` aligned elements each, and `other` is not `out`.
    let (accumulated, other) = unsafe {
        (slice::from_raw_parts_mut(out.cast(), n), slice::from_raw_parts(other.cast(), n))
    };
    combine(accumulated, other);
}

/// A way to combine two elements, known to the compiler.
trait Combine<T> {
    fn combine(a: T, b: T) -> T;
}

/// # Safety
/// As for [`Reduction`].
unsafe extern "C" fn elements<T: Copy, C: Combine<T>>(
    _user: *mut c_void,
    out: *mut c_void,
    a: *const c_void,
    b: *const c_void,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        in_place::<T>(out, a, b, n, |accumulated, other| {
            for (x, &y) in accumulated.iter_mut().zip(other) {
                *x = C::combine(*x, y);
            }
        });
    }
}

/// As [`elements`], in 32 bits.
///
/// # Safety
/// As for [`Reduction`].
unsafe extern "C" fn half_elements<T: Copy, C: Combine<f32>>(
    _user: *mut c_void,
    out: *mut c_void,
    a: *const c_void,
    b: *const c_void,
    n: usize,
) where
    [T]: HalfFloatSliceExt,
{
    const FEW: usize = 256;
    // SAFETY: the caller's promise.
    unsafe {
        in_place::<T>(out, a, b, n, |accumulated, other| {
            let (mut x, mut y) = ([0.0f32; FEW], [0.0f32; FEW]);
            for (accumulated, other) in accumulated.chunks_mut(FEW).zip(other.chunks(FEW)) {
                let (x, y) = (&mut x[..accumulated.len()], &mut y[..other.len()]);
                accumulated.convert_to_f32_slice(x);
                other.convert_to_f32_slice(y);
                for (x, &y) in x.iter_mut().zip(y.iter()) {
                    *x = C::combine(*x, y);
                }
                accumulated.convert_from_f32_slice(x);
            }
        });
    }
}

macro_rules! combine {
    ($name:ident, $($t:ty)*, |$a:ident, $b:ident| $body:expr) => {
        $(impl Combine<$t> for $name {
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t { $body }
        })*
    };
}

struct Add;
struct Multiply;
struct Least;
struct Greatest;
struct And;
struct Or;
struct Xor;

combine!(Add, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a.wrapping_add(b));
combine!(Multiply, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a.wrapping_mul(b));
combine!(Least, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a.min(b));
combine!(Greatest, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a.max(b));
combine!(And, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a & b);
combine!(Or, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a | b);
combine!(Xor, u8 i8 i16 i32 i64 u16 u32 u64, |a, b| a ^ b);
combine!(Add, f32 f64 Complex<f32> Complex<f64>, |a, b| a + b);
combine!(Multiply, f32 f64 Complex<f32> Complex<f64>, |a, b| a * b);
// NaN wins, whichever operand it is, so that all ranks agree.
combine!(Least, f32 f64, |a, b| if a < b || a.is_nan() { a } else { b });
combine!(Greatest, f32 f64, |a, b| if a > b || a.is_nan() { a } else { b });
combine!(Multiply, Complex<f16>, |a, b| {
    let wide = |z: Complex<f16>| Complex::new(z.re.to_f32(), z.im.to_f32());
    let product = wide(a) * wide(b);
    Complex::new(f16::from_f32(product.re), f16::from_f32(product.im))
});

/// Bytes that are 0 or 1.
fn of_bools(kind: Combination) -> Reduction {
    match kind {
        Combination::Sum | Combination::Max | Combination::Or => elements::<u8, Or>,
        Combination::Product | Combination::Min | Combination::And => elements::<u8, And>,
        Combination::Xor => elements::<u8, Xor>,
    }
}

fn of_integers<T: Copy>(kind: Combination) -> Option<Reduction>
where
    Add: Combine<T>,
    Multiply: Combine<T>,
    Least: Combine<T>,
    Greatest: Combine<T>,
    And: Combine<T>,
    Or: Combine<T>,
    Xor: Combine<T>,
{
    Some(match kind {
        Combination::Sum => elements::<T, Add>,
        Combination::Product => elements::<T, Multiply>,
        Combination::Min => elements::<T, Least>,
        Combination::Max => elements::<T, Greatest>,
        Combination::And => elements::<T, And>,
        Combination::Or => elements::<T, Or>,
        Combination::Xor => elements::<T, Xor>,
    })
}

/// Floats, by the function of their width.
trait Float: Copy {
    fn reduction<C: Combine<f32> + Combine<f64>>() -> Reduction;
}

impl Float for f32 {
    fn reduction<C: Combine<f32> + Combine<f64>>() -> Reduction {
        elements::<Self, C>
    }
}

impl Float for f64 {
    fn reduction<C: Combine<f32> + Combine<f64>>() -> Reduction {
        elements::<Self, C>
    }
}

impl Float for f16 {
    fn reduction<C: Combine<f32> + Combine<f64>>() -> Reduction {
        half_elements::<Self, C>
    }
}

impl Float for bf16 {
    fn reduction<C: Combine<f32> + Combine<f64>>() -> Reduction {
        half_elements::<Self, C>
    }
}

fn of_floats<T: Float>(kind: Combination) -> Option<Reduction> {
    match kind {
        Combination::Sum => Some(T::reduction::<Add>()),
        Combination::Product => Some(T::reduction::<Multiply>()),
        Combination::Min => Some(T::reduction::<Least>()),
        Combination::Max => Some(T::reduction::<Greatest>()),
        Combination::And | Combination::Or | Combination::Xor => None,
    }
}

/// Complex numbers, whose sums are those of twice as many floats.
trait ComplexNumber: Copy {
    fn sum() -> Reduction;
}

impl ComplexNumber for Complex<f32> {
    fn sum() -> Reduction {
        elements::<Self, Add>
    }
}

impl ComplexNumber for Complex<f64> {
    fn sum() -> Reduction {
        elements::<Self, Add>
    }
}

impl ComplexNumber for Complex<f16> {
    fn sum() -> Reduction {
        complex_half_sum
    }
}

/// # Safety
/// As for [`Reduction`].
unsafe extern "C" fn complex_half_sum(
    user: *mut c_void,
    out: *mut c_void,
    a: *const c_void,
    b: *const c_void,
    n: usize,
) {
    // SAFETY: a complex number is two real ones.
    unsafe { half_elements::<f16, Add>(user, out, a, b, 2 * n) }
}

fn of_complex<T: ComplexNumber>(kind: Combination) -> Option<Reduction>
where
    Multiply: Combine<T>,
{
    match kind {
        Combination::Sum => Some(T::sum()),
        Combination::Product => Some(elements::<T, Multiply>),
        Combination::Min
        | Combination::Max
        | Combination::And
        | Combination::Or
        | Combination::Xor => None,
    }
}
