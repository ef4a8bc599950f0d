//! The checks that PyTorch makes before it factors or solves, in its words.

use super::with;
use crate::{Tensor, batched, op};
use corten_core::{DType, Dims, Result, bail, ensure, geometry, not_implemented_for};

/// Matrices at least.
///
/// # Errors
/// `Runtime` below rank 2.
pub fn check_matrix(a: &Tensor, name: &str, letter: &str) -> Result<()> {
    ensure!(
        a.dim() >= 2,
        Runtime,
        "{name}: The input tensor {letter} must have at least 2 dimensions."
    );
    Ok(())
}

/// Square matrices, in the words of functions that name themselves.
///
/// # Errors
/// `Runtime` for others.
pub fn check_square(a: &Tensor, name: &str) -> Result<()> {
    check_matrix(a, name, "A")?;
    let [rows, cols] = [a.size(-2)?, a.size(-1)?];
    let colon = if name.is_empty() { "" } else { ": " };
    ensure!(
        rows == cols,
        Runtime,
        "{name}{colon}A must be batches of square matrices, but they are {rows} by {cols} matrices"
    );
    Ok(())
}

/// Numbers that can be divided; half precision only if `low`.
///
/// # Errors
/// `NotImplemented` for others.
pub fn check_numbers(a: &Tensor, name: &str, low: bool) -> Result<()> {
    let dtype = a.dtype();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        NotImplemented,
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        dtype.type_name()
    );
    let high =
        matches!(dtype, DType::Float32 | DType::Float64 | DType::Complex64 | DType::Complex128);
    ensure!(
        low || high,
        NotImplemented,
        "{name}: Low precision dtypes not supported. Got {}",
        dtype.type_name()
    );
    Ok(())
}

/// Numbers that a kernel has.
///
/// # Errors
/// `NotImplemented` for half precision and integers.
pub(crate) fn check_kernel(a: &Tensor, name: &str) -> Result<()> {
    let dtype = a.dtype();
    let high =
        matches!(dtype, DType::Float32 | DType::Float64 | DType::Complex64 | DType::Complex128);
    if !high && !a.device().is_meta() {
        return Err(not_implemented_for(name, dtype));
    }
    Ok(())
}

/// The error of the first matrix of which `info` says that it failed.
///
/// # Errors
/// `LinAlg`, or `Runtime` for triangular factors.
pub fn check_info(info: &Tensor, name: &str) -> Result<()> {
    if info.lacks_data() || info.numel() == 0 {
        return Ok(());
    }
    let info = &batched::all_items(info);
    for (index, code) in op::reshape(info, &[-1])?.to_vec::<i64>()?.into_iter().enumerate() {
        if code != 0 {
            let index = i64::try_from(index).ok().filter(|_| info.dim() > 0);
            return failed(name, index, code);
        }
    }
    Ok(())
}

fn failed(name: &str, index: Option<i64>, code: i64) -> Result<()> {
    let place = index.map_or(String::new(), |index| format!("(Batch element {index}): "));
    if name.contains("inv") {
        bail!(
            LinAlg,
            "{name}: {place}The diagonal element {code} is zero, the inversion could not be \
             completed because the input matrix is singular."
        )
    }
    if name.contains("solve") {
        bail!(LinAlg, "{name}: {place}The solver failed because the input matrix is singular.")
    }
    if name.contains("cholesky") {
        bail!(
            LinAlg,
            "{name}: {place}The factorization could not be completed because the input is not \
             positive-definite (the leading minor of order {code} is not positive-definite)."
        )
    }
    if name.contains("lu_factor") {
        bail!(
            Runtime,
            "{name}: {place}U[{code},{code}] is zero and using it on lu_solve would result in a \
             division by zero. If you still want to perform the factorization, consider calling \
             linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    }
    bail!(
        Runtime,
        "{name}: {place}D[{code},{code}] is zero and using it on ldl_solve would result in a \
         division by zero."
    )
}

/// The batch of two tensors of matrices, broadcast.
pub(crate) fn batch_of(a: &Tensor, b: &Tensor) -> Result<Dims> {
    geometry::infer_broadcast(&with(a, 2, &[]), &with(b, 2, &[]))
}

/// That `A X = B`, or `X A = B`, has fitting shapes.
pub(crate) fn check_system(name: &str, a: &Tensor, b: &Tensor, left: bool) -> Result<()> {
    let fits = match left {
        true => a.size(-2)? == b.size(-2)?,
        false => a.size(-1)? == b.size(-1)?,
    };
    let equation = if left { "AX = B" } else { "XA = B" };
    ensure!(
        fits,
        Runtime,
        "{name}: Incompatible shapes of A and B for the equation {equation} ({}x{} and {}x{})",
        a.size(-2)?,
        a.size(-1)?,
        b.size(-2)?,
        b.size(-1)?
    );
    Ok(())
}

pub(crate) fn check_dtypes(
    name: &str,
    first: &str,
    a: &Tensor,
    second: &str,
    b: &Tensor,
) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "{name}: Expected {first} and {second} to have the same dtype, but found {first} of type \
         {} and {second} of type {} instead",
        a.dtype().type_name(),
        b.dtype().type_name()
    );
    Ok(())
}

/// A right-hand side that fits a square matrix, in the words of the older functions.
pub(crate) fn check_solve_inputs(name: &str, b: &Tensor, a: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        b.dtype().type_name(),
        a.dtype().type_name()
    );
    let [rows, cols] = [a.size(-2)?, a.size(-1)?];
    ensure!(
        rows == cols,
        Runtime,
        "A must be batches of square matrices, but they are {rows} by {cols} matrices"
    );
    ensure!(
        cols == b.size(-2)?,
        Runtime,
        "Incompatible matrix sizes for {name}: each A matrix is {cols} by {cols} but each b matrix \
         is {} by {}",
        b.size(-2)?,
        b.size(-1)?
    );
    Ok(())
}
