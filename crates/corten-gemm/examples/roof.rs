//! GEMM beside the roofline of the processor, for floats and int8: `cargo run --release -p corten-gemm
//! --example roof`. With the argument `machine` it prints the peak rates of processor and memory, one
//! `name value` per line, for `benches/roofline.py`.
//!
//! Samples of products and of bare multiplications alternate and take about as long, so that a slow
//! moment of the machine affects both, and the best ones are compared.
#![allow(clippy::print_stdout)]

use corten_core::{DType, Reader, TensorBase, Writer};
use corten_gemm::{
    Accumulate, Bf16, F16, Int8, Isa, MixedPrecision, Number, Plan, View, gemm, gemm_int8,
    gemm_mixed,
};
use std::hint::black_box;
use std::num::Wrapping;
use std::time::Instant;

const ROUNDS: usize = 60;

/// Steps of multiplications, and about how many operations these are.
const STEPS: usize = 2000;
const OPERATIONS: usize = STEPS * 2 * 16 * 20;

/// A sample repeats a product for about so many operations.
const SAMPLE: usize = 40_000_000;

/// Rows and columns of the result, depth, and which operands are column-major.
type Case = ([usize; 3], [bool; 2]);

const CASES: [Case; 9] = [
    ([64, 64, 64], [false, false]),
    ([128, 128, 128], [false, false]),
    ([256, 256, 256], [false, false]),
    ([512, 512, 512], [false, false]),
    ([512, 512, 512], [false, true]),
    ([512, 512, 512], [true, false]),
    ([1024, 1024, 1024], [false, false]),
    ([64, 512, 512], [false, true]),
    ([64, 1024, 288], [false, false]),
];

/// Skinny products, whose large operand is read from memory or from a cache.
const SKINNY: [Case; 22] = [
    ([1, 512, 512], [false, true]),
    ([1, 512, 512], [false, false]),
    ([1, 2048, 2048], [false, true]),
    ([1, 2048, 2048], [false, false]),
    ([1, 6000, 6000], [false, true]),
    ([1, 6000, 6000], [false, false]),
    ([512, 1, 512], [false, true]),
    ([2, 2048, 2048], [false, true]),
    ([2, 2048, 2048], [false, false]),
    ([4, 2048, 2048], [false, true]),
    ([4, 2048, 2048], [false, false]),
    ([8, 512, 512], [false, true]),
    ([8, 512, 512], [false, false]),
    ([512, 8, 512], [false, false]),
    ([16, 512, 512], [false, true]),
    ([16, 512, 512], [false, false]),
    ([8, 2048, 2048], [false, true]),
    ([8, 2048, 2048], [false, false]),
    ([16, 2048, 2048], [false, false]),
    ([100_000, 1, 4], [false, false]),
    ([100_000, 4, 16], [false, false]),
    ([4, 16, 100_000], [true, false]),
];

/// More products of int8.
const INT8: [Case; 11] = [
    ([32, 4096, 1024], [false, false]),
    ([32, 4096, 1024], [false, true]),
    ([4096, 32, 1024], [false, false]),
    ([1, 4096, 4096], [false, false]),
    ([1, 4096, 4096], [false, true]),
    ([8, 4096, 4096], [false, false]),
    ([8, 4096, 4096], [false, true]),
    ([1, 4095, 4095], [false, true]),
    ([8, 4095, 4095], [false, true]),
    ([4096, 1, 4096], [false, false]),
    ([4096, 8, 4096], [false, false]),
];

fn main() -> corten_core::Result<()> {
    let level = level();
    let only = std::env::args().nth(1).unwrap_or_default();
    if only == "machine" {
        return machine(level);
    }
    let wanted = |case: &&Case| format!("{case:?}").contains(&only);
    println!("{level:?}: GFLOP/s, and the share of the peak rate");
    for (shape, column_major) in CASES.iter().filter(wanted) {
        let single = run::<f32>(level, *shape, *column_major, 1.0);
        let double = run::<f64>(level, *shape, *column_major, 0.5);
        println!("{shape:?} column-major {column_major:?}: f32 {single}, f64 {double}");
    }
    println!("16-bit floats");
    for (shape, column_major) in CASES.iter().chain(&SKINNY).filter(wanted) {
        let bf16 = run_mixed(level, *shape, *column_major, Bf16(0x3f80), level);
        let f16 = run_mixed(level, *shape, *column_major, F16(0x3c00), Isa::Avx512);
        println!("{shape:?} column-major {column_major:?}: bf16 {bf16:#}, f16 {f16:#}");
    }
    println!("int8");
    for (shape, column_major) in CASES.iter().chain(&INT8).chain(&SKINNY).filter(wanted) {
        let signed = run_int8(level, *shape, *column_major, 1i8);
        let unsigned = run_int8(level, *shape, *column_major, 1u8);
        println!("{shape:?} column-major {column_major:?}: i8 {signed:#}, u8 {unsigned:#}");
    }
    println!("with the share of the read bandwidth");
    for (shape, column_major) in SKINNY.iter().filter(wanted) {
        let single = run::<f32>(level, *shape, *column_major, 1.0);
        let double = run::<f64>(level, *shape, *column_major, 0.5);
        println!("{shape:?} column-major {column_major:?}: f32 {single:#}, f64 {double:#}");
    }
    Ok(())
}

