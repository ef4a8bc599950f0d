//! Samplers without a fast path.

use super::fill::{draws_nothing, fill, fill_with, memory_order, with_generator};
use super::normal::normal_pair;
use crate::kernels::support::is_shape_only;
use crate::rows::loops::{compiled, multiply_add};
use corten_core::{
    Access, AccessSet, DType, Element, Generator, GeneratorGuard, Result, Scalar, bail, bf16, cast,
    ensure, f16, match_dtype,
};
use corten_ops::meta::cpp_name;
use corten_ops::{Tensor, op};

/// A uniform number over `[0, 1)` with 24 random bits.
pub(super) fn uniform24(generator: &mut GeneratorGuard<'_>) -> f32 {
    (generator.random() & 0x00FF_FFFF) as f32 * (1.0 / 16_777_216.0)
}

/// A uniform number over `[0, 1)` with 53 random bits.
pub(super) fn uniform53(generator: &mut GeneratorGuard<'_>) -> f64 {
    (generator.random64() & ((1 << 53) - 1)) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Words that are drawn at a time.
const WORDS: usize = 512;

/// Fills with numbers as [`uniform24`] draws them.
pub(super) fn fill_uniform24(out: &mut [f32], generator: &mut GeneratorGuard<'_>) {
    let mut words = [0; WORDS];
    for chunk in out.chunks_mut(WORDS) {
        let words = &mut words[..chunk.len()];
        generator.fill_random(words);
        compiled(|| {
            for (slot, &word) in chunk.iter_mut().zip(&*words) {
                *slot = (word & 0x00FF_FFFF) as i32 as f32 * (1.0 / 16_777_216.0);
            }
        });
    }
}

/// Fills with numbers as [`uniform53`] draws them.
pub(super) fn fill_uniform53(out: &mut [f64], generator: &mut GeneratorGuard<'_>) {
    let mut words = [0; WORDS];
    for chunk in out.chunks_mut(WORDS / 2) {
        let words = &mut words[..2 * chunk.len()];
        generator.fill_random(words);
        compiled(|| {
            for (slot, pair) in chunk.iter_mut().zip(words.as_chunks::<2>().0) {
                // Both parts and their sum are exact.
                let high = f64::from((pair[0] & 0x001F_FFFF) as i32) * 4_294_967_296.0;
                *slot = (high + f64::from(pair[1])) * (1.0 / 9_007_199_254_740_992.0);
            }
        });
    }
}

/// Dtypes that a uniform number can be drawn in.
pub(super) trait Uniform: Element {
    fn uniform(generator: &mut GeneratorGuard<'_>, from: f64, to: f64) -> Self;

    /// Fills with numbers in their order.
    fn fill(out: &mut [Self], generator: &mut GeneratorGuard<'_>, from: f64, to: f64) {
        out.iter_mut().for_each(|slot| *slot = Self::uniform(generator, from, to));
    }
}

impl Uniform for f64 {
    fn uniform(generator: &mut GeneratorGuard<'_>, from: f64, to: f64) -> Self {
        uniform53(generator).mul_add(to - from, from)
    }

    fn fill(out: &mut [Self], generator: &mut GeneratorGuard<'_>, from: f64, to: f64) {
        fill_uniform53(out, generator);
        multiply_add(out, to - from, from);
    }
}

impl Uniform for f32 {
    fn uniform(generator: &mut GeneratorGuard<'_>, from: f64, to: f64) -> Self {
        let (from, to) = (from as f32, to as f32);
        uniform24(generator).mul_add(to - from, from)
    }

    fn fill(out: &mut [Self], generator: &mut GeneratorGuard<'_>, from: f64, to: f64) {
        let (from, to) = (from as f32, to as f32);
        fill_uniform24(out, generator);
        multiply_add(out, to - from, from);
    }
}

macro_rules! uniform_reduced {
    ($($type:ty),+) => {$(
        impl Uniform for $type {
            fn uniform(generator: &mut GeneratorGuard<'_>, from: f64, to: f64) -> Self {
                let rounded = <$type>::from_f32(f32::uniform(generator, from, to));
                // Rounding may reach the excluded upper bound.
                if rounded == <$type>::from_f64(to) { <$type>::from_f64(from) } else { rounded }
            }
        }
    )+};
}

uniform_reduced!(f16, bf16);

/// Fills with numbers from the uniform distribution over `[from, to)`.
///
/// # Errors
/// `Runtime` when `from > to` or the range exceeds the dtype's.
pub fn uniform_(
    self_: &Tensor,
    from: f64,
    to: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        uniform_(&op::view_as_real(self_)?, from, to, generator)?;
        return Ok(self_.clone());
    }
    ensure!(
        from <= to,
        Runtime,
        "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
    );
    let limit = max_finite(self_.dtype());
    ensure!(
        to - from <= limit,
        Runtime,
        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={to} and \
         from={from} which result in to-from to exceed the limit",
        self_.dtype().type_name()
    );
    with_generator(generator, |rng| match self_.dtype() {
        DType::Float32 => fill_with(self_, |out: &mut [f32]| f32::fill(out, rng, from, to)),
        DType::Float64 => fill_with(self_, |out: &mut [f64]| f64::fill(out, rng, from, to)),
        DType::Float16 => fill_with(self_, |out: &mut [f16]| f16::fill(out, rng, from, to)),
        DType::BFloat16 => fill_with(self_, |out: &mut [bf16]| bf16::fill(out, rng, from, to)),
        other => not_implemented("check_uniform_bounds", other),
    })?;
    Ok(self_.clone())
}

fn not_implemented<T>(kernel: &str, dtype: DType) -> Result<T> {
    bail!(NotImplemented, "\"{kernel}\" not implemented for '{}'", dtype.type_name())
}

fn max_finite(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => f16::MAX.to_f64(),
        DType::BFloat16 => bf16::MAX.to_f64(),
        DType::Float32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// The largest integer up to which every integer is a value of the dtype, and the smallest one.
fn integer_range(dtype: DType) -> Option<(i128, i128)> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::UInt8 => (0, 255),
        DType::Int8 => (-128, 127),
        DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DType::UInt16 => (0, u16::MAX.into()),
        DType::UInt32 => (0, u32::MAX.into()),
        DType::UInt64 => (0, u64::MAX.into()),
        DType::Float16 => (-65_504, 65_504),
        DType::BFloat16 | DType::Float32 | DType::Float64 => (i128::MIN, i128::MAX),
        _ => return None,
    })
}

