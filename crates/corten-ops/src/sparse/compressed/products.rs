//! Products of compressed matrices.

use super::convert::{Arrangement, Coordinates, converted, dense_of};
use super::dense::{arange, at, for_sums, long, repeat, sum_by, to, zeros};
use super::forms::swapped;
use super::{Matrices, in_blocks, is_compressed};
use crate::{Tensor, op};
use corten_core::{Layout, Result, Scalar, bail, ensure};

/// That two matrices can be multiplied.
///
/// # Errors
/// `Runtime` where shapes, dtypes or layouts do not fit.
pub fn check_product(a: &Tensor, b: &Tensor) -> Result<()> {
    for (name, x) in [("self", a), ("mat2", b)] {
        ensure!(x.dim() == 2, Runtime, "addmm: {name} must be a matrix, got {}-D tensor", x.dim());
    }
    let (ours, theirs) = (a.sizes(), b.sizes());
    ensure!(
        ours[1] == theirs[0],
        Runtime,
        "addmm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        ours[0],
        ours[1],
        theirs[0],
        theirs[1]
    );
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        a.dtype().type_name(),
        b.dtype().type_name()
    );
    let (mine, other) = (a.layout(), b.layout());
    let both = mine != Layout::Strided && other != Layout::Strided && mine != other;
    let has_coo = mine == Layout::Sparse || other == Layout::Sparse;
    ensure!(
        !has_coo && !(both && (in_blocks(mine) || in_blocks(other))),
        Runtime,
        "addmm: computation on CPU is not implemented for {mine} + {mine} @ {other}"
    );
    Ok(())
}

/// A product of matrices of which at least one is compressed; of two it is compressed by rows.
///
/// # Errors
/// `Runtime` where shapes, dtypes or layouts do not fit.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    check_product(self_, mat2)?;
    match (Matrices::of(self_), Matrices::of(mat2)) {
        (Some(a), Some(b)) => of_two(&a, &b)?.tensor(),
        (Some(a), None) => with_dense(&a, mat2),
        (None, Some(b)) => op::t(&op::mm(&swapped(&b, 0, 1)?.tensor()?, &op::t(self_)?)?),
        // No parts: a class of Python keeps them, which does not see this call.
        (None, None) => bail!(
            Runtime,
            "mm expected sparse compressed tensor layout but got {} and {}",
            self_.layout(),
            mat2.layout()
        ),
    }
}

/// Entries times the rows of `b` they meet, added up by the rows of `a`.
fn with_dense(a: &Matrices, b: &Tensor) -> Result<Tensor> {
    let b = &op::contiguous(b, corten_core::MemoryFormat::Contiguous)?;
    let (places, kind) = (Coordinates::of(a)?, b.dtype());
    let (values, wide) = (for_sums(&a.parts.values)?, for_sums(b)?);
    let ([rows, _], columns) = (a.grid(), wide.size(1)?);
    if !a.in_blocks() {
        let met = op::index_select(&wide, 0, &places.column)?;
        let products = op::mul_tensor(&op::unsqueeze(&values, 1)?, &met)?;
        return to(&sum_by(&places.row, &products, a.sizes[0])?, kind);
    }
    let [_, width] = a.block();
    let right = op::reshape(&wide, &[wide.size(0)? / width.max(1), width, columns])?;
    let met = op::index_select(&right, 0, &places.column)?;
    let products = op::bmm(&values, &met)?;
    let sums = sum_by(&places.row, &products, rows)?;
    to(&op::reshape(&sums, &[a.sizes[0], columns])?, kind)
}

