//! Products of matrices.

use super::entries::{self, dtype_of_sums};
use super::shape::transpose;
use crate::sparse::{Coo, cast};
use crate::{Tensor, op};
use corten_core::{DType, Layout, Result, Scalar, ensure};

fn check_matrices(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dim() == 2 && b.dim() == 2,
        Runtime,
        "matrices expected, got {}D, {}D tensors",
        a.dim(),
        b.dim()
    );
    ensure!(
        a.size(1)? == b.size(0)?,
        Runtime,
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.size(0)?,
        a.size(1)?,
        b.size(0)?,
        b.size(1)?
    );
    Ok(())
}

/// The product of two matrices of which at least one is sparse: sparse where both are.
///
/// # Errors
/// `Runtime` where sizes or dtypes differ.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    check_matrices(self_, mat2)?;
    match (self_.is_sparse(), mat2.is_sparse()) {
        (true, true) => matmul(self_, mat2),
        (true, false) => times_dense(self_, mat2),
        _ => op::t(&times_dense(&transpose(mat2, 0, 1)?, &op::t(self_)?)?),
    }
}

/// Rows of the dense matrix times the values, added up by the rows of the sparse one.
fn times_dense(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        a.dtype().type_name(),
        b.dtype().type_name()
    );
    let parts = Coo::expect(a, "mm")?;
    ensure!(
        parts.sparse_dim() == 2 && parts.dense_dim() == 0,
        Runtime,
        "mm: expected a matrix with 2 sparse dimensions, but got {} sparse and {} dense ones",
        parts.sparse_dim(),
        parts.dense_dim()
    );
    let sums = dtype_of_sums(b.dtype());
    let (rows, columns) =
        (op::select_int(&parts.indices, 0, 0)?, op::select_int(&parts.indices, 0, 1)?);
    let values = op::unsqueeze(&cast(&parts.values, sums)?, 1)?;
    let terms = op::mul_tensor(&values, &op::index_select(&cast(b, sums)?, 0, &columns)?)?;
    let shape = [a.size(0)?, b.size(1)?];
    let result = op::zeros(&shape, Some(sums), None, Some(b.device()), None)?;
    op::index_add_(&result, 0, &rows, &terms, Scalar::Int(1))?;
    cast(&result, b.dtype())
}

/// The product of two sparse matrices.
///
/// # Errors
/// `Runtime` where sizes or dtypes differ.
pub fn matmul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    check_matrices(self_, other)?;
    ensure!(
        self_.dtype() == other.dtype(),
        Runtime,
        "mat1 dtype {} does not match mat2 dtype {}",
        self_.dtype().type_name(),
        other.dtype().type_name()
    );
    let (a, b) = (Coo::expect(self_, "mm")?, Coo::expect(other, "mm")?);
    let b = entries::coalesced(&b, &other.sizes())?;
    let sums = dtype_of_sums(self_.dtype());
    let (rows, inner) = (op::select_int(&a.indices, 0, 0)?, op::select_int(&a.indices, 0, 1)?);
    let held = op::select_int(&b.indices, 0, 0)?;
    let (pair, entry) =
        matches(&op::contiguous(&held, corten_core::MemoryFormat::Contiguous)?, &inner)?;
    let values = op::mul_tensor(
        &op::index_select(&cast(&a.values, sums)?, 0, &pair)?,
        &op::index_select(&cast(&b.values, sums)?, 0, &entry)?,
    )?;
    let columns = op::select_int(&b.indices, 0, 1)?;
    let indices = op::stack(
        &[op::index_select(&rows, 0, &pair)?, op::index_select(&columns, 0, &entry)?],
        0,
    )?;
    let sizes = [self_.size(0)?, other.size(1)?];
    let summed = entries::coalesced(&Coo { indices, values, coalesced: false }, &sizes)?;
    Coo { values: cast(&summed.values, self_.dtype())?, ..summed }.tensor(&sizes)
}

/// All pairs of equal numbers: positions in `wanted`, and in `ordered`.
///
/// # Errors
/// Those of searching.
pub(crate) fn matches(ordered: &Tensor, wanted: &Tensor) -> Result<(Tensor, Tensor)> {
    let wanted = op::contiguous(wanted, corten_core::MemoryFormat::Contiguous)?;
    let first = op::searchsorted_tensor(ordered, &wanted, false, false, None, None)?;
    let last = op::searchsorted_tensor(ordered, &wanted, false, true, None, None)?;
    let counts = op::sub_tensor(&last, &first, Scalar::Int(1))?;
    let pair = op::repeat_interleave_tensor(&counts, None)?;
    let before = op::sub_tensor(&op::cumsum(&counts, 0, None)?, &counts, Scalar::Int(1))?;
    let shift = op::index_select(&op::sub_tensor(&first, &before, Scalar::Int(1))?, 0, &pair)?;
    let device = Some(ordered.device());
    let position = op::arange(pair.size(0)?.into(), Some(DType::Int64), None, device, None)?;
    Ok((pair, op::add_tensor(&position, &shift, Scalar::Int(1))?))
}

