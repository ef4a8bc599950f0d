//! The loops of pointwise operators.
//!
//! An operator is instantiated as one function per vector type: a contiguous loop, in which an
//! operand may also be a single element. `gather_scatter.rs` brings everything else to that form.

use crate::pointwise::gather_scatter::GatherScatter;
use crate::pointwise::inner_loop::MOST_SCALARS;
pub(crate) use crate::pointwise::inner_loop::{InnerLoop, Kernel, Scalars, Source};
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use crate::pointwise::lane_loop::lane_avx2;
use crate::pointwise::lane_loop::lane_baseline;
use crate::pointwise::steps;
use crate::pointwise::vector_loop::vector_loop;
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
use crate::vec::avx512;
use crate::vec::baseline;
use crate::vec::expr::Expr;
use crate::vec::take_division_by_zero;
use crate::vec::{Cplx, Int, Lanes, MaskBits, Memory, Plain, Truth, level};
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use crate::vec::{Level, NonTemporal, NonTemporalBf16, avx2};
use corten_core::{DType, Result, Scalar, bail, not_implemented_for};
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use corten_core::{bf16, f16};
use corten_ops::iter::TensorIterator;
use corten_ops::meta::Domain;
use corten_ops::parallel::GRAIN;
use std::marker::PhantomData;

/// An expression with up to three operands; the missing ones repeat the first.
pub(crate) trait Body {
    const ARITY: usize;
    const DOMAIN: Domain;
    /// Whether 16-bit floats have a loop of their own.
    const IS_SHORT: bool;
    /// Whether results that no cache holds have one.
    const GOES_PAST: bool;
    fn eval<E: Expr>(x: [E; 3], s: &[E]) -> E;
}

/// Operators that are over so soon that the buffers of Note [Staging] would cost more than they do.
pub(crate) const SHORT: &[&str] = &[
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "TrueQuotient",
    "neg",
    "abs",
    "relu",
    "threshold_backward",
    "maximum",
    "minimum",
    "lerp",
    "addcmul",
    "ClampToNumbers",
];

/// Others that wait for memory where no cache holds their results.
pub(crate) const MIDDLING: &[&str] = &["exp", "sqrt", "rsqrt", "reciprocal"];

