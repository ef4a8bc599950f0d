//! Accuracy of the vector mathematics at every level, against the C library in double precision.

use super::baseline;
use super::portable;
use super::{Lanes, Level};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::special;
use crate::vec::expr::Expr;

mod c_library {
    unsafe extern "C" {
        pub(super) fn erf(x: f64) -> f64;
        pub(super) fn erfc(x: f64) -> f64;
    }
}

/// A function as an expression, so that one type can be run at every level.
trait Function {
    fn of<E: Expr>(x: E, y: E) -> E;
}

/// Names a function of numbers of any type.
macro_rules! tested {
    ($name:ident: $number:ident |$x:ident, $y:pat_param| $body:expr) => {
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn of<$number: Expr>($x: $number, $y: $number) -> $number {
                $body
            }
        }
    };
}

/// Calls a function on arrays, without the surrounding loop: slow, but the same instructions.
fn apply<L: Lanes, F: Function>(x: &[L::Elem], y: &[L::Elem], out: &mut [L::Elem]) {
    let steps = x.chunks(L::LANES).zip(y.chunks(L::LANES)).zip(out.chunks_mut(L::LANES));
    for ((x, y), out) in steps {
        // SAFETY: the chunks have as many elements as are loaded and stored, and the level was
        // found to be available.
        unsafe {
            if x.len() == L::LANES {
                F::of(L::load(x.as_ptr()), L::load(y.as_ptr())).store(out.as_mut_ptr());
            } else {
                let n = x.len();
                let result = F::of(L::load_partial(x.as_ptr(), n), L::load_partial(y.as_ptr(), n));
                result.store_partial(out.as_mut_ptr(), n);
            }
        }
    }
}

