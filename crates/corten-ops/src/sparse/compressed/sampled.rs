//! Products of dense matrices at given places, and reductions of products by rows.

use super::Matrices;
use super::convert::Coordinates;
use super::dense::{at, modulo, sum_by, to};
use crate::sparse::Compressed;
use crate::{Tensor, op};
use corten_core::{Layout, Result, Scalar, bail, ensure};

/// `beta * self + alpha * (mat1 @ mat2)` at the places that `self`, in the layout CSR, has.
///
/// # Errors
/// `Runtime` where layouts, shapes or dtypes do not fit.
pub fn sampled_addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let mut x = Matrices::expect(self_, "sparse_sampled_addmm")?;
    if x.start() == 0 && mat1.dim() > 2 {
        x = repeated(&x, &mat1.sizes()[..mat1.dim() - 2])?;
    }
    check(&x, self_, mat1, mat2)?;
    let (places, count) = (Coordinates::of(&x)?, x.count());
    let flat = |mat: &Tensor| {
        let sizes = mat.sizes();
        let dims = sizes.len();
        op::reshape(mat, &[count, sizes[dims - 2], sizes[dims - 1]])
    };
    let left = at(&flat(mat1)?, &[&places.batch, &places.row])?;
    let right = op::transpose_int(&flat(mat2)?, 1, 2)?;
    let right = at(&right, &[&places.batch, &places.column])?;
    let products = op::mul_tensor(&left, &right)?;
    let values = op::sum_dim_intlist(&products, Some(&[-1]), false, None)?;
    let values = op::reshape(&values, &x.parts.values.sizes())?;
    let values = op::mul_scalar(&values, alpha)?;
    let values = match beta.to_f64() == 0.0 {
        true => values,
        false => op::add_tensor(&values, &x.parts.values, beta)?,
    };
    x.with_values(values).tensor()
}

/// A matrix as each of a batch of matrices.
fn repeated(x: &Matrices, batch: &[i64]) -> Result<Matrices> {
    let again = |part: &Tensor| {
        let sizes = [batch, &part.sizes()].concat();
        let expanded = op::expand(part, &sizes, false)?;
        op::contiguous(&expanded, corten_core::MemoryFormat::Contiguous)
    };
    let parts = Compressed {
        layout: x.layout(),
        compressed_indices: again(&x.parts.compressed_indices)?,
        plain_indices: again(&x.parts.plain_indices)?,
        values: again(&x.parts.values)?,
    };
    Ok(Matrices { parts, sizes: [batch, &x.sizes].concat().into() })
}

fn check(x: &Matrices, self_: &Tensor, mat1: &Tensor, mat2: &Tensor) -> Result<()> {
    macro_rules! require {
        ($condition:expr, $($message:tt)+) => {
            ensure!($condition, Runtime, "sampled_addmm: {}", format!($($message)+))
        };
    }
    require!(
        x.layout() == Layout::SparseCsr,
        "Expected result to have sparse csr layout, but got {}",
        x.layout()
    );
    for (name, mat) in [("mat1", mat1), ("mat2", mat2)] {
        let layout = mat.layout();
        require!(
            layout == Layout::Strided,
            "Expected {name} to have strided layout, but got {layout}"
        );
    }
    for (name, mat) in [("mat1", mat1), ("mat2", mat2)] {
        require!(mat.dim() >= 2, "Expected {name} to be a matrix, got {}-D tensor", mat.dim());
    }
    let (left, right) = (mat1.sizes(), mat2.sizes());
    let ((ours, [n, k]), (theirs, [l, m])) = (split(&left), split(&right));
    require!(
        ours == theirs,
        "Expected mat1 and mat2 to have the same batch size, but got {ours:?} and {theirs:?}"
    );
    require!(
        x.batches() == ours,
        "Expected self and mat1 to have the same batch size, but got {:?} and {ours:?}",
        x.batches()
    );
    require!(k == l, "mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {l}x{m})");
    let [rows, columns] = x.matrix_sizes();
    require!(rows == n, "self.shape[-2] must match mat1.shape[-2]");
    require!(columns == m, "self.shape[-1] must match mat2.shape[-1]");
    let kinds = [self_, mat1, mat2].map(|tensor| tensor.dtype().type_name());
    require!(
        kinds[1] == kinds[2],
        "Expected mat1 and mat2 to have the same dtype, but got {} and {}",
        kinds[1],
        kinds[2]
    );
    require!(
        kinds[0] == kinds[1],
        "Expected self and mat1 to have the same dtype, but got {} and {}",
        kinds[0],
        kinds[1]
    );
    Ok(())
}

/// The batches of matrices, and their rows and columns.
fn split(sizes: &[i64]) -> (&[i64], [i64; 2]) {
    let start = sizes.len() - 2;
    (&sizes[..start], [sizes[start], sizes[start + 1]])
}

