//! Eigenvalues and singular values by Jacobi rotations.

use super::factor::{apply_reflections, per_column, per_matrix, qr};
use super::matrices::{adjoint, block, by_columns, identity, in_parts, set_diagonal, sizes};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::{Operands, empty, zeros};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar};
use corten_ops::{Tensor, op};

const TEXT: &[&str] = &[text::LINALG, text::JACOBI];
static JACOBI: Template = Template { name: "jacobi", text: TEXT };
static STEP: Template = Template { name: "jacobi_step", text: TEXT };
static RAYLEIGH: Template = Template { name: "rayleigh", text: TEXT };
static COMPLETE: Template = Template { name: "complete_basis", text: TEXT };

/// Up to so many columns all sweeps of a matrix are done in one launch.
const WHOLE: u32 = 128;
/// Sweeps after which matrices count as not convergent.
const SWEEPS: u32 = 40;

/// `JacobiShape` of `jacobi.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rotations {
    rows: u32,
    columns: u32,
    basis_rows: u32,
    column: i64,
    basis_column: i64,
    batch: i64,
    basis_batch: i64,
    tolerance: f64,
    least: f64,
}

/// What of a matrix of the batch was found wrong, and in which.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    NotFinite(usize),
    NotConvergent(usize),
}

/// A result, or the first matrix that has none.
pub(super) type Found<T> = std::result::Result<T, Trouble>;

fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::Float64 | DType::Complex128 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// The length up to which a column counts as zero, where the largest number is 1: squares of smaller numbers are
/// not normal ones.
fn least(dtype: DType) -> f64 {
    if epsilon(dtype) < 1e-10 { 1e-150 } else { 1e-18 }
}

/// The index of the first truth of a device's vector; the host waits for it.
fn first_true(flags: &Tensor) -> Result<Option<usize>> {
    let flags = op::to_dtype(flags, DType::Int64, false, false, None)?;
    Ok(flags.to_vec::<i64>()?.iter().position(|&flag| flag != 0))
}

/// Makes the columns of matrices orthogonal, and rotates those of `basis` with them where it is defined.
fn rotate(a: &Tensor, basis: &Tensor) -> Result<Option<usize>> {
    let [count, rows, columns] = sizes(a)?;
    let info = zeros(&[i64::from(count)], DType::Int32, a)?;
    if columns < 2 {
        return Ok(None);
    }
    let tolerance = epsilon(a.dtype()) * f64::from(rows).sqrt();
    let basis_rows = if basis.defined() { sizes(basis)?[1] } else { 0 };
    let numbers = Rotations {
        rows,
        columns,
        basis_rows,
        column: i64::from(rows),
        basis_column: i64::from(basis_rows),
        batch: i64::from(rows) * i64::from(columns),
        basis_batch: i64::from(basis_rows) * i64::from(columns),
        tolerance,
        least: least(a.dtype()).powi(2),
    };
    if columns <= WHOLE {
        sweep_whole(a, basis, &info, numbers)?;
        return first_true(&info);
    }
    for _ in 0..SWEEPS {
        op::zero_(&info)?;
        sweep_by_steps(a, basis, &info, numbers)?;
        if first_true(&info)?.is_none() {
            return Ok(None);
        }
    }
    first_true(&info)
}

fn sweep_whole(a: &Tensor, basis: &Tensor, info: &Tensor, mut numbers: Rotations) -> Result<()> {
    let held =
        Operands::hold(&[(a, Access::Write), (basis, Access::Write), (info, Access::Write)])?;
    let (mut data, mut basis_at, mut info_at) = (held.at(0), held.at(1), held.at(2));
    let mut sweeps = SWEEPS;
    let [count, _, columns] = sizes(a)?;
    let threads = (columns.div_ceil(2) * 32).min(THREADS);
    let shape = Shape { block: [threads, 1, 1], ..per_matrix(count) };
    let stream = Stream::current(a.device().index);
    // SAFETY: matrices and bases lie by columns and have the sizes that the numbers tell; all are held.
    unsafe {
        let parameters = parameters!(data, basis_at, numbers, sweeps, info_at);
        JACOBI.launch(&[Argument::Value(a.dtype())], shape, stream, parameters)?;
    }
    drop(held);
    Ok(())
}

