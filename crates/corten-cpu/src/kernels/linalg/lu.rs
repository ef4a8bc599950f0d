//! Factors of square and rectangular matrices by rows exchanged, and systems solved with them.

use super::matrices::{
    Number, each, each_with_two, fitted, fitted_vectors, in_columns, match_number, over_columns,
    reading, reading_columns, shape,
};
use super::triangular::{SUBTRACT, Triangle};
use crate::gemm::{Mat, MatMut, gemm};
use crate::kernels::support::contiguous;
use crate::row_loops::{Job, Vectorised};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, DType, Result, Scalar, ensure};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use std::ops::Range;

/// Columns that are factored one by one: with the rows of a matrix of middle size they fit a
/// first-level cache.
const BLOCK: usize = 16;

/// Multiplications that take as long as an exchange of two numbers.
const EXCHANGE: usize = 16;

/// Numbers that are compared side by side.
const LANES: usize = 16;

/// `P A = L U` in one matrix, the rows exchanged, counted from 1, and the first zero of the
/// diagonal of `U`, counted from 1.
///
/// # Errors
/// Those of the shapes; `Runtime` where there is a zero, if that is checked; `NotImplemented` for
/// half precision.
pub fn linalg_lu_factor_ex(
    a: &Tensor,
    pivot: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (out, pivots, info) = shapes::linalg_lu_factor_ex(a, pivot, check_errors)?;
    op::copy_(&out, a, false)?;
    op::zero_(&info)?;
    let [rows, cols] = shape(a)?;
    match_number!(a.dtype(), "lu_cpu", T => {
        let vectors = (&pivots, rows.min(cols));
        each_with_two::<T, i32, i32>(&out, vectors, (&info, 1), |_, a, pivots, info| {
            info[0] = factor(rows, cols, a, pivots)?;
            Ok(())
        })
    })?;
    if check_errors {
        shapes::check_info(&info, "torch.linalg.lu_factor_ex")?;
    }
    Ok((out, pivots, info))
}

fn factor<T: Number>(rows: usize, cols: usize, a: &mut [T], pivots: &mut [i32]) -> Result<i32> {
    let steps = rows.min(cols);
    let (factored, rest) = a.split_at_mut(steps * rows);
    let mut info = 0;
    factor_columns(rows, 0..steps, factored, pivots, &mut info)?;
    if !rest.is_empty() {
        take_out(rows, 0..steps, factored, pivots, rest)?;
    }
    Ok(info)
}

/// Factors some columns, whose rows above them are done: the left half, then the right half, from
/// which the left one has been taken out. So most of the work is products of large matrices (Toledo,
/// "Locality of Reference in LU Decomposition with Partial Pivoting", 1997).
fn factor_columns<T: Number>(
    rows: usize,
    range: Range<usize>,
    columns: &mut [T],
    pivots: &mut [i32],
    info: &mut i32,
) -> Result<()> {
    if range.len() <= BLOCK {
        factor_panel(rows, range.start, columns, pivots, info);
        return Ok(());
    }
    let half = (range.len() / 2).next_multiple_of(BLOCK);
    let middle = range.start + half;
    let (left, right) = columns.split_at_mut(half * rows);
    let (left_pivots, right_pivots) = pivots.split_at_mut(half);
    factor_columns(rows, range.start..middle, left, left_pivots, info)?;
    take_out(rows, range.start..middle, left, left_pivots, right)?;
    factor_columns(rows, middle..range.end, right, right_pivots, info)?;
    over_columns([(left, rows)], half, right_pivots.len() * EXCHANGE, |_, [left]| {
        exchange(left, rows, middle, right_pivots);
        Ok(())
    })
}

fn factor_panel<T: Number>(
    rows: usize,
    start: usize,
    panel: &mut [T],
    pivots: &mut [i32],
    info: &mut i32,
) {
    for (own, pivot) in pivots.iter_mut().enumerate() {
        let j = start + own;
        let column = &panel[own * rows..][..rows];
        let found = j + f32::run(Largest { column: &column[j..] });
        *pivot = found as i32 + 1;
        if found != j {
            panel.chunks_exact_mut(rows).for_each(|column| column.swap(j, found));
        }
        if !f32::run(Elimination { panel: &mut *panel, rows, j, own }) && *info == 0 {
            *info = j as i32 + 1;
        }
    }
}

