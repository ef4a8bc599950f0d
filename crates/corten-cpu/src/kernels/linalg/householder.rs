//! Reflections: `H = 1 - τ v vᴴ`, with `v` below the diagonal of a column and 1 on it.

use super::matrices::{
    Number, adjoint, by_columns, each, each_with, fitted, fitted_vectors, in_columns, reading,
    reading_columns, shape,
};
use super::triangular::SUBTRACT;
use crate::gemm::{Factors, Mat, MatMut, gemm};
use crate::kernels::support::contiguous;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{Result, Scalar, match_dtype, try_vec, unwinding};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;

/// `R` on and above the diagonal, and the reflections that lead to it below.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn geqrf(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (out, tau) = shapes::geqrf(self_)?;
    op::copy_(&out, self_, false)?;
    let [rows, cols] = shape(self_)?;
    match_dtype!(self_.dtype(), "geqrf_cpu", Blas, T => {
        each_with::<T, T>(&out, (&tau, rows.min(cols)), |_, a, tau| {
            for (step, tau) in tau.chunks_mut(PANEL).enumerate() {
                let first = step * PANEL;
                let (panel, rest) = a[first * rows..].split_at_mut(tau.len() * rows);
                f32::run(Panel { panel: &mut *panel, rows, first, tau: &mut *tau });
                let block = CompactWy { columns: panel, rows, first, tau };
                block.apply(rest, true)?;
            }
            Ok(())
        })
    })?;
    Ok((out, tau))
}

/// Reflections that are applied at once, by matrix products.
const PANEL: usize = 32;

/// Below this many columns reflections are applied one after the other.
const FEW: usize = 8;

/// Finds the reflections of a few columns and applies them to these.
struct Panel<'a, T> {
    panel: &'a mut [T],
    rows: usize,
    first: usize,
    tau: &'a mut [T],
}

impl<T: Number> RowKernel<f32> for Panel<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { panel, rows, first, tau } = self;
        for (j, tau) in tau.iter_mut().enumerate() {
            let (column, rest) = panel[j * rows..].split_at_mut(rows);
            let start = first + j;
            *tau = reflect(&mut column[start..]);
            for other in rest.chunks_exact_mut(rows) {
                apply(&column[start..], tau.conj(), &mut other[start..]);
            }
        }
    }
}

/// Successive reflections: the product `H1 H2 …` is `1 - V T Vᴴ` with an upper triangle `T`
/// (Schreiber and Van Loan, "A storage-efficient WY representation", 1989).
struct CompactWy<'a, T> {
    /// The columns that hold the vectors, of `rows` numbers each.
    columns: &'a [T],
    rows: usize,
    /// The row in which the first vector starts.
    first: usize,
    tau: &'a [T],
}

impl<T: Number> CompactWy<'_, T> {
    /// Multiplies columns of `rows` numbers with the product, or its adjoint, from the left.
    fn apply(&self, x: &mut [T], adjoint: bool) -> Result<()> {
        let (rows, first, count) = (self.rows, self.first, self.tau.len());
        let columns = x.len() / rows;
        if columns < FEW || count < FEW {
            f32::run(Singly { block: self, x, adjoint });
            return Ok(());
        }
        let height = rows - first;
        let vectors = self.vectors(height);
        let v = Mat::strided(&vectors, [height, count], [1, height])?;
        // W = Vᴴ X, then op(T) W, then X -= V W.
        let mut w = try_vec(T::zero(), count * columns)?;
        let target = MatMut::strided(&mut w, [count, columns], [1, count])?;
        let seen = Mat::strided(&x[first..], [height, columns], [1, rows])?;
        gemm(target, v.t().conj(), seen, Factors::PRODUCT)?;
        let triangle = self.triangle(v)?;
        let triangle = Mat::strided(&triangle, [count, count], [1, count])?;
        let triangle = if adjoint { triangle.t().conj() } else { triangle };
        let mut turned = try_vec(T::zero(), count * columns)?;
        let target = MatMut::strided(&mut turned, [count, columns], [1, count])?;
        let w = Mat::strided(&w, [count, columns], [1, count])?;
        gemm(target, triangle, w, Factors::PRODUCT)?;
        let w = Mat::strided(&turned, [count, columns], [1, count])?;
        let target = MatMut::strided(&mut x[first..], [height, columns], [1, rows])?;
        gemm(target, v, w, SUBTRACT)
    }

    /// The vectors from row `first` on, with their ones and zeros.
    fn vectors(&self, height: usize) -> Vec<T> {
        let mut vectors = unwinding::vec(T::zero(), height * self.tau.len());
        for (j, vector) in vectors.chunks_exact_mut(height).enumerate() {
            vector[j] = T::one();
            let column = &self.columns[j * self.rows..][..self.rows];
            vector[j + 1..].copy_from_slice(&column[self.first + j + 1..]);
        }
        vectors
    }

    /// `T`, by columns: `T[..j, j] = -τ T[..j, ..j] V[.., ..j]ᴴ v`.
    fn triangle(&self, v: Mat<'_, T>) -> Result<Vec<T>> {
        let count = self.tau.len();
        let mut products = try_vec(T::zero(), count * count)?;
        let target = MatMut::strided(&mut products, [count, count], [1, count])?;
        gemm(target, v.t().conj(), v, Factors::PRODUCT)?;
        let mut triangle = try_vec(T::zero(), count * count)?;
        for (j, &tau) in self.tau.iter().enumerate() {
            for row in 0..j {
                let mut sum = T::zero();
                for k in row..j {
                    sum = sum + triangle[k * count + row] * products[j * count + k];
                }
                triangle[j * count + row] = -(tau * sum);
            }
            triangle[j * count + j] = tau;
        }
        Ok(triangle)
    }
}