fn sweep_by_steps(a: &Tensor, basis: &Tensor, info: &Tensor, numbers: Rotations) -> Result<()> {
    let absent = Tensor::undefined();
    let mut tensors = vec![a, info];
    if basis.defined() {
        tensors.push(basis);
    }
    in_parts(&tensors, |parts| {
        let [a, info, ..] = parts else { return Ok(()) };
        let basis = parts.get(2).unwrap_or(&absent);
        let held =
            Operands::hold(&[(a, Access::Write), (basis, Access::Write), (info, Access::Write)])?;
        let (mut data, mut basis_at, mut info_at) = (held.at(0), held.at(1), held.at(2));
        let [count, _, columns] = sizes(a)?;
        let (mut numbers, shape) = (numbers, per_column(columns.div_ceil(2), count));
        let stream = Stream::current(a.device().index);
        for step in 0..columns.next_multiple_of(2) - 1 {
            let mut step = step;
            // SAFETY: as in `sweep_whole`.
            unsafe {
                let parameters = parameters!(data, basis_at, numbers, step, info_at);
                STEP.launch(&[Argument::Value(a.dtype())], shape, stream, parameters)?;
            }
        }
        drop(held);
        Ok(())
    })
}

/// Matrices divided by their largest numbers, and these, [batch, 1, 1]; 1 for a matrix of zeros.
fn scaled(a: &Tensor) -> Result<Found<(Tensor, Tensor)>> {
    let largest = op::amax(&op::abs(a)?, &[1, 2], true)?;
    let unfit = op::logical_not(&op::isfinite(&largest)?)?;
    if let Some(index) = first_true(&op::reshape(&unfit, &[-1])?)? {
        return Ok(Err(Trouble::NotFinite(index)));
    }
    let zero = op::eq_scalar(&largest, Scalar::Int(0))?;
    op::masked_fill__scalar(&largest, &zero, Scalar::Int(1))?;
    Ok(Ok((by_columns(&op::div_tensor(a, &largest)?)?, largest)))
}

/// The columns of matrices in an order, [batch, columns].
fn ordered(matrices: &Tensor, order: &Tensor) -> Result<Tensor> {
    let sizes = matrices.sizes();
    let order = op::expand(&op::unsqueeze(order, 1)?, &sizes, false)?;
    by_columns(&op::gather(matrices, 2, &order, false)?)
}

/// Eigenvalues, the smallest first, and eigenvectors of Hermitian matrices [batch, n, n].
pub(super) fn eigh(a: &Tensor) -> Result<Found<(Tensor, Tensor)>> {
    let (a, scale) = match scaled(a)? {
        Ok(found) => found,
        Err(trouble) => return Ok(Err(trouble)),
    };
    let [count, n, _] = sizes(&a)?;
    // Eigenvalues shifted to be positive are singular values; the largest sum of a row bounds them.
    let sums = op::sum_dim_intlist(&op::abs(&a)?, Some(&[1]), true, None)?;
    let bound = op::amax(&sums, &[2], false)?;
    let shift = op::mul_scalar(&bound, Scalar::Float(1.25))?;
    let zero = op::eq_scalar(&shift, Scalar::Int(0))?;
    op::masked_fill__scalar(&shift, &zero, Scalar::Int(1))?;
    let shifted = by_columns(&a)?;
    op::add__tensor(&op::diagonal(&shifted, 0, -2, -1)?, &shift, Scalar::Int(1))?;
    let basis = identity(i64::from(count), [i64::from(n); 2], &a)?;
    if let Some(index) = rotate(&shifted, &basis)? {
        return Ok(Err(Trouble::NotConvergent(index)));
    }
    let values = empty(&[i64::from(count), i64::from(n)], a.dtype().to_real(), &a)?;
    in_parts(&[&values, &a, &basis], |parts| {
        let [values, a, basis] = parts else { return Ok(()) };
        let [count, mut n, _] = sizes(a)?;
        let held =
            Operands::hold(&[(values, Access::Write), (a, Access::Read), (basis, Access::Read)])?;
        let (mut to, mut from, mut basis_at) = (held.at(0), held.at(1), held.at(2));
        let stream = Stream::current(a.device().index);
        // SAFETY: the matrices lie by columns, with a value for each column; all are held.
        unsafe {
            let parameters = parameters!(to, from, basis_at, n);
            let arguments = [Argument::Value(a.dtype())];
            RAYLEIGH.launch(&arguments, per_column(n, count), stream, parameters)?;
        }
        drop(held);
        Ok(())
    })?;
    let (values, order) = op::sort(&values, -1, false)?;
    let values = op::mul_tensor(&values, &op::squeeze_dim(&scale, -1)?)?;
    Ok(Ok((values, ordered(&basis, &order)?)))
}