/// Billions per second: operations on `f32` and `bf16`, and bytes of sums of two arrays written to a
/// third, by the bytes of all three. The arrays are allocated as tensors are, on huge pages.
fn machine(level: Isa) -> corten_core::Result<()> {
    let singles = level.min(Isa::Avx512);
    println!("f32 {:.1}", best_rate(|| multiply(singles, STEPS)));
    println!("bf16 {:.1}", best_rate(|| multiply(level, STEPS)));
    for exponent in 14..=29 {
        let bytes = 1usize << exponent;
        let [a, b, c] = [(); 3].map(|()| TensorBase::empty(&[bytes as i64 / 12], DType::Float32));
        let (a, b, c) = (a?, b?, c?);
        Writer::<f32>::new(&a)?.fill(1.0);
        Writer::<f32>::new(&b)?.fill(2.0);
        let (a, b, mut c) = (Reader::new(&a)?, Reader::new(&b)?, Writer::new(&c)?);
        println!("{bytes} {:.2}", best_rate(|| add(level, &mut c, &a, &b)));
    }
    Ok(())
}

/// Billions per second, the best of some samples. These take a hundredth of a second, as those of
/// kernels do, since the clock changes meanwhile.
fn best_rate(mut work: impl FnMut() -> usize) -> f64 {
    work();
    let start = Instant::now();
    work();
    let times = 0.01 / start.elapsed().as_secs_f64().max(1e-9);
    let rates = (0..20).map(|_| sample((times as usize).max(1), &mut work));
    rates.fold(0.0, f64::max) / 1e9
}

/// Adds two arrays, and returns how many bytes that reads and writes.
fn add(level: Isa, c: &mut [f32], a: &[f32], b: &[f32]) -> usize {
    match level {
        // SAFETY: the level was detected.
        #[cfg(target_arch = "x86_64")]
        _ if level >= Isa::Avx512 => unsafe { x86::add_avx512(c, a, b) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::add_avx2(c, a, b) },
        _ => add_floats(c, a, b),
    }
    black_box(&c);
    3 * size_of_val(c)
}

#[inline(always)]
fn add_floats(c: &mut [f32], a: &[f32], b: &[f32]) {
    c.iter_mut().zip(a).zip(b).for_each(|((c, a), b)| *c = a + b);
}

/// The best samples of a product and of its roofline, per second.
#[derive(Default)]
struct Best {
    operations: f64,
    most_operations: f64,
    bytes: f64,
    most_bytes: f64,
}

impl std::fmt::Display for Best {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = 100.0 * self.operations / self.most_operations;
        write!(f, "{:.0} ({part:.0} %)", self.operations / 1e9)?;
        if f.alternate() {
            let part = 100.0 * self.bytes / self.most_bytes;
            write!(f, " {:.0} GB/s ({part:.0} %)", self.bytes / 1e9)?;
        }
        Ok(())
    }
}

/// The best of a product, beside a share of the peak rate of `f32` multiplications.
fn run<E: Number + From<f32>>(
    level: Isa,
    shape: [usize; 3],
    column_major: [bool; 2],
    part: f64,
) -> Best {
    let level_of_roof = level.min(Isa::Avx512);
    let roof = |times| part * sample(times, || multiply(level_of_roof, STEPS));
    measure(
        level,
        shape,
        column_major,
        (E::from(1.0), E::from(1.0), E::from(1.0)),
        roof,
        |plan, c, a, b| {
            // SAFETY: the matrices are dense, and the level was detected.
            unsafe { gemm(plan, level, c, a, b, E::from(1.0), Accumulate::Overwrite) }
        },
    )
}

