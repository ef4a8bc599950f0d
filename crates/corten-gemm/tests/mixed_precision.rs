//! Products of 16-bit floats beside their naive twin, for every instruction set, shape and layout.

mod common;

use corten_gemm::{Bf16, F16, Isa, LowPrecision, MixedPrecision, Plan, View, gemm_mixed};
use std::fmt::Debug;

fn levels() -> Vec<Isa> {
    common::levels_to(Isa::Amx)
}

/// The layout of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    RowMajor,
    ColMajor,
    OddRows,
    OddColumns,
    /// No contiguous elements.
    Spread,
}

const LAYOUTS: [Layout; 5] =
    [Layout::RowMajor, Layout::ColMajor, Layout::OddRows, Layout::OddColumns, Layout::Spread];

#[derive(Clone)]
struct Matrix<H> {
    data: Vec<H>,
    shape: [usize; 2],
    strides: [isize; 2],
}

impl<H: LowPrecision<Accum = f32>> Matrix<H> {
    fn new(
        [rows, cols]: [usize; 2],
        layout: Layout,
        element: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let (r, c) = (rows as isize, cols as isize);
        let strides = match layout {
            Layout::RowMajor => [c, 1],
            Layout::ColMajor => [1, r],
            // Rows at odd addresses.
            Layout::OddRows => [c | 1, 1],
            Layout::OddColumns => [1, r | 1],
            Layout::Spread => [3 * c + 1, 3],
        };
        let reach = (r - 1).max(0) * strides[0] + (c - 1).max(0) * strides[1];
        let data = vec![H::from_accum(f32::NAN); reach as usize + 1];
        let mut matrix = Self { data, shape: [rows, cols], strides };
        for row in 0..rows {
            for col in 0..cols {
                let place = matrix.place(row, col);
                matrix.data[place] = H::from_accum(element(row, col));
            }
        }
        matrix
    }

    fn place(&self, row: usize, col: usize) -> usize {
        (row as isize * self.strides[0] + col as isize * self.strides[1]) as usize
    }

    fn at(&self, row: usize, col: usize) -> f32 {
        self.data[self.place(row, col)].to_accum()
    }

    fn view(&self) -> View<*const H> {
        View { data: self.data.as_ptr(), shape: self.shape, strides: self.strides }
    }

    fn view_mut(&mut self) -> View<*mut H> {
        View { data: self.data.as_mut_ptr(), shape: self.shape, strides: self.strides }
    }
}

/// Small integers, so that every order of summing gives the same.
fn number(row: usize, col: usize) -> f32 {
    ((row * 7 + col * 13) % 11) as f32 - 5.0
}

fn check<H: MixedPrecision<Accum = f32> + Debug>(
    [m, n, k]: [usize; 3],
    layouts: [Layout; 3],
    alpha: f32,
    beta: Option<f32>,
) {
    let a = Matrix::<H>::new([m, k], layouts[0], number);
    let b = Matrix::<H>::new([k, n], layouts[1], |row, col| number(col + 1, row));
    let old = |row, col| if beta.is_some() { number(col, row) } else { f32::NAN };
    let before = Matrix::<H>::new([m, n], layouts[2], old);
    for level in levels() {
        for plan in [Plan::BLOCKED, Plan::of(a.view(), b.view())] {
            let mut c = before.clone();
            // SAFETY: the matrices lie in memories of their own, and the level was asked for.
            unsafe { gemm_mixed(plan, level, c.view_mut(), a.view(), b.view(), alpha, beta) };
            for row in 0..m {
                for col in 0..n {
                    let sum: f32 = (0..k).map(|step| a.at(row, step) * b.at(step, col)).sum();
                    let old = beta.map_or(0.0, |beta| beta * before.at(row, col));
                    let wanted = H::from_accum(old + alpha * sum);
                    let case =
                        format!("{level:?} {plan:?} {m}x{n}x{k} {layouts:?} at {row}, {col}");
                    assert_eq!(c.data[c.place(row, col)], wanted, "{case}");
                    c.data[before.place(row, col)] = before.data[before.place(row, col)];
                }
            }
            assert!(
                c.data.iter().zip(&before.data).all(|(new, old)| new == old),
                "{level:?} wrote beside its result"
            );
        }
    }
}

#[test]
fn products_equal_the_naive_ones_in_every_layout() {
    for shape in [[1, 1, 1], [5, 3, 4], [14, 32, 2], [17, 33, 17], [30, 20, 131], [70, 19, 41]] {
        for a in LAYOUTS {
            for b in LAYOUTS {
                for c in [Layout::RowMajor, Layout::OddColumns, Layout::Spread] {
                    check::<Bf16>(shape, [a, b, c], 1.0, None);
                    check::<F16>(shape, [a, b, c], 0.5, Some(2.0));
                }
            }
        }
    }
}

#[test]
fn skinny_products_equal_the_naive_ones() {
    for skinny in 1..=16 {
        for [many, k] in [[70, 1], [131, 38], [300, 64]] {
            for b in [Layout::RowMajor, Layout::ColMajor, Layout::OddColumns] {
                check::<Bf16>(
                    [skinny, many, k],
                    [Layout::RowMajor, b, Layout::RowMajor],
                    1.0,
                    None,
                );
                check::<Bf16>(
                    [many, skinny, k],
                    [Layout::RowMajor, b, Layout::ColMajor],
                    2.0,
                    Some(1.0),
                );
                check::<F16>([skinny, many, k], [Layout::RowMajor, b, Layout::Spread], 1.0, None);
            }
        }
    }
}