/// The exclusive upper bound of `random_()` for floating-point dtypes is the mantissa's range.
fn random_range(dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::Bool => 2,
        DType::UInt8 => 1 << 8,
        DType::Int8 => 1 << 7,
        DType::Int16 => 1 << 15,
        DType::Int32 => 1 << 31,
        DType::Int64 => 1 << 63,
        DType::UInt16 => 1 << 16,
        DType::UInt32 => 1 << 32,
        DType::Float16 => (1 << 11) + 1,
        DType::BFloat16 => (1 << 8) + 1,
        DType::Float32 => (1 << 24) + 1,
        DType::Float64 => (1 << 53) + 1,
        _ => return None,
    })
}

/// From this range on a sample takes 64 random bits.
const WIDE_RANGE: u64 = 1 << 28;

/// Fills with whole words, over the range of 64 bits.
fn fill_wide(
    self_: &Tensor,
    generator: Option<&Generator>,
    mut sample: impl FnMut(u64) -> i64,
) -> Result<Tensor> {
    with_generator(
        generator,
        |rng| match_dtype!(self_.dtype(), "random_", AllNoComplex, T => fill(self_, || cast::<i64, T>(sample(rng.random64())))),
    )?;
    Ok(self_.clone())
}

/// Fills with integers from `from` on, of a range that 32 random bits are enough for.
fn fill_narrow(
    self_: &Tensor,
    generator: Option<&Generator>,
    from: i64,
    range: u64,
) -> Result<Tensor> {
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), "random_", AllNoComplex, T => fill_with(self_, |out: &mut [T]| {
            let (mut words, mut offsets) = ([0; WORDS], [0; WORDS]);
            for chunk in out.chunks_mut(WORDS) {
                let words = &mut words[..chunk.len()];
                rng.fill_random(words);
                compiled(|| remainders(&mut offsets, words, range));
                for (slot, &offset) in chunk.iter_mut().zip(&offsets) {
                    *slot = cast::<i64, T>(from.wrapping_add(i64::from(offset)));
                }
            }
        }))
    })?;
    Ok(self_.clone())
}

