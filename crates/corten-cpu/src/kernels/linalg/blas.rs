//! What the algorithms of `corten-linalg` take from here: products, threads, buffers, and memory whose lack is
//! an error.

use super::matrices::Number;
use crate::gemm::{Factors, Mat, MatMut, Plan, gemm, gemm_in, parts_of, threads_for};
use crate::parallel::alone;
use crate::parallel::scratch::with_buffer;
use corten_core::{Result, Scalar, unwinding};
use corten_gemm::MAX_SKINNY;
use corten_linalg::{Blas, MatRef, Operand, Product, Run};
use corten_ops::parallel::parallel_for;
use std::panic::resume_unwind;

/// `c -= a b`.
const SUBTRACT: Factors = Factors { alpha: Scalar::Int(-1), beta: Scalar::Int(1) };

/// Parts of a matrix are cut at multiples of this many columns, so that tiles stay whole.
const SIDE: usize = 32;

/// The products and threads of this crate.
pub(super) struct Cpu;

/// Errors unwind where they cannot be returned, as those of [`unwinding`] do.
fn unwrapped(result: Result<()>) {
    if let Err(error) = result {
        resume_unwind(Box::new(error));
    }
}

/// Runs the parts of an algorithm in the thread pool.
pub(super) fn run(count: usize, part: &(dyn Fn(usize) + Sync)) {
    if count == 1 {
        return part(0);
    }
    unwrapped(parallel_for(0..count as i64, 1, |parts| {
        parts.for_each(|k| part(k as usize));
        Ok(())
    }));
}

fn factor<T>(operand: Operand<'_, T>) -> Mat<'_, T> {
    let matrix = Mat::from(operand.matrix);
    if operand.conjugated { matrix.conj() } else { matrix }
}

impl<T: Number> Blas<T> for Cpu {
    fn gemm(
        &self,
        c: corten_linalg::MatMut<'_, T>,
        a: Operand<'_, T>,
        b: Operand<'_, T>,
        product: Product,
    ) {
        let (c, a, b) = (MatMut::from(c), factor(a), factor(b));
        unwrapped(match product {
            Product::Overwrite => gemm(c, a, b, Factors::PRODUCT),
            Product::SubtractPart if b.shape()[1] > MAX_SKINNY => {
                gemm_in(Plan::BLOCKED, c, a, b, SUBTRACT)
            }
            Product::Subtract | Product::SubtractPart => gemm(c, a, b, SUBTRACT),
        });
    }

    fn copy(&self, to: corten_linalg::MatMut<'_, T>, from: MatRef<'_, T>) {
        // Vectors lie along the columns of the one or the rows of the other.
        let (to, from) = match to.row_stride() == 1 {
            true => (to.transpose_mut(), from.transpose()),
            false => (to, from),
        };
        unwrapped(MatMut::from(to).copy_of(from.into()));
    }

    fn zeros(&self, count: usize) -> Vec<T> {
        unwinding::vec(T::zero(), count)
    }

    fn with_buffer(&self, count: usize, body: &mut dyn FnMut(&mut [T])) {
        with_buffer(count, body);
    }

    fn alone(&self, body: &mut dyn FnMut()) {
        alone(body);
    }

    fn part_width(&self, columns: usize, work: usize) -> usize {
        let parts = threads_for(columns.saturating_mul(work));
        columns.div_ceil(parts).next_multiple_of(SIDE).max(SIDE)
    }

    fn parts(&self, columns: usize, width: usize) -> usize {
        parts_of(columns, width)
    }

    fn runner(&self) -> Run {
        run
    }
}