#[test]
fn products_of_many_blocks_equal_the_naive_ones() {
    for shape in [[2, 1500, 5], [130, 40, 701], [1030, 12, 12], [29, 1065, 400], [18, 70, 2100]] {
        for [a, b] in [[Layout::RowMajor, Layout::RowMajor], [Layout::ColMajor, Layout::RowMajor]] {
            check::<Bf16>(shape, [a, b, Layout::RowMajor], 2.0, Some(-1.0));
            check::<Bf16>(shape, [b, Layout::ColMajor, Layout::ColMajor], 1.0, None);
            check::<F16>(shape, [a, b, Layout::ColMajor], 1.0, Some(1.0));
        }
    }
}

#[test]
fn products_around_whole_register_blocks_equal_the_naive_ones() {
    for m in [1, 16, 17, 32, 33, 63] {
        for n in [1, 16, 31, 32, 49, 80] {
            for k in [1, 2, 31, 32, 33, 66, 514] {
                check::<Bf16>([m, n, k], [Layout::RowMajor; 3], 1.0, None);
                let layouts = [Layout::RowMajor, Layout::ColMajor, Layout::RowMajor];
                check::<Bf16>([m, n, k], layouts, 1.0, Some(1.0));
            }
        }
    }
}

/// Numbers of every kind, by their bits.
fn every_kind(at: usize) -> u16 {
    let bits = (at as u32).wrapping_mul(0x9e37_79b9) >> 16;
    match at % 23 {
        5 => 0x7f80,
        11 => 0xff80,
        17 => 0x7fff,
        _ => bits as u16,
    }
}

/// Products of one step are rounded as they are one by one.
fn check_every_kind<H: MixedPrecision<Accum = f32> + Debug>(
    of: fn(u16) -> H,
    is_tiny: fn(f32) -> bool,
) {
    let [m, n] = [40, 50];
    let a: Vec<H> = (0..m).map(|i| of(every_kind(i))).collect();
    let b: Vec<H> = (0..n).map(|j| of(every_kind(1000 + j))).collect();
    let strides = [1, 1];
    let (a_view, b_view) = (
        View { data: a.as_ptr(), shape: [m, 1], strides },
        View { data: b.as_ptr(), shape: [1, n], strides },
    );
    for level in levels() {
        let mut c = vec![of(0x7fff); m * n];
        let c_view = View { data: c.as_mut_ptr(), shape: [m, n], strides: [n as isize, 1] };
        // SAFETY: the matrices are dense, and the level was asked for.
        unsafe { gemm_mixed(Plan::BLOCKED, level, c_view, a_view, b_view, 1.0, None) };
        for (i, &sum) in c.iter().enumerate() {
            let [x, y] = [a[i / n].to_accum(), b[i % n].to_accum()];
            let wanted = H::from_accum(x * y);
            let case = format!("{level:?}: {x} * {y} is not {sum:?} but {wanted:?}");
            if wanted.to_accum().is_nan() {
                assert!(sum.to_accum().is_nan(), "{case}");
            } else if ![x, y, x * y].into_iter().any(is_tiny) {
                assert_eq!(sum.to_accum(), wanted.to_accum(), "{case}");
            }
        }
    }
}

#[test]
fn numbers_of_every_kind_are_rounded_once() {
    // Dot products of VNNI2 take subnormal numbers for zero.
    check_every_kind(Bf16, |value| value.abs() < f32::MIN_POSITIVE);
    check_every_kind(F16, |_| false);
}

#[test]
fn products_do_not_depend_on_partitions() {
    let fraction = |row: usize, col: usize| 1.0 / (1 + row * 31 + col) as f32;
    for (rows, depth) in [(3, 500), (61, 500), (20, 2100)] {
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let a = Matrix::<Bf16>::new([rows, depth], Layout::RowMajor, fraction);
            let b = Matrix::<Bf16>::new([depth, 147], layout, fraction);
            let plan = Plan::of(a.view(), b.view());
            for level in levels() {
                let mut whole = Matrix::<Bf16>::new([rows, 147], Layout::RowMajor, |_, _| 0.0);
                let mut cut = whole.clone();
                let (from, to) = (b.view(), whole.view_mut());
                // SAFETY: as in `check`.
                unsafe { gemm_mixed(plan, level, to, a.view(), from, 1.0, None) };
                for cols in [0..5, 5..69, 69..147] {
                    let shape = |rows| [rows, cols.len()];
                    let data = from.data.wrapping_offset(cols.start as isize * from.strides[1]);
                    let from = View { data, shape: shape(depth), ..from };
                    let to = cut.view_mut();
                    let data = to.data.wrapping_offset(cols.start as isize);
                    let to = View { data, shape: shape(rows), ..to };
                    // SAFETY: as in `check`.
                    unsafe { gemm_mixed(plan, level, to, a.view(), from, 1.0, None) };
                }
                assert!(whole.data == cut.data, "{level:?} {layout:?}");
            }
        }
    }
}