/// The remainders of words by a number of at most 32 bits, in floating point: words, multiples and
/// remainders are exact, and a quotient that is off by one shows in the sign.
#[inline(always)]
fn remainders(out: &mut [u32; WORDS], words: &[u32], range: u64) {
    // The low half of such a sum is the integer that was added.
    const UNIT: f64 = 4_503_599_627_370_496.0;
    let (range, reciprocal) = (range as f64, 1.0 / range as f64);
    for (out, &word) in out.iter_mut().zip(words) {
        let word = f64::from_bits(UNIT.to_bits() | u64::from(word)) - UNIT;
        let quotient = (word * reciprocal + UNIT) - UNIT;
        let rest = word - quotient * range;
        let rest = if rest < 0.0 { rest + range } else { rest };
        *out = (rest + UNIT).to_bits() as u32;
    }
}

/// Fills with integers over the range of the dtype.
///
/// # Errors
/// `NotImplemented` for a dtype without integers.
pub fn random_(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = self_.dtype();
    if draws_nothing(self_) {
        return Ok(self_.clone());
    }
    if dtype == DType::UInt64 {
        return fill_wide(self_, generator, |word| word as i64);
    }
    let Some(range) = random_range(dtype) else {
        return not_implemented("random_", dtype);
    };
    match matches!(dtype, DType::Int64 | DType::Float64) {
        true => fill_wide(self_, generator, |word| (word % range) as i64),
        false => fill_narrow(self_, generator, 0, range),
    }
}

/// Fills with integers from `[from, to)`; without `to`, up to the largest of the dtype.
///
/// # Errors
/// `Runtime` when the range is empty or outside of the dtype's.
pub fn random_from_(
    self_: &Tensor,
    from: i64,
    to: Option<i64>,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let dtype = self_.dtype();
    let Some((low, high)) = integer_range(dtype) else {
        bail!(
            Runtime,
            "check_random_bounds handles only integral, floating-point and boolean types"
        );
    };
    let end = match to {
        Some(to) => {
            ensure!(
                from < to,
                Runtime,
                "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
            );
            i128::from(to)
        }
        None if from == i64::MIN => {
            return fill_wide(self_, generator, |word| word as i64);
        }
        None => default_end(dtype, high),
    };
    check_bound("from", i128::from(from), low, high, dtype)?;
    check_bound("to - 1", end - 1, low, high, dtype)?;
    let range = (end - i128::from(from)) as u64;
    if (1..WIDE_RANGE).contains(&range) {
        return fill_narrow(self_, generator, from, range);
    }
    // The range of all words has no number of its own.
    let offset = |word: u64| word.checked_rem(range).unwrap_or(word) as i64;
    fill_wide(self_, generator, |word| offset(word).wrapping_add(from))
}

fn default_end(dtype: DType, high: i128) -> i128 {
    match random_range(dtype) {
        Some(range) if dtype.is_floating_point() => i128::from(range),
        _ => high + 1,
    }
}