/// Whether an operator is among some.
pub(crate) const fn is_among(name: &str, others: &[&str]) -> bool {
    let mut i = 0;
    while i < others.len() {
        if is_same(name.as_bytes(), others[i].as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// As [`Body`], with a truth value as the result.
pub(crate) trait Test {
    const ARITY: usize;
    const DOMAIN: Domain;
    fn eval<E: Expr>(x: [E; 3], s: &[E]) -> E::Mask;
}

/// Runs an operator over an iterator with one output.
pub(crate) fn run(
    iter: &mut TensorIterator,
    scalars: &[Scalar],
    name: &'static str,
    pick: fn(DType) -> Option<Kernel>,
) -> Result<()> {
    let dtype = iter.input_dtype();
    let Some(kernel) = pick(dtype) else { return Err(not_implemented_for(name, dtype)) };
    let scalars = match WRAPPING.contains(&name) {
        true if dtype.is_reduced_float() => {
            let rounded: Vec<_> = scalars.iter().map(|scalar| scalar.rounded_to(dtype)).collect();
            Scalars::wrapped(&rounded, kernel.compute)?
        }
        true => Scalars::wrapped(scalars, kernel.compute)?,
        false => Scalars::new(scalars, kernel.compute)?,
    };
    let exact = dtype != kernel.compute && EXACT.contains(&name);
    let number = match exact.then(|| iter.original_scalar(2)).transpose()?.flatten() {
        Some(number) => Some(Scalars::wrapped(&[number], kernel.compute)?),
        None => None,
    };
    let loops = GatherScatter::new(iter, kernel, scalars, number);
    if steps::is_recording() {
        steps::push(iter, loops.clone())?;
    }
    iter.for_each(
        |pointers, strides, n0, n1| {
            // SAFETY: the iterator vouches for addresses, strides and sizes, and holds access.
            unsafe { loops.rows(pointers, strides, n0 as usize, n1 as usize) };
            if take_division_by_zero() {
                bail!(Runtime, "ZeroDivisionError")
            }
            Ok(())
        },
        GRAIN,
    )
}

/// Operators that in 16 bits take a single second element as it is, and not rounded to the dtype.
const EXACT: [&str; 6] =
    ["mul", "div", "floor_divide", "TrueQuotient", "FloorQuotient", "TruncQuotient"];

/// Operators that compute with their number and do not compare with it: a negative one for an
/// unsigned dtype wraps around, and it is rounded to 16-bit dtypes.
const WRAPPING: [&str; 3] = ["add", "sub", "rsub"];

/// The arguments in every lane.
///
/// # Safety
/// They must have been made for the dtype of `L::Elem`.
#[inline(always)]
pub(crate) unsafe fn splat<L: Lanes>(scalars: &Scalars) -> [L; MOST_SCALARS] {
    let mut lanes = [L::lit(0.0); MOST_SCALARS];
    for (lane, value) in lanes.iter_mut().zip(scalars.values()) {
        // SAFETY: `Scalars::new` wrote elements of this type.
        *lane = L::splat(unsafe { std::ptr::from_ref(value).cast::<L::Elem>().read() });
    }
    lanes
}

// The loops.

/// What a loop does with the value or the truth of an expression.
pub(crate) trait Sink<L: Lanes> {
    const ARITY: usize;
    /// Whether there is so little to compute that memory is waited for.
    const IS_SHORT: bool;
    /// Bytes per result.
    const SIZE: usize;
    /// How the operands lie in memory.
    type From: Memory<L>;
    type Value: Copy;
    fn eval(x: [L; 3], s: &[L]) -> Self::Value;
    /// # Safety
    /// `to` must be writable for `n <= LANES` results.
    unsafe fn put(value: Self::Value, to: *mut u8, n: usize);
    /// Puts back what [`Memory::load_two`] gives.
    ///
    /// # Safety
    /// `to` must be writable for `2 * LANES` results.
    #[inline(always)]
    unsafe fn put_two(values: [Self::Value; 2], to: *mut u8) {
        let [first, second] = values;
        // SAFETY: the caller's.
        unsafe {
            Self::put(first, to, L::LANES);
            Self::put(second, to.add(L::LANES * Self::SIZE), L::LANES);
        }
    }
    /// Copies the first results of a vector of them, fewer than all.
    ///
    /// # Safety
    /// `from` must hold what [`put`](Self::put) wrote, `to` must be writable for `n < LANES` results.
    unsafe fn put_rest(from: *const u8, to: *mut u8, n: usize);
}

struct Values<B, M = Plain>(B, PhantomData<M>);
struct Truths<B>(B);

impl<B: Body, L: Lanes, M: Memory<L>> Sink<L> for Values<B, M> {
    const ARITY: usize = B::ARITY;
    const IS_SHORT: bool = B::IS_SHORT;
    const SIZE: usize = size_of::<M::Elem>();
    type From = M;
    type Value = L;
    #[inline(always)]
    fn eval(x: [L; 3], s: &[L]) -> L {
        B::eval(x, s)
    }
    #[inline(always)]
    unsafe fn put(value: L, to: *mut u8, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            match n == L::LANES {
                true => M::store(value, to.cast()),
                false => M::store_partial(value, to.cast(), n),
            }
        }
    }
    #[inline(always)]
    unsafe fn put_two(values: [L; 2], to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { M::store_two(values, to.cast()) }
    }
    #[inline(always)]
    unsafe fn put_rest(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller's.
        unsafe { M::store_partial(M::load(from.cast()), to.cast(), n) }
    }
}

impl<B: Test, L: Lanes> Sink<L> for Truths<B> {
    const ARITY: usize = B::ARITY;
    const IS_SHORT: bool = false;
    const SIZE: usize = 1;
    type From = Plain;
    type Value = L::Mask;
    #[inline(always)]
    fn eval(x: [L; 3], s: &[L]) -> L::Mask {
        B::eval(x, s)
    }
    #[inline(always)]
    unsafe fn put(value: L::Mask, to: *mut u8, n: usize) {
        let bits = value.bits();
        if n == 1 {
            // SAFETY: the caller's.
            return unsafe { to.write((bits & 1) as u8) };
        }
        let bytes = [spread(bits), spread(bits >> 8)];
        // SAFETY: the caller's; `n` is at most 16.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast::<u8>(), to, n) };
    }
    #[inline(always)]
    unsafe fn put_rest(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from, to, n) }
    }
}