/// Every entry of `a` meets the entries of one row of `b`.
fn of_two(a: &Matrices, b: &Matrices) -> Result<Matrices> {
    ensure!(
        !a.in_blocks(),
        Runtime,
        "zeros_sparse_compressed expected sparse compressed (non-block) tensor layout but got {}",
        a.layout()
    );
    let b = converted(b, Layout::SparseCsr, None, None)?;
    let places = Coordinates::of(a)?;
    let ends = long(&b.parts.compressed_indices)?;
    let lengths = op::diff(&ends, 1, -1, None, None)?;
    let counts = op::index_select(&lengths, 0, &places.column)?;
    let starts = op::index_select(&op::narrow(&ends, 0, 0, lengths.numel())?, 0, &places.column)?;
    let before = op::sub_tensor(&op::cumsum(&counts, 0, None)?, &counts, Scalar::Int(1))?;
    let offset = repeat(&op::sub_tensor(&starts, &before, Scalar::Int(1))?, &counts)?;
    let met = op::add_tensor(&offset, &arange(offset.numel(), &offset)?, Scalar::Int(1))?;
    let ours = repeat(&a.flat_values()?, &counts)?;
    let values = op::mul_tensor(&ours, &op::index_select(&b.parts.values, 0, &met)?)?;
    let places = Coordinates {
        batch: zeros(&met.sizes(), &met)?,
        row: repeat(&places.row, &counts)?,
        column: long(&at(&b.parts.plain_indices, &[&met])?)?,
    };
    let goal = Arrangement {
        sizes: &[a.sizes[0], b.sizes[1]],
        layout: Layout::SparseCsr,
        start: 0,
        dtype: a.parts.compressed_indices.dtype(),
        sums: true,
    };
    goal.of(&places, &values)
}

/// The product of a matrix and a vector.
///
/// # Errors
/// `Runtime` where shapes or dtypes do not fit.
pub fn mv(self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    let (sizes, length) = (self_.sizes(), vec.numel());
    let fits = sizes.len() == 2 && vec.dim() == 1 && sizes[1] == length;
    if !fits {
        let (first, last) = (sizes.first().unwrap_or(&0), sizes.last().unwrap_or(&0));
        bail!(Runtime, "size mismatch, got input ({first}), mat ({first}x{last}), vec ({length})");
    }
    op::select_int(&op::mm(self_, &op::unsqueeze(vec, 1)?)?, 1, 0)
}

fn is_one(number: Scalar) -> bool {
    number.to_f64() == 1.0 && !matches!(number, Scalar::Complex(value) if value.im != 0.0)
}

fn is_zero(number: Scalar) -> bool {
    number.to_f64() == 0.0 && !matches!(number, Scalar::Complex(value) if value.im != 0.0)
}

fn scaled(tensor: Tensor, by: Scalar) -> Result<Tensor> {
    if is_one(by) { Ok(tensor) } else { op::mul_scalar(&tensor, by) }
}

/// `beta * self + alpha * product`.
fn plus(start: &Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let Some(matrices) = Matrices::of(&product) else {
        ensure!(
            !is_compressed(start.layout()),
            Runtime,
            "addmm: computation on CPU is not implemented for {} + SparseCsr @ Strided",
            start.layout()
        );
        return plus_dense(start, product, beta, alpha);
    };
    let Some(held) = Matrices::of(start) else {
        return plus_dense(start, dense_of(&matrices)?, beta, alpha);
    };
    let product = converted(&matrices, held.layout(), None, None)?.tensor()?;
    let product = scaled(product, alpha)?;
    if is_zero(beta) { Ok(product) } else { super::add(&product, start, beta) }
}

fn plus_dense(start: &Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let product = scaled(product, alpha)?;
    if is_zero(beta) {
        return Ok(product);
    }
    let start = op::expand(start, &product.sizes(), false)?;
    op::add_tensor(&product, &start, beta)
}

/// `beta * self + alpha * (mat1 @ mat2)`.
///
/// # Errors
/// As [`mm`].
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(
        mat1.layout() != Layout::Strided || mat2.layout() != Layout::Strided,
        Runtime,
        "addmm: computation on CPU is not implemented for {} + Strided @ Strided",
        self_.layout()
    );
    plus(self_, op::mm(mat1, mat2)?, beta, alpha)
}

/// `beta * self + alpha * (mat @ vec)`.
///
/// # Errors
/// As [`mv`].
pub fn addmv(
    self_: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    plus(self_, mv(mat, vec)?, beta, alpha)
}
