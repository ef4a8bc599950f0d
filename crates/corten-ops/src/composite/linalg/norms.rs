//! Norms of matrices, and condition numbers.

use crate::meta::linalg::{check_matrix, check_numbers, check_square};
use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, Scalar, bail, ensure, geometry};

/// The two dimensions of the matrices, wrapped, after PyTorch's checks.
fn matrix_dims(a: &Tensor, dim: &[i64], dtype: Option<DType>, low: bool) -> Result<[usize; 2]> {
    const NAME: &str = "linalg.matrix_norm";
    check_matrix(a, NAME, "A")?;
    let [first, second] = *dim else {
        let listed: Vec<String> = dim.iter().map(i64::to_string).collect();
        bail!(Runtime, "{NAME}: dim must be a 2-tuple. Got {}", listed.join(", "));
    };
    let first = geometry::wrap_dim(first, a.dim())?;
    let second = geometry::wrap_dim(second, a.dim())?;
    ensure!(
        first != second,
        Runtime,
        "{NAME}: dims must be different. Got ({}, {})",
        dim[0],
        dim[1]
    );
    check_numbers(a, NAME, low)?;
    if let Some(dtype) = dtype {
        let complex = a.dtype().is_complex();
        let fits = if complex { dtype.is_complex() } else { dtype.is_floating_point() };
        let (wanted, given) =
            if complex { ("complex", "complex") } else { ("floating point", "real") };
        ensure!(
            fits || (!complex && !dtype.is_complex() && dtype.is_floating_point()),
            Runtime,
            "{NAME}: dtype should be {wanted} for {given} inputs, but got {}",
            dtype.type_name()
        );
    }
    Ok([first, second])
}

/// The singular values of the matrices in two dimensions, last.
fn singular_values(a: &Tensor, dims: [usize; 2], dtype: Option<DType>) -> Result<Tensor> {
    let a = match dtype {
        Some(dtype) => op::to_dtype(a, dtype, false, false, None)?,
        None => a.clone(),
    };
    let places = dims.map(|dim| dim as i64);
    let order: Vec<i64> =
        (0..a.dim() as i64).filter(|dim| !places.contains(dim)).chain(places).collect();
    op::linalg_svdvals(&op::permute(&a, &order)?, None)
}

/// A result without the two dimensions, or with 1 in their places.
fn kept(result: Tensor, a: &Tensor, dims: [usize; 2], keepdim: bool) -> Result<Tensor> {
    if !keepdim {
        return Ok(result);
    }
    let mut sizes: Dims = a.sizes();
    dims.iter().for_each(|&dim| sizes[dim] = 1);
    op::reshape(&result, &sizes)
}

/// The largest or smallest element along a dimension; nothing has the largest norm 0.
fn extreme(values: &Tensor, dim: i64, keepdim: bool, largest: bool) -> Result<Tensor> {
    match largest {
        true if values.size(dim)? == 0 => op::sum_dim_intlist(values, Some(&[dim]), keepdim, None),
        true => op::amax(values, &[dim], keepdim),
        false => op::amin(values, &[dim], keepdim),
    }
}

fn shown(ord: Scalar) -> String {
    match ord {
        Scalar::Int(number) => number.to_string(),
        other => other.to_f64().to_string(),
    }
}

/// The norm of an order of matrices.
///
/// # Errors
/// `Runtime` for an unknown order, dimensions that are not two different ones, and a dtype of
/// another kind; `NotImplemented` for integers.
pub fn linalg_matrix_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        !ord.is_complex(),
        Runtime,
        "linalg.matrix_norm: Expected a non-complex scalar as the order of norm."
    );
    let order = ord.to_f64();
    let size = order.abs();
    ensure!(
        size == 2.0 || size == 1.0 || size == f64::INFINITY,
        Runtime,
        "linalg.matrix_norm: Order {} not supported.",
        shown(ord)
    );
    let dims = matrix_dims(self_, dim, dtype, size != 2.0)?;
    if size == 2.0 {
        let values = singular_values(self_, dims, dtype)?;
        return kept(extreme(&values, -1, false, order > 0.0)?, self_, dims, keepdim);
    }
    let [summed, other] = if size == f64::INFINITY { [dims[1], dims[0]] } else { dims };
    let sums =
        op::linalg_vector_norm(self_, Scalar::Int(1), Some(&[summed as i64]), keepdim, dtype)?;
    let place = if !keepdim && summed < other { other - 1 } else { other };
    extreme(&sums, place as i64, keepdim, order > 0.0)
}

/// The Frobenius or the nuclear norm of matrices.
///
/// # Errors
/// As [`linalg_matrix_norm`].
pub fn linalg_matrix_norm_name(
    self_: &Tensor,
    ord: &str,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        ord == "fro" || ord == "nuc",
        Runtime,
        "linalg.matrix_norm: Order {ord} not supported."
    );
    let dims = matrix_dims(self_, dim, dtype, ord == "fro")?;
    if ord == "fro" {
        return op::linalg_vector_norm(self_, Scalar::Int(2), Some(dim), keepdim, dtype);
    }
    let values = singular_values(self_, dims, dtype)?;
    kept(op::sum_dim_intlist(&values, Some(&[-1]), false, None)?, self_, dims, keepdim)
}

fn check_norm(a: &Tensor, dim: Option<&[i64]>, ordered: bool) -> Result<()> {
    match dim {
        Some(dim) => ensure!(
            (1..=2).contains(&dim.len()),
            Runtime,
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim:?}"
        ),
        None => ensure!(
            !ordered || (1..=2).contains(&a.dim()),
            Runtime,
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
            a.dim()
        ),
    }
    Ok(())
}