fn check_bound(name: &str, value: i128, low: i128, high: i128, dtype: DType) -> Result<()> {
    ensure!(
        (low..=high).contains(&value),
        Runtime,
        "{name} is out of bounds for {}",
        cpp_name(dtype)
    );
    let Some(exact) = exact_bits(dtype).filter(|bits| value.unsigned_abs() > 1 << bits) else {
        return Ok(());
    };
    corten_core::warn(format!(
        "{name} is out of bounds [-(2^{exact}), 2^{exact}]. Due to precision limitations {} can \
         support discrete uniform distribution only within this range. This warning will become \
         an error in version 1.7 release, please fix the code in advance",
        cpp_name(dtype)
    ));
    Ok(())
}

/// Up to which power of two the dtype has all integers.
fn exact_bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::Float16 => Some(11),
        DType::BFloat16 => Some(8),
        DType::Float32 => Some(24),
        DType::Float64 => Some(53),
        _ => None,
    }
}

/// Fills with integers from `[0, to)`.
///
/// # Errors
/// As [`random_from_`].
pub fn random_to_(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<Tensor> {
    random_from_(self_, 0, Some(to), generator)
}

fn check_probability(operator: &str, p: f64) -> Result<()> {
    ensure!(
        (0.0..=1.0).contains(&p),
        Runtime,
        "{operator} expects p to be in [0, 1], but got p={p}"
    );
    Ok(())
}

/// Fills with ones of probability `p` and zeros.
///
/// # Errors
/// `Runtime` when `p` is no probability.
pub fn bernoulli_float_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    check_probability("bernoulli_", p)?;
    if draws_nothing(self_) {
        return Ok(self_.clone());
    }
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), "bernoulli_scalar_cpu_", AllNoComplex, T => {
            fill_with(self_, |out: &mut [T]| flip_coins(out, p, rng))
        })
    })?;
    Ok(self_.clone())
}

/// Fills with ones of probability `p` and zeros.
fn flip_coins<T: Element>(out: &mut [T], p: f64, rng: &mut GeneratorGuard<'_>) {
    let [zero, one] = [false, true].map(|side| T::from_scalar(Scalar::Bool(side)));
    fill_from_uniform(out, rng, |drawn| if drawn < p { one } else { zero });
}

/// Fills with what is made of uniform numbers over `[0, 1)`, which are drawn many at a time.
fn fill_from_uniform<T: Element>(
    out: &mut [T],
    rng: &mut GeneratorGuard<'_>,
    make: impl Fn(f64) -> T,
) {
    let mut drawn = [0.0; WORDS / 2];
    for chunk in out.chunks_mut(drawn.len()) {
        let drawn = &mut drawn[..chunk.len()];
        fill_uniform53(drawn, rng);
        for (slot, &drawn) in chunk.iter_mut().zip(&*drawn) {
            *slot = make(drawn);
        }
    }
}

/// Fills with ones, each with the probability that `p` gives, and zeros.
///
/// # Errors
/// `NotImplemented` for probabilities that are not floating-point, `Runtime` when an element of `p`
/// is no probability or `p` does not expand to the shape.
pub fn bernoulli_tensor_(
    self_: &Tensor,
    p: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if draws_nothing(self_) {
        op::expand(p, &self_.sizes(), false)?;
        return Ok(self_.clone());
    }
    if !p.dtype().is_floating_point() {
        return not_implemented("bernoulli_tensor_cpu_p_", p.dtype());
    }
    let expanded = op::expand(p, &self_.sizes(), false)?;
    if is_shape_only(self_) {
        return Ok(self_.clone());
    }
    let probabilities = op::permute(&expanded, &memory_order(self_))?;
    let double = p.dtype() == DType::Float64;
    // Probabilities that lie where the results go are read from a copy.
    let copied = self_.is_alias_of(p);
    let wide = op::contiguous(
        &op::to_dtype(&probabilities, DType::Float64, false, copied, None)?,
        corten_core::MemoryFormat::Contiguous,
    )?;
    let set = AccessSet::acquire(&[(&wide, Access::Read)])?;
    let values = set.read::<f64>(0)?;
    if let Some(bad) = values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        bail!(Runtime, "Expected p_in >= 0 && p_in <= 1 to be true, but got p={bad}");
    }
    let mut next = values.iter();
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), "bernoulli_tensor_cpu_self_", AllNoComplex, T => fill(self_, || {
            let p = next.next().copied().unwrap_or(0.0);
            let drawn = match double {
                true => uniform53(rng) < p,
                false => f64::from(uniform24(rng)) < p,
            };
            T::from_scalar(Scalar::Bool(drawn))
        }))
    })?;
    Ok(self_.clone())
}

