//! Factors of square and rectangular matrices by rows exchanged, and systems solved with them.

use super::blas::Cpu;
use super::matrices::{
    each, each_with_two, fitted, fitted_vectors, in_columns, in_rows, reading, reading_columns,
    shape,
};
use crate::kernels::support::contiguous;
use corten_core::{Access, AccessSet, DType, Result, Scalar, ensure, match_dtype};
use corten_linalg::Lapack;
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

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
    op::zero_(&info)?;
    if a.numel() == 0 {
        return Ok((out, pivots, info));
    }
    let [rows, cols] = shape(a)?;
    let source = in_rows(a)?;
    match_dtype!(a.dtype(), "lu_cpu", Blas, T => reading::<T, _>(&source, rows * cols, |source| {
        let vectors = (&pivots, rows.min(cols));
        each_with_two::<T, i32, i32>(&out, vectors, (&info, 1), |i, out, pivots, info| {
            info[0] = T::getrf(&Cpu, source.get(i), [rows, cols], out, pivots);
            Ok(())
        })
    }))?;
    if check_errors {
        shapes::check_info(&info, "torch.linalg.lu_factor_ex")?;
    }
    Ok((out, pivots, info))
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
    let n = shape(&work)?[0];
    match_dtype!(out.dtype(), "linalg_lu_solve", Blas, T => {
        reading::<i32, _>(&pivots, n, |pivots| reading_columns::<T, _>(&factors, |factors| {
            each::<T>(&work, |i, x| {
                let (factors, pivots) = (factors.get(i), pivots.get(i));
                check_pivots(pivots, n)?;
                T::getrs(&Cpu, factors, pivots, x, left == adjoint, adjoint);
                Ok(())
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