/// The same for 16 bits, beside the peak rate of `bf16` dot products where there are such.
fn run_mixed<H: MixedPrecision<Accum = f32>>(
    level: Isa,
    shape: [usize; 3],
    column_major: [bool; 2],
    one: H,
    most: Isa,
) -> Best {
    let roof = |times| sample(times, || multiply(level.min(most), STEPS));
    measure(level, shape, column_major, (one, one, one), roof, |plan, c, a, b| {
        // SAFETY: the matrices are dense, and the level was detected.
        unsafe { gemm_mixed(plan, level, c, a, b, 1.0, None) }
    })
}

/// The same for int8 with a signed `b`, beside the peak rate of int8 dot products.
fn run_int8<A: Int8>(level: Isa, shape: [usize; 3], column_major: [bool; 2], one: A) -> Best {
    let roof = |times| sample(times, || multiply_int8(level, STEPS));
    let ones = (Wrapping(1), one, 1i8);
    measure(level, shape, column_major, ones, roof, |plan, c, a, b| {
        // SAFETY: the matrices are dense, and the level was detected.
        unsafe { gemm_int8(plan, level, c, a, b) }
    })
}

/// The best of a product of matrices of ones, beside the best of what bounds it.
fn measure<C: Copy, A: Copy, B: Copy>(
    level: Isa,
    [m, n, k]: [usize; 3],
    column_major: [bool; 2],
    (one, one_of_a, one_of_b): (C, A, B),
    roof: impl Fn(usize) -> f64,
    gemm: impl Fn(Plan, View<*mut C>, View<*const A>, View<*const B>),
) -> Best {
    let (a, b) = (vec![one_of_a; m * k], vec![one_of_b; k * n]);
    let mut c = vec![one; m * n];
    let strides = |column_major, [rows, cols]: [usize; 2]| match column_major {
        true => [1, rows as isize],
        false => [cols as isize, 1],
    };
    let a_view =
        View { data: a.as_ptr(), shape: [m, k], strides: strides(column_major[0], [m, k]) };
    let b_view =
        View { data: b.as_ptr(), shape: [k, n], strides: strides(column_major[1], [k, n]) };
    let c_view = View { data: c.as_mut_ptr(), shape: [m, n], strides: [n as isize, 1] };
    let plan =
        Plan::of(a_view, View { data: b_view.data.cast(), shape: [k, n], strides: b_view.strides });
    let operations = 2 * m * n * k;
    let bytes = (m * k + k * n) * size_of::<A>();
    let times = (SAMPLE / operations).min(16 * SAMPLE / bytes / 4).max(1);
    let mut best = Best::default();
    for _ in 0..ROUNDS {
        best.most_operations = best.most_operations.max(roof(1 + times * operations / OPERATIONS));
        let per_second = sample(times, || read(level, &a) + read(level, &b));
        best.most_bytes = best.most_bytes.max(per_second);
        let per_second = sample(times, || {
            gemm(plan, c_view, a_view, b_view);
            operations
        });
        best.operations = best.operations.max(per_second);
    }
    best.bytes = best.operations / operations as f64 * bytes as f64;
    best
}

/// The rate of work that returns its amount.
fn sample(times: usize, mut work: impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    let done: usize = (0..times).map(|_| work()).sum();
    done as f64 / start.elapsed().as_secs_f64()
}

/// Reads all elements, and returns their bytes.
fn read<E>(level: Isa, from: &[E]) -> usize {
    // SAFETY: floats of a whole number of words.
    let words = unsafe { from.align_to::<u32>() }.1;
    match level {
        // SAFETY: the level was detected.
        #[cfg(target_arch = "x86_64")]
        _ if level >= Isa::Avx512 => unsafe { x86::read_avx512(words) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::read_avx2(words) },
        _ => read_words(words),
    }
}

/// Sums words, several vectors at a time.
#[inline(always)]
fn read_words(words: &[u32]) -> usize {
    let mut sums = [0u32; 128];
    for part in words.chunks_exact(128) {
        sums.iter_mut().zip(part).for_each(|(sum, &word)| *sum = sum.wrapping_add(word));
    }
    black_box(sums);
    size_of_val(words)
}

