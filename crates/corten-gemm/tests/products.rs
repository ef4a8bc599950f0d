//! Products beside their naive twin, for every instruction set, shape and layout.

mod common;

use corten_gemm::{
    Accumulate, BatchStride, ImplicitOperand, Isa, MatrixRef, Operand, PACK_PADDING, Plan,
    Segments, View, gemm, gemm_operands,
};
use std::ops::Range;

fn levels() -> Vec<Isa> {
    common::levels_to(Isa::Avx512)
}

/// A matrix with memory of its own.
#[derive(Clone)]
struct Matrix {
    data: Vec<f64>,
    shape: [usize; 2],
    strides: [isize; 2],
}

/// The layout of a matrix.
#[derive(Clone, Copy, Debug)]
enum Layout {
    RowMajor,
    ColMajor,
    /// Rows that alias in a cache.
    FarRows,
    /// Columns that alias in a cache.
    FarColumns,
    /// No contiguous elements.
    Spread,
    /// Rows in reverse order.
    Backwards,
}

const LAYOUTS: [Layout; 5] =
    [Layout::RowMajor, Layout::ColMajor, Layout::FarRows, Layout::Spread, Layout::Backwards];

impl Matrix {
    fn new(
        [rows, cols]: [usize; 2],
        layout: Layout,
        element: impl Fn(usize, usize) -> f64,
    ) -> Self {
        let (r, c) = (rows as isize, cols as isize);
        let strides = match layout {
            Layout::RowMajor => [c, 1],
            Layout::ColMajor => [1, r],
            Layout::FarRows => [cols.max(1).next_multiple_of(512) as isize, 1],
            Layout::FarColumns => [1, rows.max(1).next_multiple_of(512) as isize],
            Layout::Spread => [3 * c + 1, 3],
            Layout::Backwards => [-c, 1],
        };
        let reach = (r - 1).max(0) * strides[0].abs() + (c - 1).max(0) * strides[1].abs();
        let mut matrix =
            Self { data: vec![f64::NAN; reach as usize + 1], shape: [rows, cols], strides };
        for row in 0..rows {
            for col in 0..cols {
                let place = matrix.place(row, col);
                matrix.data[place] = element(row, col);
            }
        }
        matrix
    }

    fn first(&self) -> isize {
        if self.strides[0] < 0 { -self.strides[0] * (self.shape[0] as isize - 1) } else { 0 }
    }

    fn place(&self, row: usize, col: usize) -> usize {
        let offset = row as isize * self.strides[0] + col as isize * self.strides[1];
        (self.first() + offset) as usize
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.data[self.place(row, col)]
    }

    fn view(&self) -> View<*const f64> {
        let data = self.data.as_ptr().wrapping_offset(self.first());
        View { data, shape: self.shape, strides: self.strides }
    }

    fn view_mut(&mut self) -> View<*mut f64> {
        let data = self.data.as_mut_ptr().wrapping_offset(self.first());
        View { data, shape: self.shape, strides: self.strides }
    }
}

/// Small integers, so that every order of summing gives the same.
fn number(row: usize, col: usize) -> f64 {
    ((row * 7 + col * 13) % 11) as f64 - 5.0
}

fn check(shape: [usize; 3], layouts: [Layout; 3], alpha: f64, beta: Option<f64>) {
    check_plan(None, shape, layouts, alpha, beta);
    check_plan(Some(Plan::BLOCKED), shape, layouts, alpha, beta);
}