fn fill_floats(
    self_: &Tensor,
    kernel: &'static str,
    generator: Option<&Generator>,
    make: impl Fn(f64) -> f64,
) -> Result<Tensor> {
    if draws_nothing(self_) {
        return Ok(self_.clone());
    }
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), kernel, Float, T => fill_with(self_, |out: &mut [T]| {
            fill_from_uniform(out, rng, |drawn| cast::<f64, T>(make(drawn)));
        }))
    })?;
    Ok(self_.clone())
}

/// Fills with numbers from the exponential distribution of rate `lambd`.
///
/// # Errors
/// `Runtime` unless the rate is positive.
pub fn exponential_(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<Tensor> {
    ensure!(lambd > 0.0, Runtime, "exponential_ expects lambda > 0.0, but found lambda={lambd}");
    ensure!(
        draws_nothing(self_) || self_.dtype().is_floating_point(),
        Runtime,
        "Exponential distribution is a continuous probability distribution. dtype must be a \
         floating point but you specified {}",
        self_.dtype().type_name()
    );
    fill_floats(self_, "exponential_cpu", generator, |drawn| -1.0 / lambd * (-drawn).ln_1p())
}

/// Fills with the number of trials until the first success.
///
/// # Errors
/// `Runtime` unless `0 < p < 1`.
pub fn geometric_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    ensure!(0.0 < p && p < 1.0, Runtime, "geometric_ expects p to be in (0, 1), but got p={p}");
    if draws_nothing(self_) {
        return Ok(self_.clone());
    }
    if self_.dtype() == DType::Bool {
        return not_implemented("geometric_cpu", DType::Bool);
    }
    let failure = (-p).ln_1p();
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), "geometric_cpu", AllNoComplex, T => fill_with(self_, |out: &mut [T]| {
            fill_from_uniform(out, rng, |drawn| cast::<f64, T>((drawn.ln() / failure).ceil()));
        }))
    })?;
    Ok(self_.clone())
}

/// Fills with numbers from the Cauchy distribution.
///
/// # Errors
/// `Runtime` unless `sigma` is positive.
pub fn cauchy_(
    self_: &Tensor,
    median: f64,
    sigma: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    ensure!(sigma > 0.0, Runtime, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    ensure!(
        self_.dtype().is_floating_point(),
        Runtime,
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating \
         point but you specified {}",
        cpp_name(self_.dtype())
    );
    fill_floats(self_, "cauchy_cpu", generator, |drawn| {
        median + sigma * (std::f64::consts::PI * (drawn - 0.5)).tan()
    })
}

/// Fills with numbers whose logarithm is normally distributed.
///
/// # Errors
/// `Runtime` unless `std` is positive.
pub fn log_normal_(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    ensure!(std > 0.0, Runtime, "log_normal_ expects std > 0.0, but found std={std}");
    if draws_nothing(self_) {
        return Ok(self_.clone());
    }
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), "log_normal_cpu", Float, T => fill(self_, || {
            cast::<f64, T>((normal_pair(rng) * std + mean).exp())
        }))
    })?;
    Ok(self_.clone())
}