/// `beta * self + alpha * (mat1 @ mat2)` with a sparse matrix and a dense one, dense.
///
/// # Errors
/// `Runtime` where sizes or dtypes differ, or the sum is to be sparse.
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(
        self_.layout() == Layout::Strided,
        Runtime,
        "addmm_sparse_dense: expected strided result tensor, got tensor with layout {}",
        self_.layout()
    );
    ensure!(
        mat2.layout() == Layout::Strided || mat1.layout() == Layout::Strided,
        Runtime,
        "addmm: Expected dense mat2, but got {}",
        mat2.layout()
    );
    let product = op::mul_scalar(&mm(mat1, mat2)?, alpha)?;
    let shape = product.sizes();
    if beta.to_complex() == Scalar::Int(0).to_complex() {
        return cast(&product, self_.dtype());
    }
    let sum = op::add_tensor(&op::mul_scalar(self_, beta)?, &product, Scalar::Int(1))?;
    ensure!(
        sum.sizes() == shape,
        Runtime,
        "The expanded size of the tensor must match the size of the product {:?}, but got {:?}",
        shape.as_slice(),
        self_.sizes().as_slice()
    );
    cast(&sum, self_.dtype())
}

/// The product of a matrix and a vector, of which the matrix is sparse.
///
/// # Errors
/// `Runtime` where sizes differ.
pub fn mv(self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() == 2 && vec.dim() == 1,
        Runtime,
        "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {}Tensor Dim: {}",
        self_.dim(),
        vec.dim()
    );
    ensure!(self_.size(1)? == vec.size(0)?, Runtime, "mv: expected self.size(-1) == vec.size(-1)");
    let vec = op::to_dense(vec, None, None)?;
    if self_.layout() == Layout::Strided {
        return op::mv(self_, &vec);
    }
    op::squeeze_dim(&mm(self_, &op::unsqueeze(&vec, 1)?)?, 1)
}

/// The products of the matrices of a sparse and a dense tensor.
///
/// # Errors
/// `Runtime` where sizes differ or the second is sparse.
pub fn bmm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    ensure!(mat2.layout() == Layout::Strided, Runtime, "bmm_sparse: Tensor 'mat2' must be dense");
    let parts = Coo::expect(self_, "bmm_sparse")?;
    ensure!(
        parts.dense_dim() == 0,
        Runtime,
        "bmm_sparse: Tensor 'self' must have 0 dense dims, but has {}",
        parts.dense_dim()
    );
    ensure!(
        parts.sparse_dim() == 3 && mat2.dim() == 3,
        Runtime,
        "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has {}, and 'mat2' must have 3 dims, \
         but has {}",
        parts.sparse_dim(),
        mat2.dim()
    );
    let (batches, rows, inner) = (self_.size(0)?, self_.size(1)?, self_.size(2)?);
    ensure!(
        batches == mat2.size(0)?,
        Runtime,
        "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match"
    );
    ensure!(
        inner == mat2.size(1)?,
        Runtime,
        "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match"
    );
    let place = |dim: i64| op::select_int(&parts.indices, 0, dim);
    let shift = |size: i64| op::mul_scalar(&place(0)?, Scalar::Int(size));
    let row = op::add_tensor(&shift(rows)?, &place(1)?, Scalar::Int(1))?;
    let column = op::add_tensor(&shift(inner)?, &place(2)?, Scalar::Int(1))?;
    let flat = Coo { indices: op::stack(&[row, column], 0)?, coalesced: false, ..parts };
    let flat = flat.tensor(&[batches * rows, batches * inner])?;
    let product = times_dense(&flat, &op::reshape(mat2, &[batches * inner, mat2.size(2)?])?)?;
    op::reshape(&product, &[batches, rows, mat2.size(2)?])
}

/// The rows of a sparse matrix that have entries.
fn filled_rows(matrix: &Tensor) -> Result<Tensor> {
    let parts = entries::coalesced(&Coo::expect(matrix, "hspmm")?, &matrix.sizes())?;
    let rows = op::select_int(&parts.indices, 0, 0)?;
    Ok(op::unique_consecutive(&rows, false, false, None)?.0)
}

/// The product of a sparse matrix and a dense one, sparse with dense rows.
///
/// # Errors
/// `Runtime` where sizes differ.
pub fn hspmm(mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    check_matrices(mat1, mat2)?;
    let (dense, rows) = (times_dense(mat1, mat2)?, filled_rows(mat1)?);
    let values = op::index_select(&dense, 0, &rows)?;
    let coalesced = rows.size(0)? < 2;
    Coo { indices: op::unsqueeze(&rows, 0)?, values, coalesced }.tensor(&dense.sizes())
}

/// `beta * self + alpha * (mat1 @ mat2)` of a sparse `self` and `mat1`, sparse: the entries of both.
///
/// # Errors
/// `Runtime` where sizes or layouts do not fit.
pub fn sspaddmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(mat1.is_sparse(), Runtime, "tensor.sspaddmm(...) can only be called on sparse tensors");
    let mine = Coo::expect(self_, "sspaddmm")?;
    check_matrices(mat1, mat2)?;
    let (dense, rows) = (times_dense(mat1, mat2)?, filled_rows(mat1)?);
    for dim in 0..2 {
        ensure!(
            dense.size(dim)? == self_.size(dim)?,
            Runtime,
            "sspaddmm: Argument #1: Expected dim {dim} size {}, got {}",
            dense.size(dim)?,
            self_.size(dim)?
        );
    }
    let (count, width) = (rows.size(0)?, dense.size(1)?);
    let device = Some(dense.device());
    let columns = op::arange(width.into(), Some(DType::Int64), None, device, None)?;
    let places = op::stack(
        &[
            op::repeat_interleave_self_int(&rows, width, None, None)?,
            op::repeat(&columns, &[count])?,
        ],
        0,
    )?;
    let more = op::reshape(&op::index_select(&dense, 0, &rows)?, &[-1])?;
    let values = op::cat(&[op::mul_scalar(&mine.values, beta)?, op::mul_scalar(&more, alpha)?], 0)?;
    let indices = op::cat(&[mine.indices.clone(), places], 1)?;
    Coo { indices, values, coalesced: false }.tensor(&self_.sizes())
}