/// The low eight bits as eight bytes of 0 or 1.
#[inline(always)]
fn spread(bits: u32) -> u64 {
    let each = u64::from(bits as u8).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    let high = (each & 0x7f7f_7f7f_7f7f_7f7f).wrapping_add(0x7f7f_7f7f_7f7f_7f7f) | each;
    ((high >> 7) & 0x0101_0101_0101_0101).to_le()
}

/// The loops for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident = $loop:ident on $lines:literal $(with $features:literal)?;)+) => {$(
        /// # Safety
        /// As for [`InnerLoop`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<L: Lanes, S: Sink<L>>(
            to: *mut u8,
            from: &[Source; 3],
            scalars: &Scalars,
            n: usize,
        ) {
            // SAFETY: the caller's.
            unsafe { $loop::<L, S, $lines>(to, from, scalars, n) }
        }
    )+};
}

compiled! {
    vector_baseline = vector_loop on false;
}

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
compiled! {
    vector_avx2 = vector_loop on false with "avx2,fma,f16c";
}

#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
compiled! {
    vector_avx512 = vector_loop on false with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
    far_avx512 = vector_loop on true with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
}

// The choice among them.

/// The loop over vectors of a type that each level has under the same name.
macro_rules! vectors {
    ($vector:ident, $sink:ty) => {
        match level() {
            #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
            Level::Avx512 => vector_avx512::<avx512::$vector, $sink>,
            #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
            Level::Avx2 => vector_avx2::<avx2::$vector, $sink>,
            _ => vector_baseline::<baseline::$vector, $sink> as InnerLoop,
        }
    };
}

/// The loops of a short operator over elements of a 16-bit dtype, where the processor converts them:
/// the second one over more than the first-level cache holds.
#[cfg_attr(not(all(target_arch = "x86_64", feature = "avx2")), expect(unused_variables))]
fn halves<B: Body>(dtype: DType) -> Option<[InnerLoop; 2]> {
    #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
    if const { B::IS_SHORT } {
        return match (level(), dtype) {
            #[cfg(feature = "avx512")]
            (Level::Avx512, DType::Float16) => Some([
                vector_avx512::<avx512::F32, Values<B, f16>>,
                far_avx512::<avx512::F32, Values<B, f16>>,
            ]),
            #[cfg(feature = "avx512")]
            (Level::Avx512, DType::BFloat16) => Some([
                vector_avx512::<avx512::F32, Values<B, bf16>>,
                far_avx512::<avx512::F32, Values<B, bf16>>,
            ]),
            (Level::Avx2, DType::Float16) => Some([vector_avx2::<avx2::F32, Values<B, f16>>; 2]),
            (Level::Avx2, DType::BFloat16) => Some([vector_avx2::<avx2::F32, Values<B, bf16>>; 2]),
            _ => None,
        };
    }
    None
}

/// The loop of a short operator over more than the first-level cache holds: see Note [Results on lines].
fn far<B: Body>(dtype: DType) -> Option<InnerLoop> {
    #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
    if const { B::IS_SHORT } && level() == Level::Avx512 {
        return match dtype {
            DType::Float32 => Some(far_avx512::<avx2::F32, Values<B>>),
            DType::Float64 => Some(far_avx512::<avx2::F64, Values<B>>),
            _ => None,
        };
    }
    let _ = dtype;
    None
}

/// The loop of an operator whose results are stored non-temporally: see Note [Streaming].
fn past<B: Body>(dtype: DType) -> Option<InnerLoop> {
    if const { B::GOES_PAST } {
        return match dtype {
            #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
            DType::Float32 if level() == Level::Avx2 => {
                Some(vector_avx2::<avx2::F32, Values<B, NonTemporal>>)
            }
            #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
            DType::Float64 if level() == Level::Avx2 => {
                Some(vector_avx2::<avx2::F64, Values<B, NonTemporal>>)
            }
            #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
            DType::BFloat16 if level() == Level::Avx2 && const { B::IS_SHORT } => {
                Some(vector_avx2::<avx2::F32, Values<B, NonTemporalBf16>>)
            }
            _ => None,
        };
    }
    None
}