/// That a CSR matrix and a dense one can be multiplied and reduced by rows.
///
/// # Errors
/// `Runtime` where layouts, shapes or dtypes do not fit.
pub fn check_reduced(sparse: &Tensor, dense: &Tensor, reduce: &str) -> Result<()> {
    ensure!(
        ["sum", "prod", "mean", "amax", "amin"].contains(&reduce),
        Runtime,
        "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
    );
    ensure!(
        sparse.layout() == Layout::SparseCsr,
        Runtime,
        "sparse_mm_reduce: expect self to be SparseCsr, got {}",
        sparse.layout()
    );
    ensure!(
        dense.layout() == Layout::Strided,
        Runtime,
        "Expected tensor to have Strided Layout, but got tensor with {} Layout (while checking \
         arguments for sparse_mm_reduce)",
        dense.layout()
    );
    if dense.dtype() != sparse.dtype() {
        bail!(
            Runtime,
            "Expected tensor for argument #1 'other' to have scalar type {}; but got {} instead (while \
             checking arguments for sparse_mm_reduce)",
            sparse.dtype().type_name(),
            crate::composite::support::tensor_type_name(dense.dtype())
        );
    }
    let (rows, sizes) = (sparse.size(-1)?, dense.sizes());
    ensure!(
        sizes.len() == 2 && sizes[0] == rows,
        Runtime,
        "Expected a tensor of dimension 2 and tensor.size[0] == {rows} but got: dimension {} and \
         tensor.size[0] = {}",
        sizes.len(),
        sizes.first().copied().unwrap_or(0)
    );
    ensure!(
        reduce != "prod",
        Runtime,
        "sparse_mm_reduce: reduce type of {reduce} has not been enabled."
    );
    Ok(())
}

/// The gradients of the entries and of the dense matrix of a product reduced by rows.
///
/// # Errors
/// Those of the operators.
pub fn mm_reduce_backward(
    self_: &Tensor,
    grad_out: &Tensor,
    weight: &Tensor,
    reduce: &str,
    arg_out: &Tensor,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor)> {
    let x = Matrices::expect(self_, "_sparse_mm_reduce_impl_backward")?;
    let (places, values) = (Coordinates::of(&x)?, op::values(self_)?);
    let wanted = |i: usize| output_mask.get(i).copied().unwrap_or(false);
    let mut grads = (Tensor::undefined(), Tensor::undefined());
    if matches!(reduce, "amax" | "amin") {
        let chosen = Chosen::of(&x, &places, arg_out)?;
        let grad = at(&op::reshape(grad_out, &[-1])?, &[&chosen.kept])?;
        if wanted(0) {
            let factors = at(weight, &[&chosen.row_of_weight, &chosen.column])?;
            let shares = op::mul_tensor(&grad, &op::conj(&factors)?)?;
            grads.0 = x.with_values(sum_by(&chosen.entry, &shares, x.nnz())?).tensor()?;
        }
        if wanted(1) {
            let shares = op::mul_tensor(&grad, &op::conj(&at(&values, &[&chosen.entry])?)?)?;
            let into = op::new_zeros(weight, &weight.sizes(), None, None, None, None)?;
            let places = [Some(chosen.row_of_weight), Some(chosen.column)];
            grads.1 = op::index_put_(&into, &places, &shares, true)?;
        }
        return Ok(grads);
    }
    let mut grad = grad_out.clone();
    if reduce == "mean" {
        let counts = op::diff(&x.parts.compressed_indices, 1, -1, None, None)?;
        let counts = op::clamp(&counts, Some(Scalar::Int(1)), None)?;
        grad = op::div_tensor(&grad, &to(&op::unsqueeze(&counts, 1)?, grad.dtype())?)?;
    }
    if wanted(0) {
        let left = op::index_select(&grad, 0, &places.row)?;
        let right = op::conj(&op::index_select(weight, 0, &places.column)?)?;
        let products = op::mul_tensor(&left, &right)?;
        let sums = op::sum_dim_intlist(&products, Some(&[-1]), false, None)?;
        grads.0 = x.with_values(sums).tensor()?;
    }
    if wanted(1) {
        grads.1 = op::mm(&op::conj(&op::t(self_)?)?, &grad)?;
    }
    Ok(grads)
}

/// The entries that elements of a result came from, for those that came from one.
struct Chosen {
    /// The numbers of these elements.
    kept: Tensor,
    entry: Tensor,
    row_of_weight: Tensor,
    column: Tensor,
}

impl Chosen {
    fn of(x: &Matrices, places: &Coordinates, arg_out: &Tensor) -> Result<Self> {
        let flat = op::reshape(arg_out, &[-1])?;
        let has_one = op::lt_scalar(&flat, Scalar::Int(x.nnz()))?;
        let kept = op::reshape(&op::nonzero(&has_one)?, &[-1])?;
        let entry = op::index_select(&flat, 0, &kept)?;
        let row_of_weight = op::index_select(&places.column, 0, &entry)?;
        let column = modulo(&kept, arg_out.size(-1)?)?;
        Ok(Self { kept, entry, row_of_weight, column })
    }
}
