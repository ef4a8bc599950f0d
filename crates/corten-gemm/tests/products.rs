//! Products beside their naive twin, at every level, shape and arrangement.

use corten_gemm::{Instructions, Start, View, product};

fn levels() -> Vec<Instructions> {
    let mut levels = vec![Instructions::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            levels.push(Instructions::Avx2);
            let more = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            let all = is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl");
            if more && all {
                levels.push(Instructions::Avx512);
            }
        }
    }
    levels
}

/// A matrix with a memory of its own.
#[derive(Clone)]
struct Matrix {
    data: Vec<f64>,
    shape: [usize; 2],
    strides: [isize; 2],
}

/// How the elements of a matrix lie.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rows,
    Columns,
    /// Rows at a distance that makes their lines share places in a cache.
    FarRows,
    /// Nothing side by side.
    Spread,
    /// Rows one after the other, the last one first.
    Backwards,
}

const ORDERS: [Order; 5] =
    [Order::Rows, Order::Columns, Order::FarRows, Order::Spread, Order::Backwards];

impl Matrix {
    fn new([rows, cols]: [usize; 2], order: Order, element: impl Fn(usize, usize) -> f64) -> Self {
        let (r, c) = (rows as isize, cols as isize);
        let strides = match order {
            Order::Rows => [c, 1],
            Order::Columns => [1, r],
            Order::FarRows => [cols.max(1).next_multiple_of(512) as isize, 1],
            Order::Spread => [3 * c + 1, 3],
            Order::Backwards => [-c, 1],
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

fn check([m, n, k]: [usize; 3], orders: [Order; 3], alpha: f64, beta: Option<f64>) {
    let a = Matrix::new([m, k], orders[0], number);
    let b = Matrix::new([k, n], orders[1], |row, col| number(col + 1, row));
    let before =
        Matrix::new(
            [m, n],
            orders[2],
            |row, col| {
                if beta.is_some() { number(col, row) } else { f64::NAN }
            },
        );
    for level in levels() {
        let mut c = before.clone();
        // SAFETY: the matrices lie in memories of their own, and the level was asked for.
        unsafe {
            product(
                level,
                c.view_mut(),
                a.view(),
                b.view(),
                alpha,
                beta.map_or(Start::Nothing, Start::Scaled),
            )
        };
        for row in 0..m {
            for col in 0..n {
                let sum: f64 = (0..k).map(|step| a.at(row, step) * b.at(step, col)).sum();
                let old = beta.map_or(0.0, |beta| beta * before.at(row, col));
                let case = format!("{level:?} {m}x{n}x{k} {orders:?} at {row}, {col}");
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
fn products_equal_the_naive_ones_in_every_arrangement() {
    for shape in [[1, 1, 1], [5, 3, 4], [14, 32, 2], [15, 33, 17], [30, 20, 330], [70, 9, 40]] {
        for a in ORDERS {
            for b in ORDERS {
                for c in [Order::Rows, Order::Columns, Order::Spread] {
                    check(shape, [a, b, c], 1.0, None);
                }
            }
        }
    }
}

#[test]
fn products_of_many_blocks_equal_the_naive_ones() {
    for shape in [[2, 1500, 5], [130, 40, 700], [250, 12, 12], [29, 65, 1000]] {
        for (a, b) in [(Order::Rows, Order::Rows), (Order::Columns, Order::FarRows)] {
            check(shape, [a, b, Order::Rows], 2.0, Some(-1.0));
            check(shape, [b, Order::Columns, Order::Columns], 1.0, Some(1.0));
        }
    }
}

#[test]
fn products_do_not_depend_on_how_they_are_cut() {
    let fraction = |row: usize, col: usize| 1.0 / (1 + row * 31 + col) as f64;
    let a = Matrix::new([61, 500], Order::Rows, fraction);
    let b = Matrix::new([500, 47], Order::Columns, fraction);
    for level in levels() {
        let mut whole = Matrix::new([61, 47], Order::Rows, |_, _| 0.0);
        // SAFETY: as in `check`.
        unsafe { product(level, whole.view_mut(), a.view(), b.view(), 1.0, Start::Nothing) };
        for rows in [1, 7, 16, 40] {
            let mut cut = Matrix::new([61, 47], Order::Rows, |_, _| 0.0);
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
                unsafe { product(level, to, from, b.view(), 1.0, Start::Nothing) };
            }
            assert_eq!(whole.data, cut.data, "{level:?}, {rows} rows first");
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let a = Matrix::new([2, 3], Order::Rows, number);
    let mut c = Matrix::new([2, 2], Order::Rows, number);
    let wrong = std::panic::catch_unwind(move || {
        // SAFETY: refused before anything is read.
        unsafe {
            product(Instructions::Portable, c.view_mut(), a.view(), a.view(), 1.0, Start::Nothing)
        };
    });
    assert!(wrong.is_err());
}
