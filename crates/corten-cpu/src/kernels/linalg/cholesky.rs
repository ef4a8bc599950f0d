//! Cholesky factors.

use super::matrices::{Number, adjoint, by_columns, each_with, shape};
use super::triangular::SUBTRACT;
use crate::gemm::{Mat, MatMut, gemm};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{Result, match_dtype};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;
use std::ops::Range;

/// Columns that are factored at a time; what is left of them is a matrix product.
const BLOCK: usize = 64;

/// Columns that are factored one by one.
const NARROW: usize = 16;

/// `A = L Lᴴ` or `Uᴴ U`, and the order of the first minor that is not positive.
///
/// # Errors
/// Those of the shapes; `LinAlg` where a matrix is not positive-definite, if that is checked;
/// `NotImplemented` for half precision.
pub fn linalg_cholesky_ex(
    self_: &Tensor,
    upper: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor)> {
    let (out, info) = shapes::linalg_cholesky_ex(self_, upper, check_errors)?;
    op::zero_(&info)?;
    let n = shape(self_)?[0];
    let work = if upper { by_columns(&adjoint(self_)?)? } else { op::copy_(&out, self_, false)? };
    match_dtype!(self_.dtype(), "cholesky_cpu", Blas, T => {
        each_with::<T, i32>(&work, (&info, 1), |_, a, info| {
            info[0] = lower_factor(n, a)?;
            Ok(())
        })
    })?;
    if upper {
        op::copy_(&out, &adjoint(&work)?, false)?;
    }
    if check_errors {
        shapes::check_info(&info, "linalg.cholesky_ex")?;
    }
    Ok((out, info))
}

/// Replaces a matrix, of which only the lower triangle is read, by its factor.
fn lower_factor<T: Number>(n: usize, a: &mut [T]) -> Result<i32> {
    let mut info = 0;
    for start in (0..n).step_by(BLOCK) {
        let width = BLOCK.min(n - start);
        let (left, rest) = a.split_at_mut(start * n);
        let panel = &mut rest[..width * n];
        if start > 0 {
            subtract(n, start, left, panel)?;
        }
        info = factor_columns(n, start..start + width, panel)?;
        if info != 0 {
            break;
        }
    }
    for col in 1..n {
        a[col * n..][..col].fill(T::zero());
    }
    Ok(info)
}

/// Factors some columns from which the earlier ones are subtracted: the left half, then the right half,
/// from which the left one is subtracted. Gives the order of the minor that fails, or 0.
fn factor_columns<T: Number>(n: usize, range: Range<usize>, columns: &mut [T]) -> Result<i32> {
    let (start, width) = (range.start, range.len());
    if width <= NARROW {
        let failed = f32::run(Panel { n, start, width, panel: columns });
        return Ok(failed.map_or(0, |failed| failed as i32 + 1));
    }
    let half = (width / 2).next_multiple_of(NARROW);
    let middle = start + half;
    let (left, right) = columns.split_at_mut(half * n);
    let info = factor_columns(n, start..middle, left)?;
    if info != 0 {
        return Ok(info);
    }
    subtract(n, middle, left, right)?;
    factor_columns(n, middle..range.end, right)
}

/// Subtracts what columns have of the earlier ones, from the row on that their first one has on the
/// diagonal.
fn subtract<T: Number>(n: usize, row: usize, earlier: &[T], columns: &mut [T]) -> Result<()> {
    let (depth, width) = (earlier.len() / n, columns.len() / n);
    let rows = Mat::strided(&earlier[row..], [n - row, depth], [1, n])?;
    let top = Mat::strided(&earlier[row..], [width, depth], [1, n])?;
    let target = MatMut::strided(&mut columns[row..], [n - row, width], [1, n])?;
    gemm(target, rows, top.t().conj(), SUBTRACT)
}

/// Factors columns from which the earlier ones are subtracted; gives the column that fails.
struct Panel<'a, T> {
    n: usize,
    start: usize,
    width: usize,
    panel: &'a mut [T],
}

impl<T: Number> RowKernel<f32> for Panel<'_, T> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> Option<usize> {
        let Self { n, start, width, panel } = self;
        for j in 0..width {
            let row = start + j;
            let (before, current) = panel.split_at_mut(j * n);
            let column = &mut current[..n];
            for earlier in before.chunks_exact(n) {
                let factor = earlier[row].conj();
                for (x, &y) in column[row..].iter_mut().zip(&earlier[row..]) {
                    *x = *x - y * factor;
                }
            }
            let pivot = column[row].re();
            if pivot <= T::Real::default_zero() || ComplexFloat::is_nan(pivot) {
                return Some(row);
            }
            let root = ComplexFloat::sqrt(T::real(pivot));
            column[row] = root;
            for x in &mut column[row + 1..] {
                *x = x.over(root);
            }
        }
        None
    }
}

/// The zero of real numbers.
trait Zero {
    fn default_zero() -> Self;
}

impl<R: num_complex::ComplexFloat> Zero for R {
    fn default_zero() -> Self {
        R::zero()
    }
}