/// Exchanges the rows of the columns on the right as those on the left, which are factored, solves for
/// the rows that are done with that, and subtracts what the others have of them.
fn take_out<T: Number>(
    rows: usize,
    done: Range<usize>,
    left: &[T],
    pivots: &[i32],
    right: &mut [T],
) -> Result<()> {
    let (width, count) = (right.len() / rows, done.len());
    let triangle = lower(&left[done.start..], count, rows, false, false);
    let mut top = vec![T::zero(); width * count];
    let matrices = [(&mut *right, rows), (&mut top[..], count)];
    over_columns(matrices, width, triangle.work() + count * EXCHANGE, |columns, [right, top]| {
        exchange(right, rows, done.start, pivots);
        triangle.solve(&mut right[done.start..], columns.len(), rows)?;
        for (column, top) in right.chunks_exact(rows).zip(top.chunks_exact_mut(count)) {
            top.copy_from_slice(&column[done.clone()]);
        }
        Ok(())
    })?;
    if done.end == rows {
        return Ok(());
    }
    let top = Mat::strided(&top, [count, width], [1, count])?;
    let factors = Mat::strided(&left[done.end..], [rows - done.end, count], [1, rows])?;
    let shape = [rows - done.end, width];
    gemm(MatMut::strided(&mut right[done.end..], shape, [1, rows])?, factors, top, SUBTRACT)
}

/// The place of the largest number, the first of them; the first place where there is no number.
struct Largest<'a, T> {
    column: &'a [T],
}

impl<T: Number> Job<f32> for Largest<'_, T> {
    type Out = usize;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> usize {
        let first = self.column[0].size();
        let mut most = [first; LANES];
        let chunks = self.column.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (most, value) in most.iter_mut().zip(chunk) {
                *most = if value.size() > *most { value.size() } else { *most };
            }
        }
        let mut largest = first;
        for size in most.into_iter().chain(rest.iter().map(|value| value.size())) {
            largest = if size > largest { size } else { largest };
        }
        self.column.iter().position(|value| value.size() == largest).unwrap_or(0)
    }
}

/// One step of elimination within a panel; whether the pivot is not zero.
struct Elimination<'a, T> {
    panel: &'a mut [T],
    rows: usize,
    j: usize,
    own: usize,
}

impl<T: Number> Job<f32> for Elimination<'_, T> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> bool {
        let Self { panel, rows, j, own } = self;
        let (before, after) = panel.split_at_mut((own + 1) * rows);
        let column = &mut before[own * rows..];
        let pivot = column[j];
        let fine = pivot != T::zero();
        if fine {
            column[j + 1..].iter_mut().for_each(|x| *x = *x / pivot);
        }
        for other in after.chunks_exact_mut(rows) {
            let factor = other[j];
            if factor == T::zero() {
                continue;
            }
            for (x, &l) in other[j + 1..].iter_mut().zip(&column[j + 1..]) {
                *x = *x - l * factor;
            }
        }
        fine
    }
}

/// Exchanges rows from the `first` on by their pivots.
fn exchange<T>(columns: &mut [T], rows: usize, first: usize, pivots: &[i32]) {
    for column in columns.chunks_exact_mut(rows) {
        for (i, &pivot) in (first..).zip(pivots) {
            column.swap(i, pivot as usize - 1);
        }
    }
}

fn exchange_back<T>(columns: &mut [T], rows: usize, pivots: &[i32]) {
    for column in columns.chunks_exact_mut(rows) {
        for (i, &pivot) in pivots.iter().enumerate().rev() {
            column.swap(i, pivot as usize - 1);
        }
    }
}

fn lower<T>(
    data: &[T],
    size: usize,
    stride: usize,
    transposed: bool,
    conjugated: bool,
) -> Triangle<'_, T> {
    Triangle { data, size, stride, upper: false, unit: true, transposed, conjugated }
}