fn level() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        let all = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        if all && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
            let vnni2 = is_x86_feature_detected!("avx512bf16");
            let vnni4 = is_x86_feature_detected!("avx512vnni");
            return match (vnni4, vnni2) {
                (true, true) if corten_gemm::has_amx() => Isa::Amx,
                (true, true) => Isa::Avx512Bf16,
                (true, false) => Isa::Avx512Vnni,
                _ => Isa::Avx512,
            };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Isa::Avx2;
        }
    }
    Isa::Portable
}

/// Multiplies and adds in registers, and returns the number of operations: on `f32`, or on VNNI2.
fn multiply(level: Isa, steps: usize) -> usize {
    match level {
        // SAFETY: the level was detected.
        #[cfg(target_arch = "x86_64")]
        _ if level >= Isa::Avx512Bf16 => unsafe { x86::vnni2(steps) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx512Vnni => unsafe { x86::avx512(steps) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::avx2(steps) },
        _ => portable(steps),
    }
}

/// [`multiply`] on VNNI4, where there is an instruction for it.
fn multiply_int8(level: Isa, steps: usize) -> usize {
    match level {
        // SAFETY: the level was detected.
        #[cfg(target_arch = "x86_64")]
        _ if level >= Isa::Avx512Vnni => unsafe { x86::vnni4(steps) },
        _ => multiply(level, steps),
    }
}

fn portable(steps: usize) -> usize {
    let mut sums = [[0.0f32; 4]; 8];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = sum.map(|sum| sum * 0.5 + 0.001);
        }
    }
    black_box(sums);
    steps * 2 * 4 * 8
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// A chain of multiplications per name: more than are in flight at a time.
    macro_rules! chains {
        ($steps:ident, $lanes:literal, $splat:ident, $fused:ident, [$($chain:ident),+]) => {
            chains!($steps, $lanes, $splat, $fused, $splat(0.001), [$($chain),+])
        };
        ($steps:ident, $lanes:literal, $splat:ident, $fused:ident, $start:expr,
            [$($chain:ident),+]) => {{
            let (factor, shift) = ($splat(0.5), $splat(0.001));
            $(let mut $chain = $start;)+
            for _ in 0..$steps {
                $($chain = $fused($chain, factor, shift);)+
            }
            black_box([$($chain),+]).len() * $steps * 2 * $lanes
        }};
    }

    #[target_feature(enable = "avx512f")]
    fn ones(_: f32) -> __m512bh {
        // SAFETY: vectors of the same size.
        unsafe { std::mem::transmute(_mm512_set1_epi32(0x3f80_3f80)) }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn dpbf16(sum: __m512, vnni2: __m512bh, _: __m512bh) -> __m512 {
        _mm512_dpbf16_ps(sum, vnni2, vnni2)
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(crate) fn vnni2(steps: usize) -> usize {
        let start = _mm512_set1_ps(0.0);
        chains!(
            steps,
            32,
            ones,
            dpbf16,
            start,
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t]
        )
    }

    #[target_feature(enable = "avx512f")]
    fn ones_of_bytes(_: f32) -> __m512i {
        _mm512_set1_epi8(1)
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn dpbusd(sum: __m512i, vnni4: __m512i, _: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sum, vnni4, vnni4)
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(crate) fn vnni4(steps: usize) -> usize {
        let start = _mm512_setzero_si512();
        chains!(
            steps,
            64,
            ones_of_bytes,
            dpbusd,
            start,
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t]
        )
    }

    #[target_feature(enable = "avx512f")]
    pub(crate) fn avx512(steps: usize) -> usize {
        chains!(
            steps,
            16,
            _mm512_set1_ps,
            _mm512_fmadd_ps,
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t]
        )
    }

    #[target_feature(enable = "avx512f")]
    pub(crate) fn add_avx512(c: &mut [f32], a: &[f32], b: &[f32]) {
        super::add_floats(c, a, b);
    }

    #[target_feature(enable = "avx2")]
    pub(crate) fn add_avx2(c: &mut [f32], a: &[f32], b: &[f32]) {
        super::add_floats(c, a, b);
    }

    #[target_feature(enable = "avx512f")]
    pub(crate) fn read_avx512(words: &[u32]) -> usize {
        super::read_words(words)
    }

    #[target_feature(enable = "avx2")]
    pub(crate) fn read_avx2(words: &[u32]) -> usize {
        super::read_words(words)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn avx2(steps: usize) -> usize {
        chains!(steps, 8, _mm256_set1_ps, _mm256_fmadd_ps, [a, b, c, d, e, f, g, h, i, j, k, l])
    }
}