fn run32<F: Function>(level: Level, x: &[f32], y: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    match level {
        Level::Baseline => apply::<baseline::F32, F>(x, y, &mut out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => apply::<avx2::F32, F>(x, y, &mut out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => apply::<avx512::F32, F>(x, y, &mut out),
        #[cfg(not(target_arch = "x86_64"))]
        _ => unreachable!(),
    }
    out
}

fn run64<F: Function>(level: Level, x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    match level {
        Level::Baseline => apply::<baseline::F64, F>(x, y, &mut out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => apply::<avx2::F64, F>(x, y, &mut out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => apply::<avx512::F64, F>(x, y, &mut out),
        #[cfg(not(target_arch = "x86_64"))]
        _ => unreachable!(),
    }
    out
}

/// The error in units of the last place of the right result.
fn error(got: f64, want: f64, digits: i32, least: i32) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        let same_zero = got != 0.0 || got.is_sign_negative() == want.is_sign_negative();
        return if same_zero { 0.0 } else { f64::INFINITY };
    }
    if !want.is_finite() || !got.is_finite() {
        return f64::INFINITY;
    }
    let exponent = want.abs().log2().floor().max(f64::from(least)) as i32;
    // In two steps, since the unit of a small result is no number.
    (got - want).abs() * 2f64.powi(-exponent) * 2f64.powi(digits)
}

/// Special values, numbers from the function's range, and bit patterns of every kind.
fn samples(range: (f64, f64)) -> Vec<f64> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::from(f32::MAX),
        f64::from(f32::MIN_POSITIVE),
        1e-40,
        -1e-45,
        88.7,
        -103.0,
        1e10,
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..SAMPLES {
        let share = (random() >> 11) as f64 / (1u64 << 53) as f64;
        values.push(range.0 + (range.1 - range.0) * share);
        values.push(f64::from(f32::from_bits(random() as u32)));
    }
    values
}

/// Fifty times as many in a release build.
const SAMPLES: usize = if cfg!(debug_assertions) { 2_000 } else { 100_000 };

/// The vectors of processors without a file of their own give what those of the baseline give, bit for bit.
fn check_portable<F: Function>(name: &str, single: &[f32], double: &[f64]) {
    let (mut out32, mut out64) = (vec![0.0; single.len()], vec![0.0; double.len()]);
    apply::<portable::F32, F>(single, single, &mut out32);
    apply::<portable::F64, F>(double, double, &mut out64);
    for (got, want) in out32.iter().zip(run32::<F>(Level::Baseline, single, single)) {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{name} f32: {got:e}, not {want:e}");
    }
    for (got, want) in out64.iter().zip(run64::<F>(Level::Baseline, double, double)) {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{name} f64: {got:e}, not {want:e}");
    }
}

/// Checks a function of one argument at all levels: within `ulps` of the C library.
fn check<F: Function>(name: &str, reference: fn(f64) -> f64, range: (f64, f64), ulps: (f64, f64)) {
    let double = samples(range);
    let single: Vec<f32> = double.iter().map(|&x| x as f32).collect();
    check_portable::<F>(name, &single, &double);
    for level in Level::available() {
        for (&x, got) in single.iter().zip(run32::<F>(level, &single, &single)) {
            let want = reference(f64::from(x));
            let rounded = f64::from(want as f32);
            let near = if rounded.is_finite() && rounded != 0.0 { want } else { rounded };
            let off = match f64::from(got) == rounded {
                true => error(f64::from(got), rounded, 23, -126),
                false => error(f64::from(got), near, 23, -126),
            };
            assert!(off <= ulps.0, "{name}({x:e}) f32 {level:?}: {got:e}, not {want:e}: {off} ulp");
        }
        for (&x, got) in double.iter().zip(run64::<F>(level, &double, &double)) {
            let want = reference(x);
            let off = error(got, want, 52, -1022);
            assert!(off <= ulps.1, "{name}({x:e}) f64 {level:?}: {got:e}, not {want:e}: {off} ulp");
        }
    }
}

/// At all distances a lane gets what the one so far away had.
fn exchange<V: Lanes>(number: impl Fn(usize) -> V::Elem) {
    let from: Vec<V::Elem> = (0..V::LANES).map(&number).collect();
    for distance in [8, 4, 2, 1].into_iter().filter(|&distance| distance < V::LANES) {
        let mut to = vec![number(0); V::LANES];
        // SAFETY: both have as many elements as the vector, and the level is one of the processor.
        unsafe { V::load(from.as_ptr()).exchanged(distance).store(to.as_mut_ptr()) };
        let expected: Vec<V::Elem> = (0..V::LANES).map(|lane| number(lane ^ distance)).collect();
        assert!(to == expected, "{distance} of {}", V::LANES);
    }
}

#[test]
fn lanes_are_exchanged_at_every_level() {
    let (single, double) = (|lane: usize| lane as f32 + 0.5, |lane: usize| lane as f64 + 0.5);
    exchange::<portable::F32>(single);
    exchange::<portable::F64>(double);
    for level in Level::available() {
        match level {
            Level::Baseline => {
                exchange::<baseline::F32>(single);
                exchange::<baseline::F64>(double);
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                exchange::<avx2::F32>(single);
                exchange::<avx2::F64>(double);
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                exchange::<avx512::F32>(single);
                exchange::<avx512::F64>(double);
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => unreachable!(),
        }
    }
}

/// One test per function: its reference, a range, and the allowed errors.
macro_rules! functions {
    ($($name:ident = $reference:expr, $low:literal..$high:literal, ($single:literal, $double:literal);)+) => {$(
        #[test]
        fn $name() {
            tested!(Tested: E |x, _| x.$name());
            check::<Tested>(stringify!($name), $reference, ($low, $high), ($single, $double));
        }
    )+};
}

/// Rust's `acosh` loses digits near 1.
fn acosh_reference(x: f64) -> f64 {
    let t = x - 1.0;
    let near = (t + (2.0 * t + t * t).sqrt()).ln_1p();
    match x >= 1.0 {
        true if x > 1e18 => x.ln() + std::f64::consts::LN_2,
        true => near,
        false => f64::NAN,
    }
}

fn asinh_reference(x: f64) -> f64 {
    let a = x.abs();
    let far = a.ln() + std::f64::consts::LN_2;
    let near = (a + a * a / (1.0 + (a * a + 1.0).sqrt())).ln_1p();
    if a > 1e18 { far } else { near }.copysign(x)
}

functions! {
    exp = f64::exp, -104.0..90.0, (1.0, 2.0);
    exp2 = f64::exp2, -150.0..130.0, (1.0, 2.0);
    expm1 = f64::exp_m1, -20.0..90.0, (1.5, 2.0);
    log = f64::ln, 0.0..10.0, (1.2, 2.0);
    log1p = f64::ln_1p, -1.0..10.0, (1.0, 1.0);
    log2 = f64::log2, 0.0..10.0, (0.6, 2.0);
    log10 = f64::log10, 0.0..10.0, (0.6, 2.0);
    sqrt = f64::sqrt, 0.0..10.0, (0.0, 0.0);
    sin = f64::sin, -100.0..100.0, (1.6, 2.0);
    cos = f64::cos, -100.0..100.0, (1.6, 2.0);
    tan = f64::tan, -100.0..100.0, (0.6, 2.5);
    asin = f64::asin, -1.0..1.0, (0.6, 2.0);
    acos = f64::acos, -1.0..1.0, (1.5, 2.0);
    atan = f64::atan, -10.0..10.0, (1.6, 2.0);
    sinh = f64::sinh, -10.0..10.0, (0.6, 2.0);
    cosh = f64::cosh, -10.0..10.0, (0.6, 2.0);
    tanh = f64::tanh, -3.0..3.0, (2.4, 3.0);
    asinh = asinh_reference, -10.0..10.0, (0.6, 2.0);
    acosh = acosh_reference, 1.0..10.0, (0.6, 2.0);
    atanh = |x| x.abs().atanh().copysign(x), -1.0..1.0, (0.6, 2.0);
    // SAFETY: the C library's functions take any number.
    erf = |x| unsafe { c_library::erf(x) }, -4.0..4.0, (2.0, 2.0);
    // SAFETY: as above.
    erfc = |x| unsafe { c_library::erfc(x) }, -4.0..10.0, (0.6, 3.0);
    floor = f64::floor, -10.0..10.0, (0.0, 0.0);
    ceil = f64::ceil, -10.0..10.0, (0.0, 0.0);
    trunc = f64::trunc, -10.0..10.0, (0.0, 0.0);
    round = f64::round_ties_even, -10.0..10.0, (0.0, 0.0);
    abs = f64::abs, -10.0..10.0, (0.0, 0.0);
    reciprocal = f64::recip, -10.0..10.0, (0.5, 0.5);
    erfinv = special::error::erfinv, -1.0..1.0, (0.6, 8.0);
    // The references are sums of power series, good to the fourteenth digit.
    i0 = special::bessel::i0, -30.0..30.0, (0.6, 64.0);
    i0e = special::bessel::i0e, -30.0..30.0, (0.6, 64.0);
    i1 = special::bessel::i1, -30.0..30.0, (0.6, 64.0);
    i1e = special::bessel::i1e, -30.0..30.0, (0.6, 64.0);
    lgamma = special::gamma::lgamma, 0.0..40.0, (0.6, 6.0);
    digamma = special::gamma::digamma, 2.0..40.0, (0.6, 64.0);
    ndtri = special::error::ndtri, 0.0..1.0, (0.6, 0.0);
    // As many more as there are digits lost next to their zeros.
    j0 = special::bessel::j0, -40.0..40.0, (2.0, 0.0);
    j1 = special::bessel::j1, -40.0..40.0, (2.0, 0.0);
    y0 = special::bessel::y0, 0.0..40.0, (2.0, 0.0);
    y1 = special::bessel::y1, 0.0..40.0, (2.0, 0.0);
    sigmoid = |x| 1.0 / (1.0 + (-x).exp()), -80.0..80.0, (2.5, 2.5);
}

#[test]
fn normal() {
    tested!(Distribution: E |x, _| x.normal()[0]);
    tested!(Above: E |x, _| E::lit(1.0) + x.normal_cdf());
    fn reference(x: f64) -> f64 {
        // SAFETY: the C library's functions take any number.
        0.5 * unsafe { c_library::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) }
    }
    check::<Above>("1 + normal", |x| 1.0 + reference(x), (-10.0, 10.0), (2.0, 1.5));
    // The left tail has digits of its own where it is no difference from one.
    let x: Vec<f32> = (0..=129).map(|i| -0.1 * i as f32).collect();
    for level in Level::available().filter(|&level| level != Level::Avx512) {
        for (&x, got) in x.iter().zip(run32::<Distribution>(level, &x, &x)) {
            let off = error(got.into(), reference(x.into()), 23, -126);
            assert!(off <= 8.0, "normal({x}) {level:?}: {off} ulp");
        }
    }
}

#[test]
fn bell() {
    tested!(Tested: E |x, _| E::lit(1.0) + x.normal()[1]);
    check::<Tested>("1 + bell", |x| 1.0 + (-0.5 * x * x).exp(), (-10.0, 10.0), (1.5, 1.5));
}

/// Checks a function of two arguments at all levels.
fn check2<F: Function>(name: &str, reference: fn(f64, f64) -> f64, ulps: (f64, f64)) {
    let special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, -2.5, f64::INFINITY];
    let special = special.iter().copied().chain([f64::NEG_INFINITY, f64::NAN, 1e30, 1e-30, 7.0]);
    let special: Vec<f64> = special.collect();
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for &a in &special {
        for &b in &special {
            x.push(a);
            y.push(b);
        }
    }
    let random = samples((-8.0, 8.0));
    let count = SAMPLES.min(random.len() / 2);
    x.extend(&random[18..18 + count]);
    y.extend(&random[random.len() - count..]);
    let singles = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<_>>();
    let (x32, y32) = (singles(&x), singles(&y));
    for level in Level::available() {
        for (i, got) in run32::<F>(level, &x32, &y32).into_iter().enumerate() {
            let want = reference(f64::from(x32[i]), f64::from(y32[i]));
            let off = error(f64::from(got), f64::from(want as f32), 23, -126);
            let (a, b) = (x32[i], y32[i]);
            assert!(off <= ulps.0, "{name}({a:e}, {b:e}) f32 {level:?}: {got:e}, not {want:e}");
        }
        for (i, got) in run64::<F>(level, &x, &y).into_iter().enumerate() {
            let want = reference(x[i], y[i]);
            let off = error(got, want, 52, -1022);
            let (a, b) = (x[i], y[i]);
            assert!(off <= ulps.1, "{name}({a:e}, {b:e}) f64 {level:?}: {got:e}, not {want:e}");
        }
    }
}