/// Systems with matrices of which the factors are known.
///
/// # Errors
/// Those of the shapes; `Runtime` for pivots that are no rows.
pub fn linalg_lu_solve(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_lu_solve(lu, pivots, b, left, adjoint)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    // `X op(A) = B` is solved as `op(A)ᵀ Xᵀ = Bᵀ`.
    let work = if left { out.clone() } else { op::transpose_int(&out, -2, -1)? };
    let sizes = work.sizes();
    let batch = &sizes[..sizes.len() - 2];
    let factors = in_columns(&fitted(lu, batch)?)?;
    let pivots = contiguous(&fitted_vectors(pivots, batch)?)?;
    let [n, cols] = shape(&work)?;
    match_number!(out.dtype(), "linalg_lu_solve", T => {
        reading::<i32, _>(&pivots, n, |pivots| reading_columns::<T, _>(&factors, |factors| {
            each::<T>(&work, |i, x| {
                let (factors, pivots) = (factors.get(i), pivots.get(i));
                check_pivots(pivots, n)?;
                solve_with(factors, pivots, n, x, cols, left == adjoint, adjoint)
            })
        }))
    })?;
    Ok(out)
}

fn check_pivots(pivots: &[i32], n: usize) -> Result<()> {
    ensure!(
        pivots.iter().all(|&pivot| pivot >= 1),
        Runtime,
        "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the \
         result of lu_factor?"
    );
    ensure!(
        pivots.iter().all(|&pivot| pivot as usize <= n),
        Runtime,
        "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly \
         pass the result of lu_factor?"
    );
    Ok(())
}

fn solve_with<T: Number>(
    factors: &[T],
    pivots: &[i32],
    n: usize,
    x: &mut [T],
    cols: usize,
    transposed: bool,
    conjugated: bool,
) -> Result<()> {
    let lower = lower(factors, n, n, transposed, conjugated);
    let upper = Triangle { upper: true, unit: false, ..lower };
    over_columns([(x, n)], cols, lower.work() + upper.work(), |columns, [x]| {
        if transposed {
            upper.solve(x, columns.len(), n)?;
            lower.solve(x, columns.len(), n)?;
            exchange_back(x, n, pivots);
        } else {
            exchange(x, n, 0, pivots);
            lower.solve(x, columns.len(), n)?;
            upper.solve(x, columns.len(), n)?;
        }
        Ok(())
    })
}

/// The three factors of `A = P L U`, from those in one matrix.
///
/// # Errors
/// Those of the shapes; `Runtime` for pivots that are no rows.
pub fn lu_unpack(
    lu_data: &Tensor,
    lu_pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (p, l, u) = shapes::lu_unpack(lu_data, lu_pivots, unpack_data, unpack_pivots)?;
    let [rows, cols] = shape(lu_data)?;
    let steps = rows.min(cols) as i64;
    if unpack_data {
        op::copy_(&u, &op::triu(&op::narrow(lu_data, -2, 0, steps)?, 0)?, false)?;
        op::copy_(&l, &op::tril(&op::narrow(lu_data, -1, 0, steps)?, -1)?, false)?;
        op::fill__scalar(&op::diagonal(&l, 0, -2, -1)?, Scalar::Int(1))?;
    }
    if unpack_pivots {
        op::zero_(&p)?;
        permutations(&contiguous(lu_pivots)?, &p, rows, steps as usize)?;
    }
    Ok((p, l, u))
}

/// Sets the ones of permutation matrices of `rows` rows.
fn permutations(pivots: &Tensor, out: &Tensor, rows: usize, steps: usize) -> Result<()> {
    let places = op::empty_memory_format(
        &[out.numel() / (rows.max(1) as i64)],
        Some(DType::Int64),
        None,
        Some(out.device()),
        None,
        None,
    )?;
    {
        let set =
            AccessSet::acquire(&[(pivots.base(), Access::Read), (places.base(), Access::Write)])?;
        let (pivots, places) = (set.read::<i32>(0)?, set.write::<i64>(1)?);
        for (i, order) in places.chunks_exact_mut(rows.max(1)).enumerate() {
            (0..).zip(order.iter_mut()).for_each(|(row, place)| *place = row);
            for (step, &pivot) in pivots[i * steps..][..steps].iter().enumerate() {
                ensure!(
                    pivot >= 1 && pivot as usize <= rows,
                    Runtime,
                    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did \
                     you properly pass the result of lu_factor?"
                );
                order.swap(step, pivot as usize - 1);
            }
        }
    }
    let sizes = out.sizes();
    let places = op::reshape(&places, &sizes[..sizes.len() - 1])?;
    op::scatter__value(out, -2, &op::unsqueeze(&places, -2)?, Scalar::Int(1)).map(drop)
}