/// A few reflections, one after the other.
struct Singly<'a, T> {
    block: &'a CompactWy<'a, T>,
    x: &'a mut [T],
    adjoint: bool,
}

impl<T: Number> RowKernel<f32> for Singly<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { block, x, adjoint } = self;
        let count = block.tau.len();
        for step in 0..count {
            let j = if adjoint { step } else { count - 1 - step };
            let factor = if adjoint { block.tau[j].conj() } else { block.tau[j] };
            let start = block.first + j;
            let vector = &block.columns[j * block.rows + start..(j + 1) * block.rows];
            for column in x.chunks_exact_mut(block.rows) {
                apply(vector, factor, &mut column[start..]);
            }
        }
    }
}

/// Makes the reflection that takes a vector to a multiple of the first unit vector: the factor is
/// left in front, the reflection's vector behind it.
#[inline(always)]
fn reflect<T: Number>(x: &mut [T]) -> T {
    let zero = <T::Real as num_complex::ComplexFloat>::re(T::zero().re());
    let alpha = x[0];
    let largest =
        x.iter().fold(zero, |most, value| if value.size() > most { value.size() } else { most });
    let tail = x[1..].iter().any(|&value| value != T::zero());
    if !tail && alpha.im() == zero {
        return T::zero();
    }
    // Scaled, so that no square leaves the range.
    let scaled = x.iter().map(|&value| ComplexFloat::abs(value.over(T::real(largest))));
    let norm = ComplexFloat::sqrt(scaled.fold(zero, |sum, size| sum + size * size)) * largest;
    let beta = T::real(if alpha.re() >= zero { -norm } else { norm });
    let tau = (beta - alpha).over(beta);
    let divisor = alpha - beta;
    x[1..].iter_mut().for_each(|value| *value = value.over(divisor));
    x[0] = beta;
    tau
}

/// `x = (1 - τ v vᴴ) x`, the first number of `v` taken as 1.
#[inline(always)]
fn apply<T: Number>(v: &[T], tau: T, x: &mut [T]) {
    if tau == T::zero() {
        return;
    }
    let factor = tau * (x[0] + dot(&v[1..], &x[1..]));
    x[0] = x[0] - factor;
    for (&v, x) in v[1..].iter().zip(&mut x[1..]) {
        *x = *x - v * factor;
    }
}

/// `vᴴ x`, in partial sums that do not wait for each other.
#[inline(always)]
fn dot<T: Number>(v: &[T], x: &[T]) -> T {
    let mut sums = [T::zero(); 8];
    let ((v, v_rest), (x, x_rest)) = (v.as_chunks::<8>(), x.as_chunks::<8>());
    for (v, x) in v.iter().zip(x) {
        for (sum, (v, x)) in sums.iter_mut().zip(v.iter().zip(x)) {
            *sum = *sum + v.conj() * *x;
        }
    }
    let rest = v_rest.iter().zip(x_rest).fold(T::zero(), |sum, (v, x)| sum + v.conj() * *x);
    sums.into_iter().fold(rest, |all, sum| all + sum)
}

/// The first columns of the product of reflections.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn linalg_householder_product(input: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let out = shapes::linalg_householder_product(input, tau)?;
    op::zero_(&out)?;
    op::fill__scalar(&op::diagonal(&out, 0, -2, -1)?, Scalar::Int(1))?;
    multiply(input, tau, &out, false, "orgqr_cpu")?;
    Ok(out)
}

/// The product of reflections times other matrices, on the left or the right, or its adjoint.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn ormqr(
    self_: &Tensor,
    input2: &Tensor,
    input3: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Tensor> {
    let out = shapes::ormqr(self_, input2, input3, left, transpose)?;
    if left {
        op::copy_(&out, input3, false)?;
        multiply(self_, input2, &out, transpose, "ormqr_cpu")?;
        return Ok(out);
    }
    // `C Q` is `(Qᴴ Cᴴ)ᴴ`.
    let work = by_columns(&adjoint(input3)?)?;
    multiply(self_, input2, &work, !transpose, "ormqr_cpu")?;
    op::copy_(&out, &adjoint(&work)?, false)
}

/// Multiplies matrices that lie by columns with `H1 H2 …` or its adjoint.
fn multiply(
    input: &Tensor,
    tau: &Tensor,
    out: &Tensor,
    adjoint: bool,
    name: &'static str,
) -> Result<()> {
    if out.numel() == 0 || tau.numel() == 0 {
        return Ok(());
    }
    let sizes = out.sizes();
    let batch = &sizes[..sizes.len() - 2];
    let rows = shape(out)?[0];
    let vectors = in_columns(&fitted(input, batch)?)?;
    let count = tau.size(-1)? as usize;
    let tau = contiguous(&fitted_vectors(tau, batch)?)?;
    match_dtype!(out.dtype(), name, Blas, T => {
        reading::<T, _>(&tau, count, |tau| reading_columns::<T, _>(&vectors, |vectors| {
            each::<T>(out, |i, x| {
                let (vectors, tau) = (vectors.get(i), tau.get(i));
                let blocks = count.div_ceil(PANEL);
                for step in 0..blocks {
                    let block = if adjoint { step } else { blocks - 1 - step };
                    let first = block * PANEL;
                    let own = first..(first + PANEL).min(count);
                    let columns = &vectors[first * rows..own.end * rows];
                    CompactWy { columns, rows, first, tau: &tau[own] }.apply(x, adjoint)?;
                }
                Ok(())
            })
        }))
    })
}
