//! Sums, products and quotients.

use super::entries::{self, flat_places};
use super::spread::spread;
use crate::sparse::values::{of_raw_values, of_values};
use crate::sparse::{Coo, cast, store};
use crate::{Tensor, op};
use corten_core::{
    DType, Layout, Result, Scalar, bail, can_cast, ensure, geometry::infer_broadcast, promote_types,
};

/// The sum of two sparse tensors, sparse, or of a dense and a sparse one, dense.
///
/// # Errors
/// `Runtime` where sizes differ, or a dense tensor is added to a sparse one.
pub fn add(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let Some(mine) = Coo::of(self_) else {
        let dtype = promote_types(self_.dtype(), other.dtype())?;
        check_same_size(self_, other)?;
        let sum = op::_to_copy(self_, Some(dtype), None, None, None, false, None)?;
        return add_to_dense(&sum, other, alpha);
    };
    let Some(theirs) = Coo::of(other) else {
        bail!(Runtime, "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    };
    ensure!(
        self_.sizes() == other.sizes(),
        Runtime,
        "add: expected sizes of 'self' and 'other' to match, but {:?} != {:?}",
        self_.sizes().as_slice(),
        other.sizes().as_slice()
    );
    let dtype = promote_types(self_.dtype(), other.dtype())?;
    ensure!(dtype != DType::Bool, NotImplemented, "\"cadd_sparse\" not implemented for 'Bool'");
    let sizes = self_.sizes();
    if mine.sparse_dim() != theirs.sparse_dim() {
        return add_of_other_density(&mine, &theirs, &sizes, dtype, alpha);
    }
    let mine = Coo { values: cast(&mine.values, dtype)?, ..mine };
    let theirs = Coo { values: scaled(&cast(&theirs.values, dtype)?, alpha)?, ..theirs };
    joined(mine, theirs, &sizes)?.tensor(&sizes)
}

/// The sum of a tensor without entries and one with other sparse dimensions.
fn add_of_other_density(
    mine: &Coo,
    theirs: &Coo,
    sizes: &[i64],
    dtype: DType,
    alpha: Scalar,
) -> Result<Tensor> {
    if mine.nnz() == 0 {
        let values = scaled(&cast(&theirs.values, dtype)?, alpha)?;
        return Coo { values, ..theirs.clone() }.tensor(sizes);
    }
    ensure!(
        theirs.nnz() == 0,
        Runtime,
        "add: expected 'self' and 'other' to have same density, but 'self' has {} sparse dimensions \
         while 'other' has {} sparse dimensions",
        mine.sparse_dim(),
        theirs.sparse_dim()
    );
    Coo { values: cast(&mine.values, dtype)?, ..mine.clone() }.tensor(sizes)
}

/// The entries of both. Sums into the same tensor over and over keep no more entries than there are
/// elements.
fn joined(mine: Coo, theirs: Coo, sizes: &[i64]) -> Result<Coo> {
    if mine.indices.is_same(&theirs.indices) {
        let values = op::add_tensor(&mine.values, &theirs.values, Scalar::Int(1))?;
        return Ok(Coo { values, coalesced: mine.coalesced && theirs.coalesced, ..mine });
    }
    if theirs.nnz() == 0 {
        return Ok(Coo { values: op::clone(&mine.values, None)?, ..mine });
    }
    if mine.nnz() == 0 {
        return Ok(theirs);
    }
    let indices = op::cat(&[mine.indices.clone(), theirs.indices.clone()], 1)?;
    let values = op::cat(&[mine.values.clone(), theirs.values.clone()], 0)?;
    let both = Coo { indices, values, coalesced: false };
    let places: i64 = sizes[..mine.sparse_dim() as usize].iter().product();
    if mine.coalesced && theirs.coalesced || both.nnz() > places {
        return entries::coalesced(&both, sizes);
    }
    Ok(both)
}

/// Values times a number; they themselves times 1.
fn scaled(values: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if alpha == Scalar::Int(1) || alpha == Scalar::Float(1.0) {
        return Ok(values.clone());
    }
    cast(&op::mul_scalar(values, alpha)?, values.dtype())
}

/// Adds a sparse tensor in place.
///
/// # Errors
/// As [`add`]; `Runtime` where the dtype cannot hold the sum.
pub fn add_(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let dtype = promote_types(self_.dtype(), other.dtype())?;
    ensure!(
        can_cast(dtype, self_.dtype()),
        Runtime,
        "Can't convert result type {} to output {} in add operation",
        dtype.type_name(),
        self_.dtype().type_name()
    );
    if self_.layout() != Layout::Strided {
        return store(self_, &add(self_, other, alpha)?);
    }
    check_same_size(self_, other)?;
    add_to_dense(self_, other, alpha)
}

fn check_same_size(dense: &Tensor, sparse: &Tensor) -> Result<()> {
    ensure!(
        dense.sizes() == sparse.sizes(),
        Runtime,
        "add: expected 'self' and 'other' to have same size, but self has size {:?} while other has \
         size {:?} (FYI: dense-sparse addition does not currently support broadcasting)",
        dense.sizes().as_slice(),
        sparse.sizes().as_slice()
    );
    Ok(())
}

/// Adds the entries to a dense tensor where they are.
pub(crate) fn add_to_dense(dense: &Tensor, sparse: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let parts = Coo::expect(sparse, "add")?;
    if parts.nnz() == 0 {
        return Ok(dense.clone());
    }
    let values = cast(&scaled(&parts.values, alpha)?, dense.dtype())?;
    let sizes = dense.sizes();
    let (counted, rest) = sizes.split_at(parts.sparse_dim() as usize);
    if counted.is_empty() {
        let sum = op::sum_dim_intlist(&values, Some(&[0]), false, Some(dense.dtype()))?;
        return op::add__tensor(dense, &sum, Scalar::Int(1));
    }
    if dense.is_contiguous() {
        let mut shape = vec![counted.iter().product()];
        shape.extend_from_slice(rest);
        let flat = flat_places(&parts.indices, counted)?;
        op::index_add_(&op::view(dense, &shape)?, 0, &flat, &values, Scalar::Int(1))?;
        return Ok(dense.clone());
    }
    let rows: Result<Vec<_>> = (0..parts.sparse_dim())
        .map(|dim| op::select_int(&parts.indices, 0, dim).map(Some))
        .collect();
    op::index_put_(dense, &rows?, &values, true)
}

/// The difference, as [`add`].
///
/// # Errors
/// As [`add`]; `NotImplemented` for truth values.
pub fn sub(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_sub(self_, other)?;
    add(self_, other, alpha.negated())
}

/// [`sub`] in place.
///
/// # Errors
/// As [`add_`]; `NotImplemented` for truth values.
pub fn sub_(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_sub(self_, other)?;
    add_(self_, other, alpha.negated())
}

fn check_sub(self_: &Tensor, other: &Tensor) -> Result<()> {
    let (a, b) = (self_.dtype() == DType::Bool, other.dtype() == DType::Bool);
    ensure!(
        !(a && b),
        Runtime,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or \
         `logical_xor()` operator instead."
    );
    ensure!(
        !(a || b),
        Runtime,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to \
         invert a mask, use the `~` or `logical_not()` operator instead."
    );
    Ok(())
}

/// The product of the elements: of two sparse tensors, a sparse and a dense one, or a number.
///
/// # Errors
/// `Runtime` where the sizes do not broadcast.
pub fn mul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    match (Coo::of(self_), Coo::of(other)) {
        (Some(_), Some(_)) if self_.dim() == 0 || other.dim() == 0 => {
            let number = if other.dim() == 0 { other } else { self_ };
            let rest = if other.dim() == 0 { self_ } else { other };
            mul(rest, &op::to_dense(number, None, None)?)
        }
        (Some(_), Some(_)) => {
            if self_.sizes() == other.sizes() {
                return common_entries(self_, other);
            }
            let size = infer_broadcast(&self_.sizes(), &other.sizes())?;
            common_entries(&spread(self_, &size)?, &spread(other, &size)?)
        }
        (Some(_), None) => mul_dense(self_, other),
        _ => mul_dense(other, self_),
    }
}

fn mul_dense(sparse: &Tensor, dense: &Tensor) -> Result<Tensor> {
    if dense.dim() == 0 {
        return of_raw_values(sparse, |values| op::mul_tensor(values, dense));
    }
    let size = infer_broadcast(&sparse.sizes(), &dense.sizes())?;
    let wide = spread(sparse, &size)?;
    let parts = Coo::expect(&wide, "mul")?;
    let factors = entries::dense_at(&op::expand(dense, &size, false)?, &parts.indices)?;
    Coo { values: op::mul_tensor(&parts.values, &factors)?, ..parts }.tensor(&size)
}

/// The products of the elements where both have entries.
fn common_entries(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (sizes, dtype) = (a.sizes(), promote_types(a.dtype(), b.dtype())?);
    // Values of one place are added up in the dtype of the product.
    let of = |tensor: &Tensor| {
        let parts = Coo::expect(tensor, "mul")?;
        entries::coalesced(&Coo { values: cast(&parts.values, dtype)?, ..parts }, &sizes)
    };
    let (a, b) = (of(a)?, of(b)?);
    ensure!(
        a.sparse_dim() == b.sparse_dim(),
        Runtime,
        "mul(sparse, sparse): the numbers of sparse dimensions must be the same"
    );
    let counted = &sizes[..a.sparse_dim() as usize];
    let (at, found) =
        entries::find(&flat_places(&b.indices, counted)?, &flat_places(&a.indices, counted)?)?;
    let kept = op::flatten_using_ints(&op::nonzero(&found)?, 0, -1)?;
    let values = op::mul_tensor(
        &op::index_select(&a.values, 0, &kept)?,
        &op::index_select(&b.values, 0, &op::index_select(&at, 0, &kept)?)?,
    )?;
    let indices = op::index_select(&a.indices, 1, &kept)?;
    Coo { indices, values, coalesced: true }.tensor(&sizes)
}

fn check_divisor(other: &Tensor, name: &str) -> Result<()> {
    ensure!(
        other.dim() == 0 && other.layout() == Layout::Strided,
        Runtime,
        "Sparse {name} requires a scalar or zero-dim dense tensor divisor (got shape {:?} for divisor)",
        other.sizes().as_slice()
    );
    Ok(())
}

/// Entries divided by a number.
///
/// # Errors
/// `Runtime` where the divisor is no number.
pub fn div(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    check_divisor(other, "division")?;
    of_raw_values(self_, |values| op::div_tensor(values, other))
}

/// Entries divided by a number; quotients that are rounded are those of values that were added up.
///
/// # Errors
/// `Runtime` where the divisor is no number.
pub fn div_mode(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    check_divisor(other, "division")?;
    let quotient = |values: &Tensor| op::div_tensor_mode(values, other, rounding_mode);
    if rounding_mode.is_none() {
        of_raw_values(self_, quotient)
    } else {
        of_values(self_, quotient)
    }
}

/// Entries divided by a number and rounded down.
///
/// # Errors
/// `Runtime` where the divisor is no number.
pub fn floor_divide(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    check_divisor(other, "floor division")?;
    of_values(self_, |values| op::floor_divide(values, other))
}

/// Entries negated.
///
/// # Errors
/// `Runtime` for truth values.
pub fn neg(self_: &Tensor) -> Result<Tensor> {
    of_raw_values(self_, op::neg)
}

/// Powers of the entries.
///
/// # Errors
/// `Runtime` for the exponent 0, which would make the other elements 1.
pub fn pow(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    ensure!(
        exponent.to_complex() != Scalar::Int(0).to_complex(),
        Runtime,
        "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
    );
    of_values(self_, |values| op::pow_tensor_scalar(values, exponent))
}

/// Entries conjugated.
///
/// # Errors
/// Those of making a tensor.
pub fn conj_physical(self_: &Tensor) -> Result<Tensor> {
    of_raw_values(self_, op::conj_physical)
}

/// The gradient where the entries are greater than a threshold.
///
/// # Errors
/// Those of the product.
pub fn threshold_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    threshold: Scalar,
) -> Result<Tensor> {
    let dtype = grad_output.dtype();
    let greater = |values: &Tensor| cast(&op::gt_scalar(values, threshold)?, dtype);
    if self_.layout() == Layout::Strided {
        return mul(grad_output, &greater(self_)?);
    }
    mul(grad_output, &of_values(self_, greater)?)
}
