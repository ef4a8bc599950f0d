//! Products with prepacked operands beside their naive twin.

mod common;

use corten_gemm::{Accumulate, Isa, MatrixRef, PrepackedB, View, gemm_prepacked};
#[cfg(target_arch = "x86_64")]
use corten_gemm::{Bf16, LowPrecision, PrepackedBf16, gemm_prepacked_bf16};

/// Small integers, so that every order of summing gives the same.
fn number(row: usize, col: usize) -> f64 {
    ((row * 7 + col * 13) % 11) as f64 - 5.0
}

fn rows<E>([rows, cols]: [usize; 2], element: impl Fn(f64) -> E) -> Vec<E> {
    let places = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
    places.map(|(row, col)| element(number(row, col))).collect()
}

fn row_major<P>(data: P, shape: [usize; 2]) -> View<P> {
    View { data, shape, strides: [shape[1] as isize, 1] }
}

const SHAPES: [[usize; 3]; 6] =
    [[1, 1, 1], [1, 70, 9], [5, 64, 33], [7, 129, 600], [30, 200, 1030], [600, 75, 40]];

/// The columns from each micro-panel on, up to so many.
fn column_ranges(cols: usize, panel: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..cols).step_by(panel).map(move |start| start..(start + 2 * panel).min(cols))
}

fn wanted(a: &[f64], [m, n, k]: [usize; 3], start: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let places = (0..m).flat_map(|row| (0..n).map(move |col| (row, col)));
    let sum = |(row, col): (usize, usize)| {
        // `b` is given column-major.
        start(row, col) + (0..k).map(|step| a[row * k + step] * number(col, step)).sum::<f64>()
    };
    places.map(sum).collect()
}

#[test]
fn prepacked_products_equal_the_naive_ones() {
    for level in common::levels_to(Isa::Avx512) {
        for [m, n, k] in SHAPES {
            let (a, transposed) = (rows([m, k], |x| x), rows([n, k], |x| x));
            // SAFETY: the matrix lies in its memory.
            let b = unsafe { MatrixRef::new(row_major(transposed.as_ptr(), [n, k]).t()) };
            let b = PrepackedB::of(b, level);
            assert_eq!(b.shape(), [k, n]);
            assert!(b.elements().all(|(step, col, element)| element == number(col, step)));
            assert_eq!(b.elements().count(), k * n);
            let values = rows([1, n], |x| 3.0 * x);
            for cols in column_ranges(n, b.panel_cols()) {
                let mut c = vec![f64::NAN; m * n];
                let to = View {
                    data: c.as_mut_ptr().wrapping_add(cols.start),
                    shape: [m, cols.len()],
                    strides: [n as isize, 1],
                };
                let start = Accumulate::ColumnBias(values[cols.clone()].as_ptr());
                let from = row_major(a.as_ptr(), [m, k]);
                // SAFETY: the matrices lie in memories of their own; there is a value per column.
                unsafe { gemm_prepacked(to, from, (&b, cols.clone()), start) };
                let wanted = wanted(&a, [m, n, k], |_, col| values[col]);
                for (place, (sum, wanted)) in c.iter().zip(&wanted).enumerate() {
                    if cols.contains(&(place % n)) {
                        assert_eq!(sum, wanted, "{level:?} {m}x{n}x{k} {cols:?} at {place}");
                    } else {
                        assert!(sum.is_nan(), "{level:?} wrote beside its result");
                    }
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "the shapes do not match")]
fn columns_begin_with_a_micro_panel() {
    let (a, transposed, mut c) = ([1.0f64; 8], [1.0f64; 32], [0.0f64; 3]);
    // SAFETY: the matrix lies in its memory.
    let b = unsafe { MatrixRef::new(row_major(transposed.as_ptr(), [4, 8]).t()) };
    let b = PrepackedB::of(b, Isa::Portable);
    let (to, from) = (row_major(c.as_mut_ptr(), [1, 3]), row_major(a.as_ptr(), [1, 8]));
    // SAFETY: the matrices lie in memories of their own.
    unsafe { gemm_prepacked(to, from, (&b, 1..4), Accumulate::Overwrite) };
}

#[cfg(target_arch = "x86_64")]
#[test]
fn prepacked_products_of_bf16_equal_the_naive_ones() {
    let half = |x: f64| Bf16::from_accum(x as f32);
    for level in common::levels_to(Isa::Amx) {
        for [m, n, k] in SHAPES {
            let (a, transposed) = (rows([m, k], half), rows([n, k], half));
            // SAFETY: the matrix lies in its memory.
            let b = unsafe { MatrixRef::new(row_major(transposed.as_ptr(), [n, k]).t()) };
            let packed = PrepackedBf16::of(b, level);
            assert_eq!(packed.is_some(), level >= Isa::Avx512Bf16);
            let Some(b) = packed else { continue };
            assert_eq!(b.shape(), [k, n]);
            assert!(b.elements().all(|(step, col, element)| element == half(number(col, step))));
            assert_eq!(b.elements().count(), k * n);
            for beta in [None, Some(2.0)] {
                let before =
                    rows([m, n], |x| if beta.is_some() { half(x) } else { half(f64::NAN) });
                let mut c = before.clone();
                let (to, from) = (row_major(c.as_mut_ptr(), [m, n]), row_major(a.as_ptr(), [m, k]));
                // SAFETY: the matrices lie in memories of their own.
                unsafe { gemm_prepacked_bf16(to, from, (&b, 0..n), beta) };
                let start = |row, col| beta.map_or(0.0, |beta| f64::from(beta) * number(row, col));
                let wanted = wanted(&rows([m, k], |x| x), [m, n, k], start);
                for (place, (&sum, &wanted)) in c.iter().zip(&wanted).enumerate() {
                    assert_eq!(sum, half(wanted), "{m}x{n}x{k} {beta:?} at {place}");
                }
            }
        }
    }
}