/// The product by a plan, or by that of its operands.
fn check_plan(
    plan: Option<Plan>,
    [m, n, k]: [usize; 3],
    layouts: [Layout; 3],
    alpha: f64,
    beta: Option<f64>,
) {
    let a = Matrix::new([m, k], layouts[0], number);
    let b = Matrix::new([k, n], layouts[1], |row, col| number(col + 1, row));
    let before =
        Matrix::new(
            [m, n],
            layouts[2],
            |row, col| {
                if beta.is_some() { number(col, row) } else { f64::NAN }
            },
        );
    let plan = plan.unwrap_or(Plan::of(a.view(), b.view()));
    for level in levels() {
        let mut c = before.clone();
        // SAFETY: the matrices lie in memories of their own, and the level was asked for.
        unsafe {
            gemm(
                plan,
                level,
                c.view_mut(),
                a.view(),
                b.view(),
                alpha,
                beta.map_or(Accumulate::Overwrite, Accumulate::Beta),
            )
        };
        for row in 0..m {
            for col in 0..n {
                let sum: f64 = (0..k).map(|step| a.at(row, step) * b.at(step, col)).sum();
                let old = beta.map_or(0.0, |beta| beta * before.at(row, col));
                let case = format!("{level:?} {plan:?} {m}x{n}x{k} {layouts:?} at {row}, {col}");
                assert_eq!(c.at(row, col), old + alpha * sum, "{case}");
            }
        }
        let untouched = |matrix: &Matrix| matrix.data.iter().filter(|x| x.is_nan()).count();
        let written = if beta.is_some() { 0 } else { m * n };
        assert_eq!(
            untouched(&c) + written,
            untouched(&before),
            "{level:?} wrote beside its result"
        );
    }
}

#[test]
fn products_equal_the_naive_ones_in_every_layout() {
    for shape in [[1, 1, 1], [5, 3, 4], [14, 32, 2], [15, 33, 17], [30, 20, 330], [70, 9, 40]] {
        for a in LAYOUTS {
            for b in LAYOUTS {
                for c in [Layout::RowMajor, Layout::ColMajor, Layout::Spread] {
                    check(shape, [a, b, c], 1.0, None);
                }
            }
        }
    }
}

#[test]
fn products_of_many_blocks_equal_the_naive_ones() {
    for shape in [[2, 1500, 5], [130, 40, 700], [250, 12, 12], [29, 65, 1000], [900, 24, 600]] {
        for (a, b) in [(Layout::RowMajor, Layout::RowMajor), (Layout::ColMajor, Layout::FarRows)] {
            check(shape, [a, b, Layout::RowMajor], 2.0, Some(-1.0));
            check(shape, [b, Layout::ColMajor, Layout::ColMajor], 1.0, Some(1.0));
        }
        check(shape, [Layout::FarColumns, Layout::RowMajor, Layout::RowMajor], 1.0, None);
    }
}

#[test]
fn products_do_not_depend_on_partitions() {
    let fraction = |row: usize, col: usize| 1.0 / (1 + row * 31 + col) as f64;
    let a = Matrix::new([61, 500], Layout::RowMajor, fraction);
    let b = Matrix::new([500, 47], Layout::ColMajor, fraction);
    for level in levels() {
        let mut whole = Matrix::new([61, 47], Layout::RowMajor, |_, _| 0.0);
        // SAFETY: as in `check`.
        unsafe {
            gemm(
                Plan::BLOCKED,
                level,
                whole.view_mut(),
                a.view(),
                b.view(),
                1.0,
                Accumulate::Overwrite,
            )
        };
        for rows in [1, 7, 16, 40] {
            let mut cut = Matrix::new([61, 47], Layout::RowMajor, |_, _| 0.0);
            for (start, count) in [(0, rows), (rows, 61 - rows)] {
                let offset = |view_stride: isize| start as isize * view_stride;
                let to = cut.view_mut();
                let to = View {
                    data: to.data.wrapping_offset(offset(to.strides[0])),
                    shape: [count, 47],
                    ..to
                };
                let from = a.view();
                let from = View {
                    data: from.data.wrapping_offset(offset(from.strides[0])),
                    shape: [count, 500],
                    ..from
                };
                // SAFETY: as in `check`.
                unsafe {
                    gemm(Plan::BLOCKED, level, to, from, b.view(), 1.0, Accumulate::Overwrite)
                };
            }
            assert_eq!(whole.data, cut.data, "{level:?}, {rows} rows first");
        }
    }
}

