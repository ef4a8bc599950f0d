//! Products of integers beside their naive twin, for every instruction set: all of them wrap around.

mod common;

use corten_gemm::{Accumulate, Isa, MixedPrecision, Plan, View, gemm, gemm_mixed};
use std::num::Wrapping;

fn levels() -> Vec<Isa> {
    common::levels_to(Isa::Avx512Vnni)
}

const SHAPES: [[usize; 3]; 9] = [
    [1, 1, 1],
    [1, 300, 21],
    [2, 35, 70],
    [5, 270, 9],
    [17, 3, 33],
    [16, 16, 16],
    [31, 65, 7],
    [40, 50, 600],
    [7, 4, 1100],
];

/// Integers of every size.
fn any(count: usize, seed: i64) -> Vec<i64> {
    let spread = |i: i64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64 ^ seed);
    (0..count as i64).map(|i| spread(i) ^ spread(i) >> 29).collect()
}

/// A row-major or column-major matrix, and its strides.
fn with_layout<E>(
    values: &[i64],
    [rows, cols]: [usize; 2],
    row_major: bool,
    of: fn(i64) -> E,
) -> (Vec<E>, [isize; 2]) {
    match row_major {
        true => (values.iter().map(|&value| of(value)).collect(), [cols as isize, 1]),
        false => {
            let place = |i: usize| values[i % rows * cols + i / rows];
            ((0..rows * cols).map(|i| of(place(i))).collect(), [1, rows as isize])
        }
    }
}

/// Computes a product: result, operands, and their scales.
type Multiply<E> = fn(View<*mut E>, [View<*const E>; 2], Isa, [i64; 2]);

fn check<E: Copy + PartialEq + std::fmt::Debug>(of: fn(i64) -> E, multiply: Multiply<E>) {
    for shape @ [m, n, k] in SHAPES {
        let (a, b, old) = (any(m * k, 3), any(k * n, 50), any(m * n, 700));
        for [alpha, beta] in [[1i64, 0], [3, 0], [1, 1], [-5, 2]] {
            let term =
                |i: usize, step: usize| a[i / n * k + step].wrapping_mul(b[step * n + i % n]);
            let sum = |i: usize| (0..k).map(|step| term(i, step)).fold(0, i64::wrapping_add);
            let whole =
                |i: usize| alpha.wrapping_mul(sum(i)).wrapping_add(old[i].wrapping_mul(beta));
            let wanted: Vec<i64> = (0..m * n).map(whole).collect();
            for (isa, layouts) in
                levels().into_iter().flat_map(|level| (0..8).map(move |i| (level, i)))
            {
                let (a, a_strides) = with_layout(&a, [m, k], layouts & 1 == 0, of);
                let (b, b_strides) = with_layout(&b, [k, n], layouts & 2 == 0, of);
                let (mut c, c_strides) = with_layout(&old, [m, n], layouts & 4 == 0, of);
                let a = View { data: a.as_ptr(), shape: [m, k], strides: a_strides };
                let b = View { data: b.as_ptr(), shape: [k, n], strides: b_strides };
                let to = View { data: c.as_mut_ptr(), shape: [m, n], strides: c_strides };
                multiply(to, [a, b], isa, [alpha, beta]);
                let wanted = with_layout(&wanted, [m, n], layouts & 4 == 0, of).0;
                assert_eq!(c, wanted, "{shape:?} {isa:?} {layouts} {alpha} {beta}");
            }
        }
    }
}

macro_rules! integer_products {
    ($($function:ident of $integer:ty;)+) => {$(
        fn $function(
            c: View<*mut Wrapping<$integer>>,
            [a, b]: [View<*const Wrapping<$integer>>; 2],
            isa: Isa,
            scales: [i64; 2],
        ) {
            let [alpha, beta] = scales.map(|scale| Wrapping(scale as $integer));
            let start = if beta.0 == 0 { Accumulate::Overwrite } else { Accumulate::Beta(beta) };
            // SAFETY: the matrices are apart from each other, and the processor has the
            // instructions.
            unsafe { gemm(Plan::of(a, b), isa, c, a, b, alpha, start) };
        }
    )+};
}

integer_products! {
    wide32 of i32;
    wide64 of i64;
}

fn low_precision<H: MixedPrecision<Accum = Wrapping<i32>>>(
    c: View<*mut H>,
    [a, b]: [View<*const H>; 2],
    isa: Isa,
    [alpha, beta]: [i64; 2],
) {
    let beta = (beta != 0).then_some(Wrapping(beta as i32));
    let alpha = Wrapping(alpha as i32);
    // SAFETY: as above.
    unsafe { gemm_mixed(Plan::of(a, b), isa, c, a, b, alpha, beta) };
}

#[test]
fn i32_and_i64_wrap_around() {
    check::<Wrapping<i32>>(|x| Wrapping(x as i32), wide32);
    check::<Wrapping<i64>>(Wrapping, wide64);
}

#[test]
fn i8_u8_and_i16_wrap_around() {
    check::<i8>(|x| x as i8, low_precision);
    check::<u8>(|x| x as u8, low_precision);
    check::<i16>(|x| x as i16, low_precision);
}