/// The norm of vectors or matrices.
///
/// # Errors
/// `Runtime` for more than two dimensions; those of the norms.
pub fn linalg_norm(
    self_: &Tensor,
    ord: Option<Scalar>,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_norm(self_, dim, ord.is_some())?;
    let matrix = dim.map_or(self_.dim() == 2, |dim| dim.len() == 2);
    match ord {
        Some(ord) if matrix => {
            op::linalg_matrix_norm(self_, ord, dim.unwrap_or(&[0, 1]), keepdim, dtype)
        }
        ord => {
            let ord = ord.unwrap_or(Scalar::Int(2));
            op::linalg_vector_norm(self_, ord, dim, keepdim, dtype)
        }
    }
}

/// The Frobenius or the nuclear norm of matrices.
///
/// # Errors
/// As [`linalg_norm`].
pub fn linalg_norm_name(
    self_: &Tensor,
    ord: &str,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_norm(self_, dim, true)?;
    op::linalg_matrix_norm_str_ord(self_, ord, dim.unwrap_or(&[0, 1]), keepdim, dtype)
}

/// The sum of the singular values.
///
/// # Errors
/// As [`linalg_matrix_norm`].
pub fn nuclear_norm(self_: &Tensor, keepdim: bool) -> Result<Tensor> {
    op::linalg_matrix_norm_str_ord(self_, "nuc", &[-2, -1], keepdim, None)
}

/// The sum of the singular values of matrices in two dimensions.
///
/// # Errors
/// As [`linalg_matrix_norm`].
pub fn nuclear_norm_dim(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    op::linalg_matrix_norm_str_ord(self_, "nuc", dim, keepdim, None)
}

fn nothing(a: &Tensor) -> Result<Tensor> {
    let sizes = a.sizes();
    let dtype = Some(a.dtype().to_real());
    op::new_zeros(a, &sizes[..sizes.len() - 2], dtype, None, None, None)
}

fn check_cond(a: &Tensor) -> Result<()> {
    ensure!(
        a.dim() >= 2,
        Runtime,
        "linalg.cond: The input tensor must have at least 2 dimensions."
    );
    Ok(())
}

/// The inverse, infinite where there is none.
fn inverse(a: &Tensor) -> Result<Tensor> {
    let (inverse, info) = op::linalg_inv_ex(a, false)?;
    let failed = op::ne_scalar(&info, Scalar::Int(0))?;
    let failed = op::unsqueeze(&op::unsqueeze(&failed, -1)?, -1)?;
    op::masked_fill_scalar(&inverse, &failed, Scalar::Float(f64::INFINITY))
}

/// Condition numbers, infinite where the norm of a matrix is 0 and that of its inverse infinite.
fn infinite_where_nan(numbers: Tensor) -> Result<Tensor> {
    let undefined = op::isnan(&numbers)?;
    op::masked_fill_scalar(&numbers, &undefined, Scalar::Float(f64::INFINITY))
}

/// The condition number of matrices with respect to the norm of an order.
///
/// # Errors
/// `Value` for an unknown order; those of the norms and the inverse.
pub fn linalg_cond(self_: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    check_cond(self_)?;
    let ord = p.unwrap_or(Scalar::Int(2));
    let order = ord.to_f64();
    let size = order.abs();
    ensure!(
        size == 2.0 || size == 1.0 || size == f64::INFINITY,
        Value,
        "linalg.cond got an invalid norm type: {}",
        shown(ord)
    );
    if self_.numel() == 0 {
        return nothing(self_);
    }
    if size == 2.0 {
        let values = op::linalg_svdvals(self_, None)?;
        let (largest, smallest) = (op::narrow(&values, -1, 0, 1)?, op::narrow(&values, -1, -1, 1)?);
        let ratio = match order < 0.0 {
            true => op::div_tensor(&smallest, &largest)?,
            false => op::div_tensor(&largest, &smallest)?,
        };
        return op::squeeze_dim(&ratio, -1);
    }
    check_square(self_, &format!("linalg.cond(ord={})", shown(ord)))?;
    let norm = |a: &Tensor| op::linalg_matrix_norm(a, ord, &[-2, -1], false, None);
    infinite_where_nan(op::mul_tensor(&norm(self_)?, &norm(&inverse(self_)?)?)?)
}

/// The condition number of matrices with respect to the Frobenius or the nuclear norm.
///
/// # Errors
/// As [`linalg_cond`].
pub fn linalg_cond_name(self_: &Tensor, p: &str) -> Result<Tensor> {
    check_cond(self_)?;
    let known = p == "fro" || p == "nuc";
    ensure!(known, Value, "linalg.cond got an invalid norm type: {p}");
    check_square(self_, &format!("linalg.cond(ord={p})"))?;
    if self_.numel() == 0 {
        return nothing(self_);
    }
    if p == "nuc" {
        // The nuclear norm of the inverse, which may be infinite, without computing the inverse.
        let values = op::linalg_svdvals(self_, None)?;
        let sum = |values: &Tensor| op::sum_dim_intlist(values, Some(&[-1]), false, None);
        return op::mul_tensor(&sum(&values)?, &sum(&op::reciprocal(&values)?)?);
    }
    let norm = |a: &Tensor| op::linalg_matrix_norm_str_ord(a, p, &[-2, -1], false, None);
    infinite_where_nan(op::mul_tensor(&norm(self_)?, &norm(&inverse(self_)?)?)?)
}