#[test]
fn skinny_products_equal_the_naive_ones() {
    for skinny in 1..=16 {
        for [many, k] in [[1, 40], [70, 1], [301, 37], [23, 100]] {
            let [a, b] = [Layout::RowMajor, Layout::ColMajor];
            for layouts in [[a, b, a], [a, a, b], [b, a, Layout::Spread], [b, b, a]] {
                check([skinny, many, k], layouts, 1.0, None);
                check([many, skinny, k], layouts, 2.0, Some(-1.0));
            }
            check([skinny, many, k], [Layout::Backwards, Layout::FarRows, a], 1.0, Some(2.0));
        }
    }
    // More columns than have their sums in a cache.
    check([1, 5000, 9], [Layout::RowMajor; 3], 1.0, Some(1.0));
}

#[test]
fn skinny_products_do_not_depend_on_partitions() {
    let fraction = |row: usize, col: usize| 1.0 / (1 + row * 31 + col) as f64;
    for layout in [Layout::RowMajor, Layout::ColMajor] {
        let a = Matrix::new([3, 333], Layout::RowMajor, fraction);
        let b = Matrix::new([333, 347], layout, fraction);
        let plan = Plan::of(a.view(), b.view());
        assert_ne!(plan, Plan::BLOCKED);
        for level in levels() {
            let mut whole = Matrix::new([3, 347], Layout::RowMajor, |_, _| 0.0);
            let mut cut = whole.clone();
            // SAFETY: as in `check`.
            unsafe {
                gemm(plan, level, whole.view_mut(), a.view(), b.view(), 1.0, Accumulate::Overwrite)
            };
            for cols in [0..5, 5..69, 69..347] {
                let part = |view: View<*const f64>| View {
                    data: view.data.wrapping_offset(cols.start as isize * view.strides[1]),
                    shape: [view.shape[0], cols.len()],
                    ..view
                };
                let to = cut.view_mut();
                let data = to.data.wrapping_offset(cols.start as isize);
                let to = View { data, shape: [3, cols.len()], ..to };
                // SAFETY: as in `check`.
                unsafe {
                    gemm(plan, level, to, a.view(), part(b.view()), 1.0, Accumulate::Overwrite)
                };
            }
            assert_eq!(whole.data, cut.data, "{level:?} {layout:?}");
        }
    }
}