/// The special loops of a predicate: there are none.
fn no_loop<B: Test>(_: DType) -> Option<InnerLoop> {
    None
}

fn no_halves<B: Test>(_: DType) -> Option<[InnerLoop; 2]> {
    None
}

/// The loop over single elements.
macro_rules! lanes {
    ($lane:ty, $sink:ty) => {
        match level() {
            #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
            Level::Avx2 | Level::Avx512 => lane_avx2::<$lane, $sink>,
            _ => lane_baseline::<$lane, $sink> as InnerLoop,
        }
    };
}

/// The kernel of an operator for a dtype, or `None` outside its domain. What the domain excludes
/// is not instantiated.
macro_rules! pick {
    ($name:ident, $operator:ident, $sink:ident, $halves:ident, $far:ident, $past:ident, $test:literal) => {
        pub(crate) fn $name<B: $operator>(dtype: DType) -> Option<Kernel> {
            use DType::*;
            let (inner_loop, compute) = match dtype {
                Float16 | BFloat16 | Float32 | Float8E5m2 | Float8E4m3fn | Float8E5m2fnuz
                | Float8E4m3fnuz => pick!(has_float, B, vectors!(F32, $sink<B>), Float32),
                Float64 => pick!(has_float, B, vectors!(F64, $sink<B>), Float64),
                Complex32 | BComplex32 | Complex64 => {
                    pick!(has_complex, B, lanes!(Cplx<f32>, $sink<B>), Complex64)
                }
                Complex128 => pick!(has_complex, B, lanes!(Cplx<f64>, $sink<B>), Complex128),
                UInt8 => pick!(has_int, B, lanes!(Int<u8>, $sink<B>), UInt8),
                Int8 => pick!(has_int, B, lanes!(Int<i8>, $sink<B>), Int8),
                Int16 => pick!(has_int, B, lanes!(Int<i16>, $sink<B>), Int16),
                Int32 => pick!(has_int, B, lanes!(Int<i32>, $sink<B>), Int32),
                Int64 => pick!(has_int, B, lanes!(Int<i64>, $sink<B>), Int64),
                Bool => pick!(has_bool, B, lanes!(Truth, $sink<B>), Bool),
                UInt16 => pick!(has_wide, B, lanes!(Int<u16>, $sink<B>), UInt16),
                UInt32 => pick!(has_wide, B, lanes!(Int<u32>, $sink<B>), UInt32),
                UInt64 => pick!(has_wide, B, lanes!(Int<u64>, $sink<B>), UInt64),
                _ => return None,
            };
            Some(Kernel {
                inner_loop,
                compute,
                halves: $halves::<B>(dtype),
                far: $far::<B>(dtype),
                past: $past::<B>(dtype),
                arity: B::ARITY,
                test: $test,
            })
        }
    };
    ($has:ident, $body:ident, $inner_loop:expr, $compute:ident) => {
        if const { $has($body::DOMAIN) } { ($inner_loop, $compute) } else { return None }
    };
}

pick!(body, Body, Values, halves, far, past, false);
pick!(test, Test, Truths, no_halves, no_loop, no_loop, true);

const fn has_float(domain: Domain) -> bool {
    use Domain::{Integral, IntegralBool, IntegralBoolWide};
    !matches!(domain, Integral | IntegralBool | IntegralBoolWide)
}

const fn has_complex(domain: Domain) -> bool {
    matches!(domain, Domain::Every | Domain::All | Domain::NoBool | Domain::FloatComplex)
}

const fn has_int(domain: Domain) -> bool {
    !matches!(domain, Domain::Float | Domain::FloatComplex)
}

const fn has_bool(domain: Domain) -> bool {
    use Domain::{All, Every, IntegralBool, IntegralBoolWide, Real, RealWide};
    matches!(domain, Every | All | Real | RealWide | IntegralBool | IntegralBoolWide)
}

const fn has_wide(domain: Domain) -> bool {
    domain.has_wide()
}