macro_rules! binary_functions {
    ($($name:ident = $reference:expr, ($single:literal, $double:literal);)+) => {$(
        #[test]
        fn $name() {
            tested!(Tested: E |x, y| x.$name(y));
            check2::<Tested>(stringify!($name), $reference, ($single, $double));
        }
    )+};
}

/// Python's floor division.
fn floor_divide_reference(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0f64.copysign(a / b);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

binary_functions! {
    pow = f64::powf, (1.0, 1.0);
    atan2 = f64::atan2, (1.8, 2.0);
    fmod = |a, b| a % b, (0.0, 0.0);
    hypot = f64::hypot, (1.0, 2.0);
    max = |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else if a > b { a } else { b }, (0.0, 0.0);
    copysign = f64::copysign, (0.0, 0.0);
    floor_divide = floor_divide_reference, (1.0, 0.0);
    zeta = special::zeta::zeta, (1.0, 0.0);
}

/// One test per polynomial: as the scalar function, in neighbouring lanes of different degrees.
macro_rules! polynomials {
    ($($name:ident)+) => {$(
        #[test]
        fn $name() {
            tested!(Tested: E |x, y| x.$name(y));
            let mut x = samples((-2.0, 2.0));
            x.truncate(1_000);
            for most in [3.0, 12.0, 80.0] {
                let degree = |i: usize| ((i * 7) % 11) as f64 / 10.0 * (most + 2.0) - 2.0;
                let y: Vec<f64> = (0..x.len()).map(degree).collect();
                for level in Level::available() {
                    for (i, got) in run64::<Tested>(level, &x, &y).into_iter().enumerate() {
                        let want = special::polynomials::$name(x[i], y[i]);
                        let off = error(got, want, 52, -1022);
                        assert!(off == 0.0, "{level:?} {}, {}: {got}, not {want}", x[i], y[i]);
                    }
                }
            }
        }
    )+};
}

polynomials! {
    chebyshev_t chebyshev_u chebyshev_v shifted_chebyshev_w hermite_h hermite_he laguerre_l
    legendre_p
}

#[test]
fn nextafter() {
    tested!(Tested: E |x, y| x.nextafter(y));
    let x: Vec<f32> = samples((-2.0, 2.0)).iter().map(|&x| x as f32).collect();
    let mut y = x.clone();
    y.rotate_left(7);
    // Each number is its own neighbour, too.
    let (x, y) = ([x.clone(), x.clone()].concat(), [y, x].concat());
    for level in Level::available() {
        for (i, got) in run32::<Tested>(level, &x, &y).into_iter().enumerate() {
            let (x, y) = (x[i], y[i]);
            let want = match x.partial_cmp(&y) {
                None => f32::NAN,
                Some(std::cmp::Ordering::Equal) => y,
                Some(std::cmp::Ordering::Less) => x.next_up(),
                Some(std::cmp::Ordering::Greater) => x.next_down(),
            };
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "nextafter({x:e}, {y:e}) {level:?}: {got:e}, not {want:e}");
        }
    }
}

