//! What tests are made of.

use crate::blas::{Blas, Operand, Product, Run};
use crate::parallel::alone;
use faer::linalg::matmul::matmul_with_conj;
use faer::traits::ComplexField;
use faer::{Accum, Conj, MatMut, MatRef, Par};

/// Products of `faer`, on one thread or on one for every part.
pub(crate) struct TestBlas(Run);

pub(crate) const ALONE: TestBlas = TestBlas(alone);
pub(crate) const ABREAST: TestBlas = TestBlas(abreast);

impl<T: ComplexField + Copy> Blas<T> for TestBlas {
    fn gemm(&self, c: MatMut<'_, T>, a: Operand<'_, T>, b: Operand<'_, T>, product: Product) {
        let (accumulate, factor) = match product {
            Product::Overwrite => (Accum::Replace, T::one_impl()),
            Product::Subtract | Product::SubtractPart => (Accum::Add, -T::one_impl()),
        };
        let conj = |conjugated| if conjugated { Conj::Yes } else { Conj::No };
        let (a, conj_a, b, conj_b) = (a.matrix, conj(a.conjugated), b.matrix, conj(b.conjugated));
        matmul_with_conj(c, accumulate, a, conj_a, b, conj_b, factor, Par::Seq);
    }

    fn copy(&self, mut to: MatMut<'_, T>, from: MatRef<'_, T>) {
        for col in 0..from.ncols() {
            for row in 0..from.nrows() {
                to[(row, col)] = from[(row, col)];
            }
        }
    }

    fn zeros(&self, count: usize) -> Vec<T> {
        vec![T::zero_impl(); count]
    }

    fn with_buffer(&self, count: usize, body: &mut dyn FnMut(&mut [T])) {
        body(&mut vec![T::nan_impl(); count]);
    }

    fn alone(&self, body: &mut dyn FnMut()) {
        body();
    }

    fn part_width(&self, columns: usize, _: usize) -> usize {
        columns.div_ceil(3).max(1)
    }

    fn parts(&self, columns: usize, width: usize) -> usize {
        columns.div_ceil(width).max(1)
    }

    fn runner(&self) -> Run {
        self.0
    }
}

/// A thread for every part.
pub(crate) fn abreast(count: usize, part: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        for k in 0..count {
            scope.spawn(move || part(k));
        }
    });
}

/// Numbers between -1 and 1 without a pattern, others for every start.
pub(crate) fn scattered_from(mut state: u32, count: usize) -> Vec<f64> {
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 23) - 1.0
        })
        .collect()
}

/// Diagonals of so many rows with what is beside them: random, constant, with gaps, graded, with values in
/// pairs that differ in the last digit, and hardly coupled, down to the smallest numbers.
pub(crate) fn bands(n: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
    let (d, e) = scattered_band(n);
    let middle = |k: usize| (k as f64 - 0.5 * (n - 1) as f64).abs() / n as f64;
    let every = |step: usize| (0..n - 1).map(move |k| f64::from(u8::from(k % step != step - 1)));
    vec![
        (d.clone(), e.clone()),
        (vec![0.5; n], vec![0.25; n - 1]),
        (vec![0.0; n], vec![1.0; n - 1]),
        (vec![1.0; n], vec![0.0; n - 1]),
        (d.clone(), vec![0.0; n - 1]),
        (d.clone(), every(5).collect()),
        (powers(0.7, n), powers(0.7, n - 1)),
        ((0..n).map(middle).collect(), vec![1.0 / n as f64; n - 1]),
        ((0..n).map(|k| middle(k % 21) * 4.0).collect(), every(21).map(|x| x + 1e-8).collect()),
        (d.clone(), e.iter().map(|x| x * 1e-9).collect()),
        (vec![1.0; n], e.iter().map(|x| x * 1e-15).collect()),
        (vec![0.0; n], e.iter().map(|x| x * x.abs().powi(400)).collect()),
        (d.iter().map(|x| (x * 4.0).round()).collect(), e.iter().map(|x| x * 1e-4).collect()),
    ]
}

/// A random diagonal of so many rows, and what is beside it.
pub(crate) fn scattered_band(n: usize) -> (Vec<f64>, Vec<f64>) {
    let random = scattered_from(7, 2 * n);
    (random[..n].to_vec(), random[n + 1..].to_vec())
}

/// So many powers of a number, from the power 0 on.
pub(crate) fn powers(base: f64, count: usize) -> Vec<f64> {
    (0..count).map(|k| base.powi(k as i32)).collect()
}

/// How far the columns of a basis are from orthogonal ones of length one.
pub(crate) fn farthest_from_orthogonal(rows: usize, basis: &[f64]) -> f64 {
    let mut farthest = 0.0_f64;
    for (i, one) in basis.chunks_exact(rows).enumerate() {
        for (j, other) in basis.chunks_exact(rows).enumerate().take(i + 1) {
            let product: f64 = one.iter().zip(other).map(|(x, y)| x * y).sum();
            let off = (product - f64::from(u8::from(i == j))).abs();
            // What is not a number stays.
            if off > farthest || off.is_nan() {
                farthest = off;
            }
        }
    }
    farthest
}