#[test]
fn nan_reaches_its_own_sums_only() {
    for skinny in [1, 3, 9] {
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let a = Matrix::new([skinny, 21], Layout::RowMajor, |_, _| 1.0);
            let mut b = Matrix::new([21, 300], layout, |_, _| 1.0);
            let place = b.place(20, 299);
            b.data[place] = f64::INFINITY;
            let place = b.place(3, 7);
            b.data[place] = f64::NAN;
            for level in levels() {
                let mut c = Matrix::new([skinny, 300], Layout::RowMajor, |_, _| f64::NAN);
                let plan = Plan::of(a.view(), b.view());
                // SAFETY: as in `check`.
                unsafe {
                    gemm(plan, level, c.view_mut(), a.view(), b.view(), 1.0, Accumulate::Overwrite)
                };
                for row in 0..skinny {
                    for col in 0..300 {
                        let sum = c.at(row, col);
                        match col {
                            299 => assert_eq!(sum, f64::INFINITY),
                            7 => assert!(sum.is_nan()),
                            _ => assert_eq!(sum, 21.0, "{level:?} {layout:?} at {row}, {col}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn shapes_that_do_not_match_are_refused() {
    let a = Matrix::new([2, 3], Layout::RowMajor, number);
    let mut c = Matrix::new([2, 2], Layout::RowMajor, number);
    let wrong = std::panic::catch_unwind(move || {
        // SAFETY: refused before anything is read.
        unsafe {
            gemm(
                Plan::BLOCKED,
                Isa::Portable,
                c.view_mut(),
                a.view(),
                a.view(),
                1.0,
                Accumulate::Overwrite,
            )
        };
    });
    assert!(wrong.is_err());
}

/// An implicit operand that fills its padding with something else.
struct Generated<'a>(&'a Matrix);

impl ImplicitOperand<f64> for Generated<'_> {
    fn pack(&self, depth: Range<usize>, cols: Range<usize>, to: &mut [f64], width: usize) {
        to[..depth.len() * width + PACK_PADDING].fill(f64::NAN);
        for (line, row) in to.chunks_exact_mut(width).zip(depth) {
            line.iter_mut().zip(cols.clone()).for_each(|(to, col)| *to = self.0.at(row, col));
        }
    }
}

#[test]
fn implicit_operands_and_biases_equal_matrices() {
    let values: Vec<f64> = (0..700).map(|i| f64::from(i % 13)).collect();
    for [m, n, k] in [[1, 1, 1], [5, 70, 3], [13, 200, 450], [700, 130, 20], [2000, 33, 200]] {
        let a = Matrix::new([m, k], Layout::RowMajor, number);
        let b = Matrix::new([k, n], Layout::RowMajor, |row, col| number(col, row));
        let values = &values.repeat(3)[..m.max(n)];
        let per_row = Accumulate::RowBias(values.as_ptr());
        let per_column = Accumulate::ColumnBias(values.as_ptr());
        for level in levels() {
            for layout in [Layout::RowMajor, Layout::ColMajor, Layout::Spread] {
                let mut plain = Matrix::new([m, n], layout, |_, _| f64::NAN);
                let mut made = [plain.clone(), plain.clone(), plain.clone(), plain.clone()];
                let [alone, row, col, transposed] = &mut made;
                // SAFETY: as in `check`; there is a value for every row and column.
                unsafe {
                    gemm(
                        Plan::BLOCKED,
                        level,
                        plain.view_mut(),
                        a.view(),
                        b.view(),
                        1.0,
                        Accumulate::Overwrite,
                    );
                    let (a_made, b_made) = (Generated(&a), Generated(&b));
                    let [a_made, b_made] = [Operand::Implicit(&a_made), Operand::Implicit(&b_made)];
                    let a_there = Operand::Matrix(MatrixRef::new(a.view()));
                    let b_there = Operand::Matrix(MatrixRef::new(b.view()));
                    let start = Accumulate::Overwrite;
                    let result = (alone.view_mut(), None);
                    gemm_operands(level, result, k, [a_there, b_made], start);
                    let result = (row.view_mut(), None);
                    gemm_operands(level, result, k, [a_made, b_there], per_row);
                    let result = (col.view_mut(), None);
                    gemm_operands(level, result, k, [a_made, b_made], per_column);
                    gemm(
                        Plan::BLOCKED,
                        level,
                        transposed.view_mut(),
                        a.view(),
                        b.view(),
                        1.0,
                        per_column,
                    );
                }
                for i in 0..m {
                    for j in 0..n {
                        let sum = plain.at(i, j);
                        let case = format!("{level:?} {m}x{n}x{k} {layout:?} at {i}, {j}");
                        assert_eq!(alone.at(i, j), sum, "{case}");
                        assert_eq!(row.at(i, j), values[i] + sum, "{case}");
                        assert_eq!(col.at(i, j), values[j] + sum, "{case}");
                        assert_eq!(transposed.at(i, j), values[j] + sum, "{case}");
                    }
                }
            }
        }
    }
}

/// Operands that are not packed, up to where `b` is.
#[test]
fn unpacked_products_equal_the_naive_ones_for_every_accumulation() {
    let values: Vec<f64> = (0..128).map(|i| f64::from(i % 7)).collect();
    for m in [1, 2, 6, 7, 32, 48, 49, 70] {
        for [n, k] in [[4, 3], [16, 16], [24, 40], [32, 33], [64, 64], [128, 30], [96, 520]] {
            let a = Matrix::new([m, k], Layout::RowMajor, number);
            let b = Matrix::new([k, n], Layout::RowMajor, |row, col| number(col, row));
            let before = Matrix::new([m, n], Layout::RowMajor, |row, col| number(col, row));
            for level in levels() {
                let (per_row, per_column) = (values.as_ptr(), values.as_ptr());
                for (index, start) in [
                    Accumulate::Overwrite,
                    Accumulate::Beta(1.0),
                    Accumulate::Beta(-2.0),
                    Accumulate::RowBias(per_row),
                    Accumulate::ColumnBias(per_column),
                ]
                .into_iter()
                .enumerate()
                {
                    let mut c = before.clone();
                    // SAFETY: as in `check`; there is a value for every row and column.
                    unsafe {
                        gemm(Plan::BLOCKED, level, c.view_mut(), a.view(), b.view(), 1.0, start);
                    }
                    for i in 0..m {
                        for j in 0..n {
                            let old = before.at(i, j);
                            let base = [0.0, old, -2.0 * old, values[i], values[j]][index];
                            let sum: f64 = (0..k).map(|step| a.at(i, step) * b.at(step, j)).sum();
                            let case = format!("{level:?} {m}x{n}x{k}, start {index} at {i}, {j}");
                            assert_eq!(c.at(i, j), base + sum, "{case}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_result_may_have_a_batch_stride() {
    let values: Vec<f64> = (0..400).map(f64::from).collect();
    for [m, columns, count, k] in
        [[1, 1, 3, 2], [7, 49, 5, 600], [200, 16, 9, 1030], [9, 130, 2, 5]]
    {
        let a = Matrix::new([m, k], Layout::RowMajor, number);
        let b = Matrix::new([k, count * columns], Layout::RowMajor, |row, col| number(col, row));
        let compensation = [
            Accumulate::Overwrite,
            Accumulate::Beta(1.0),
            Accumulate::RowBias(values.as_ptr()),
            Accumulate::ColumnBias(values.as_ptr()),
        ];
        for (level, transposed) in
            levels().into_iter().flat_map(|level| [(level, false), (level, true)])
        {
            for (case, start) in compensation.into_iter().enumerate() {
                let mut made = vec![if case == 0 { f64::NAN } else { 2.0 }; m * columns * count];
                let strides = if transposed { [1, m as isize] } else { [columns as isize, 1] };
                let c = View { data: made.as_mut_ptr(), shape: [m, count * columns], strides };
                let batch_stride = BatchStride { columns, distance: (m * columns) as isize };
                // SAFETY: as in `check`; there is a value for every row and column.
                unsafe {
                    let factors =
                        [a.view(), b.view()].map(|view| Operand::Matrix(MatrixRef::new(view)));
                    gemm_operands(level, (c, Some(batch_stride)), k, factors, start);
                }
                for (i, j) in (0..m).flat_map(|i| (0..count * columns).map(move |j| (i, j))) {
                    let sum: f64 = (0..k).map(|step| a.at(i, step) * b.at(step, j)).sum();
                    let before = [0.0, 2.0, values[i], values[j]][case];
                    let place = j / columns * m * columns
                        + i * strides[0] as usize
                        + j % columns * strides[1] as usize;
                    assert_eq!(made[place], before + sum, "{level:?} {m}x{columns} {i}, {j}");
                }
            }
        }
    }
}

#[test]
fn f32_has_micro_kernels_of_its_own() {
    let element = |i: usize| (i % 9) as f32 - 4.0;
    for [m, n, k] in [[1, 17, 3], [7, 100, 40], [64, 65, 200], [100, 129, 33], [6, 16, 1]] {
        let (a, b): (Vec<f32>, Vec<f32>) =
            ((0..m * k).map(element).collect(), (0..k * n).map(element).collect());
        let [mk, kn] = [[m as isize, k as isize], [k as isize, n as isize]];
        for [turn_a, turn_b, turn_c] in [[false; 3], [true, false, false], [false, true, true]] {
            let strides = |transposed: bool, [rows, cols]: [isize; 2]| match transposed {
                true => [1, rows],
                false => [cols, 1],
            };
            let a_view = View { data: a.as_ptr(), shape: [m, k], strides: strides(turn_a, mk) };
            let b_view = View { data: b.as_ptr(), shape: [k, n], strides: strides(turn_b, kn) };
            let c_strides = strides(turn_c, [mk[0], kn[1]]);
            let at =
                |[row, col]: [isize; 2], i: usize, j: usize| i * row as usize + j * col as usize;
            for level in levels() {
                let mut c = vec![f32::NAN; m * n];
                let view = View { data: c.as_mut_ptr(), shape: [m, n], strides: c_strides };
                let plan = Plan::of(a_view, b_view);
                // SAFETY: the matrices are dense and the level was asked for.
                unsafe { gemm(plan, level, view, a_view, b_view, 2.0, Accumulate::Overwrite) };
                for i in 0..m {
                    for j in 0..n {
                        let term =
                            |s: usize| a[at(a_view.strides, i, s)] * b[at(b_view.strides, s, j)];
                        let sum: f32 = (0..k).map(term).sum();
                        assert_eq!(c[at(c_strides, i, j)], 2.0 * sum, "{level:?} {m}x{n}x{k}");
                    }
                }
            }
        }
    }
}

#[test]
fn segmented_operands_equal_matrices() {
    // Rows, their distance, segments, their distance, the elements of a segment, and columns.
    let cases = [
        [1, 1, 1, 0, 1, 1],
        [13, 6, 7, 700, 21, 64],
        [50, 2, 3, 120, 4, 70],
        [31, 40, 3, 1300, 333, 17],
        [9, 0, 2, 0, 5, 33],
        [8, 3, 2, 280_000, 280_000, 2],
    ];
    for [m, batch_stride, count, distance, len, n] in cases {
        let data: Vec<f64> = (0..(m - 1) * batch_stride + (count - 1) * distance + len)
            .map(|place| number(place, place / 7))
            .collect();
        let element =
            |row: usize, col: usize| data[row * batch_stride + col / len * distance + col % len];
        let b = Matrix::new([count * len, n], Layout::RowMajor, number);
        for level in levels() {
            let mut c = Matrix::new([m, n], Layout::RowMajor, |_, _| f64::NAN);
            let first =
                View { data: data.as_ptr(), shape: [m, len], strides: [batch_stride as isize, 1] };
            // SAFETY: all segments and matrices are in memory, and the instruction set was
            // detected.
            unsafe {
                let a = Segments::new(MatrixRef::new(first), count, distance as isize);
                let factors = [Operand::Segments(a), Operand::Matrix(MatrixRef::new(b.view()))];
                let result = (c.view_mut(), None);
                gemm_operands(level, result, count * len, factors, Accumulate::Overwrite);
            }
            for row in 0..m {
                for col in 0..n {
                    let terms = (0..count * len).map(|step| element(row, step) * b.at(step, col));
                    assert_eq!(c.at(row, col), terms.sum::<f64>(), "{level:?} {m} {count} {len}");
                }
            }
        }
    }
}

#[test]
fn the_stride_of_a_single_row_may_be_any_number() {
    for level in levels() {
        let (a, b) = ([2.0; 3], [3.0; 40]);
        let mut c = [0.0; 3 * 40];
        let one_step = View { data: a.as_ptr(), shape: [3, 1], strides: [1, isize::MAX] };
        let b = View { data: b.as_ptr(), shape: [1, 40], strides: [isize::MAX, 1] };
        let to = View { data: c.as_mut_ptr(), shape: [3, 40], strides: [40, 1] };
        // SAFETY: there is one step, so that its distance to another leads nowhere.
        unsafe { gemm(Plan::BLOCKED, level, to, one_step, b, 1.0, Accumulate::Overwrite) };
        assert_eq!(c, [6.0; 3 * 40], "{level:?}");
    }
}