#[test]
fn bfloat16_is_rounded_as_one_number_is() {
    use super::convert::Conversion;
    use corten_core::{DType, bf16};
    let mut bits: Vec<u32> = (0..1 << 17).map(|i: u32| i.wrapping_mul(32_771)).collect();
    bits.extend([
        0x7f80_0000,
        0x7f80_0001,
        0xff80_0000,
        0xffff_ffff,
        0x7f7f_ffff,
        0x8000,
        0x1_8000,
    ]);
    let mut halves = vec![bf16::ZERO; bits.len()];
    // SAFETY: as many elements on either side.
    unsafe {
        let conversion = Conversion::new(DType::Float32, DType::BFloat16);
        conversion.run(bits.as_ptr().cast(), halves.as_mut_ptr().cast(), bits.len());
    }
    for (&bits, half) in bits.iter().zip(&halves) {
        assert_eq!(half.to_bits(), bf16::from_f32(f32::from_bits(bits)).to_bits(), "{bits:#x}");
    }
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let mut singles = vec![0u32; halves.len()];
    // SAFETY: as many elements on either side.
    unsafe {
        let conversion = Conversion::new(DType::BFloat16, DType::Float32);
        conversion.run(halves.as_ptr().cast(), singles.as_mut_ptr().cast(), halves.len());
    }
    for (&half, &single) in halves.iter().zip(&singles) {
        let wanted = bf16::from_bits(half).to_f32();
        let found = f32::from_bits(single);
        assert!(wanted.to_bits() == single || wanted.is_nan() && found.is_nan(), "{half:#x}");
    }
}