/// Left singular vectors, singular values, the largest first, and right singular vectors of matrices
/// [batch, m, n] with m >= n; without vectors those are undefined. `full` adds vectors to the left ones.
pub(super) fn svd(
    a: &Tensor,
    vectors: bool,
    full: bool,
) -> Result<Found<(Tensor, Tensor, Tensor)>> {
    let (work, scale) = match scaled(a)? {
        Ok(found) => found,
        Err(trouble) => return Ok(Err(trouble)),
    };
    let [count, m, n] = sizes(&work)?.map(i64::from);
    let tau = empty(&[count, n], a.dtype(), a)?;
    let square = match m > n {
        true => {
            qr(&work, &tau)?;
            by_columns(&op::triu(&block(&work, [0, n], [0, n])?, 0)?)?
        }
        false => work.clone(),
    };
    let basis = if vectors { identity(count, [n, n], a)? } else { Tensor::undefined() };
    if let Some(index) = rotate(&square, &basis)? {
        return Ok(Err(Trouble::NotConvergent(index)));
    }
    let lengths = op::linalg_vector_norm(&square, Scalar::Int(2), Some(&[1]), false, None)?;
    let (lengths, order) = op::sort(&lengths, -1, true)?;
    let values = op::mul_tensor(&lengths, &op::squeeze_dim(&scale, -1)?)?;
    if !vectors {
        return Ok(Ok((Tensor::undefined(), values, Tensor::undefined())));
    }
    let right = ordered(&basis, &order)?;
    let left = ordered(&square, &order)?;
    op::div__tensor(&left, &op::unsqueeze(&lengths, 1)?)?;
    complete(&left, &lengths)?;
    if m == n {
        return Ok(Ok((left, values, right)));
    }
    let width = if full { m } else { n };
    let whole = op::transpose_int(&zeros(&[count, width, m], a.dtype(), a)?, -2, -1)?;
    set_diagonal(&whole)?;
    op::copy_(&block(&whole, [0, n], [0, n])?, &left, false)?;
    apply_reflections(&work, &tau, &whole, false)?;
    Ok(Ok((whole, values, right)))
}

/// Replaces the columns of length 0 by such that make the matrices unitary.
fn complete(a: &Tensor, lengths: &Tensor) -> Result<()> {
    let [count, mut rows, mut columns] = sizes(a)?;
    let mut least = least(a.dtype());
    let held = Operands::hold(&[(a, Access::Write), (lengths, Access::Read)])?;
    let (mut data, mut lengths_at) = (held.at(0), held.at(1));
    let stream = Stream::current(a.device().index);
    // SAFETY: the matrices lie by columns, with a length for each column; both are held.
    unsafe {
        let parameters = parameters!(data, lengths_at, rows, columns, least);
        COMPLETE.launch(&[Argument::Value(a.dtype())], per_matrix(count), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// Whole Hermitian matrices [batch, n, n] from one triangle.
pub(super) fn hermitian(a: &Tensor, lower: bool) -> Result<Tensor> {
    let triangle = if lower { a.clone() } else { adjoint(a)? };
    let own = op::tril(&triangle, 0)?;
    let other = adjoint(&op::tril(&triangle, -1)?)?;
    let sum = op::add_tensor(&own, &other, Scalar::Int(1))?;
    if a.dtype().is_complex() {
        op::zero_(&op::imag(&op::diagonal(&sum, 0, -2, -1)?)?)?;
    }
    Ok(sum)
}
