//! Products of int8 beside their naive twin, for every instruction set, shape and layout.

mod common;

use corten_gemm::{Int8, Isa, Plan, View, gemm_int8};
use std::num::Wrapping;

/// The layout of a matrix.
#[derive(Clone, Copy, Debug)]
enum Layout {
    RowMajor,
    ColMajor,
    /// Rows at odd addresses.
    OddRows,
    OddColumns,
    /// No contiguous elements.
    Spread,
    /// One row for all.
    Repeated,
    /// From the last row to the first, and from the last column to the first.
    Backwards,
}

const LAYOUTS: [Layout; 7] = [
    Layout::RowMajor,
    Layout::ColMajor,
    Layout::OddRows,
    Layout::OddColumns,
    Layout::Spread,
    Layout::Repeated,
    Layout::Backwards,
];

struct Matrix<E> {
    data: Vec<E>,
    first: usize,
    shape: [usize; 2],
    strides: [isize; 2],
}

impl<E: Copy> Matrix<E> {
    fn new([rows, cols]: [usize; 2], layout: Layout, element: impl Fn(usize) -> E) -> Self {
        let (r, c) = (rows as isize, cols as isize);
        let strides = match layout {
            Layout::RowMajor => [c, 1],
            Layout::ColMajor => [1, r],
            Layout::OddRows => [c | 1, 1],
            Layout::OddColumns => [1, r | 1],
            Layout::Spread => [3 * c + 1, 3],
            Layout::Repeated => [0, 1],
            Layout::Backwards => [-c, -1],
        };
        let reach = (r - 1) * strides[0] + (c - 1) * strides[1];
        let data = (0..=reach.unsigned_abs()).map(element).collect();
        let first = (-reach).max(0) as usize;
        Self { data, first, shape: [rows, cols], strides }
    }

    fn at(&self, row: usize, col: usize) -> E {
        let offset = row as isize * self.strides[0] + col as isize * self.strides[1];
        self.data[(self.first as isize + offset) as usize]
    }

    fn view(&self) -> View<*const E> {
        let data = self.data[self.first..].as_ptr();
        View { data, shape: self.shape, strides: self.strides }
    }

    fn view_mut(&mut self) -> View<*mut E> {
        let data = self.data[self.first..].as_mut_ptr();
        View { data, shape: self.shape, strides: self.strides }
    }
}

/// Bytes of every value, with more of the extreme ones.
fn byte(at: usize, seed: u32) -> u8 {
    let bits = (at as u32 ^ seed << 20).wrapping_mul(0x9e37_79b9) >> 16;
    match bits % 7 {
        0 => 0x80,
        1 => 0x7f,
        2 => 0xff,
        _ => (bits >> 5) as u8,
    }
}

fn check<A: Int8, B: Int8>(
    [m, n, k]: [usize; 3],
    layouts: [Layout; 3],
    of: fn(u8) -> A,
    of_b: fn(u8) -> B,
) {
    let a = Matrix::new([m, k], layouts[0], |at| of(byte(at, 1)));
    let b = Matrix::new([k, n], layouts[1], |at| of_b(byte(at, 2)));
    let sum = |row: usize, col: usize| {
        (0..k)
            .map(|step| a.at(row, step).to_accum() * b.at(step, col).to_accum())
            .sum::<Wrapping<i32>>()
    };
    let wanted: Vec<_> = (0..m * n).map(|i| sum(i / n, i % n)).collect();
    for level in common::levels_to(Isa::Avx512Bf16) {
        for plan in [Plan::BLOCKED, Plan::of(a.view().cast::<u8>(), b.view().cast())] {
            let mut c = Matrix::new([m, n], layouts[2], |_| Wrapping(7));
            // SAFETY: the matrices lie in memories of their own, and the level was asked for.
            unsafe { gemm_int8(plan, level, c.view_mut(), a.view(), b.view()) };
            for (i, &wanted) in wanted.iter().enumerate() {
                let case = format!("{level:?} {plan:?} {m}x{n}x{k} {layouts:?} at {i}");
                assert_eq!(c.at(i / n, i % n), wanted, "{case}");
            }
            let sum = |values: &[Wrapping<i32>]| values.iter().sum::<Wrapping<i32>>();
            let beside = Wrapping((c.data.len() - m * n) as i32 * 7);
            assert_eq!(sum(&c.data), sum(&wanted) + beside, "{level:?} wrote beside its result");
        }
    }
}

fn check_kinds(shape: [usize; 3], layouts: [Layout; 3]) {
    check::<i8, i8>(shape, layouts, |x| x as i8, |x| x as i8);
    check::<u8, i8>(shape, layouts, |x| x, |x| x as i8);
    check::<i8, u8>(shape, layouts, |x| x as i8, |x| x);
    check::<u8, u8>(shape, layouts, |x| x, |x| x);
}

#[test]
fn products_equal_the_naive_ones_in_every_layout() {
    for shape in [[1, 1, 1], [5, 3, 4], [14, 32, 2], [17, 33, 67], [30, 20, 131]] {
        for a in LAYOUTS {
            for b in LAYOUTS {
                for c in [Layout::RowMajor, Layout::OddColumns] {
                    check_kinds(shape, [a, b, c]);
                }
            }
        }
    }
}

#[test]
fn skinny_products_equal_the_naive_ones() {
    for skinny in [1, 2, 3, 5, 8, 16] {
        for [many, k] in [[70, 1], [131, 38], [300, 64], [700, 13]] {
            for layout in [Layout::RowMajor, Layout::ColMajor, Layout::OddColumns, Layout::OddRows]
            {
                check_kinds([skinny, many, k], [Layout::RowMajor, layout, Layout::RowMajor]);
                check_kinds([many, skinny, k], [layout, Layout::RowMajor, Layout::RowMajor]);
                check_kinds([many, skinny, k], [layout, Layout::ColMajor, Layout::Spread]);
            }
        }
    }
}

#[test]
fn products_of_many_blocks_equal_the_naive_ones() {
    for shape in [[2, 1500, 5], [300, 40, 701], [29, 131, 2300]] {
        for [a, b] in [[Layout::RowMajor, Layout::RowMajor], [Layout::ColMajor, Layout::ColMajor]] {
            check_kinds(shape, [a, b, Layout::RowMajor]);
        }
    }
}

#[test]
fn sums_of_extreme_bytes_wrap_around() {
    for [x, y] in [[0x80u8, 0x80], [0x80, 0x7f], [0xff, 0x80], [0xff, 0xff]] {
        let shape = [3, 17, 140_000];
        let a = Matrix::new([shape[0], shape[2]], Layout::RowMajor, |_| x);
        let b = Matrix::new([shape[2], shape[1]], Layout::ColMajor, |_| y as i8);
        let wanted = Wrapping(i32::from(x)) * Wrapping(i32::from(y as i8)) * Wrapping(140_000);
        for level in common::levels_to(Isa::Avx512Bf16) {
            for plan in [Plan::BLOCKED, Plan::of(a.view(), b.view().cast())] {
                let mut c = Matrix::new([shape[0], shape[1]], Layout::RowMajor, |_| Wrapping(0));
                // SAFETY: as in `check`.
                unsafe { gemm_int8(plan, level, c.view_mut(), a.view(), b.view()) };
                assert!(c.data.iter().all(|&sum| sum == wanted), "{level:?} {plan:?} {x} {y}");
            }
        }
    }
}
