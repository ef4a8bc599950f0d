//! Rules of the reductions and scans that `reduction.rs` does not cover.

use super::{Reduce, check_out_dtype};
use crate::iter::{TensorIterator, allocate, resize_output};
use crate::{Tensor, op};
use corten_core::geometry::OverlapBetween;
use corten_core::{DType, Result, Scalar, bail, can_cast, ensure, geometry};

/// `sum`: over everything.
///
/// # Errors
/// Those of [`super::reduction_sum`].
pub fn sum_all(
    self_: &Tensor,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    super::reduction_sum(self_, None, false, dtype, out)
}

/// `mean`: over everything.
///
/// # Errors
/// Those of [`super::reduction_mean`].
pub fn mean_all(
    self_: &Tensor,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    super::reduction_mean(self_, None, false, dtype, out)
}

fn refuse_complex(self_: &Tensor, name: &str) -> Result<()> {
    ensure!(!self_.dtype().is_complex(), Type, "{name}(): does not support complex input");
    Ok(())
}

fn extremum_all(name: &str, self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    ensure!(
        self_.numel() > 0,
        Runtime,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the \
         reduction dim with the 'dim' argument."
    );
    ensure!(
        !self_.dtype().is_complex(),
        NotImplemented,
        "\"{name}_all\" not implemented for '{}'",
        self_.dtype().type_name()
    );
    let dtype = self_.dtype();
    if let Some(out) = out.filter(|out| out.defined()) {
        ensure!(
            can_cast(dtype, out.dtype()),
            Runtime,
            "{name}(): result type {} can't be cast to the desired output type {}",
            dtype.type_name(),
            out.dtype().type_name()
        );
    }
    Reduce::over(self_, None, false)?.plan(&[(out, dtype)])
}

/// `max`: over everything.
///
/// # Errors
/// `Runtime` for an empty tensor.
pub fn max_all(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    extremum_all("max", self_, out)
}

/// `min`: over everything.
///
/// # Errors
/// `Runtime` for an empty tensor.
pub fn min_all(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    extremum_all("min", self_, out)
}

fn extremum_dim(
    name: &str,
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: Option<&Tensor>,
    indices: Option<&Tensor>,
) -> Result<TensorIterator> {
    refuse_complex(self_, name)?;
    let reduce = Reduce::over(self_, Some(&[dim]), keepdim)?;
    if self_.numel() == 0 {
        reduce.check_not_empty(&format!("{name}()"))?;
    }
    check_out_dtype(values, self_.dtype())?;
    check_out_dtype(indices, DType::Int64)?;
    reduce.plan(&[(values, self_.dtype()), (indices, DType::Int64)])
}

/// `max.dim`: values and indices.
///
/// # Errors
/// `Index` for an empty dimension, and those of [`Reduce::plan`].
pub fn max_dim(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: Option<&Tensor>,
    indices: Option<&Tensor>,
) -> Result<TensorIterator> {
    extremum_dim("max", self_, dim, keepdim, values, indices)
}

/// `min.dim`: values and indices.
///
/// # Errors
/// As for [`max_dim`].
pub fn min_dim(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: Option<&Tensor>,
    indices: Option<&Tensor>,
) -> Result<TensorIterator> {
    extremum_dim("min", self_, dim, keepdim, values, indices)
}

fn extremum(
    name: &str,
    self_: &Tensor,
    dim: &[i64],
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let dtype = self_.dtype();
    if let Some(out) = out.filter(|out| out.defined() && out.dtype() != dtype) {
        bail!(
            Runtime,
            "Expected the dtype for input and out to match, but got {} for input's dtype and {} \
             for out's dtype.",
            dtype.type_name(),
            out.dtype().type_name()
        );
    }
    let reduce = Reduce::over_or_all(self_, Some(dim), keepdim)?;
    if self_.numel() == 0 {
        ensure!(
            !dim.is_empty(),
            Runtime,
            "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the \
             reduction dim with the 'dim' argument."
        );
        reduce.check_not_empty(&format!("{name}()"))?;
    }
    reduce.plan(&[(out, dtype)])
}

/// `amax`: the dtype stays.
///
/// # Errors
/// `Runtime` or `Index` for empty slices, and those of [`Reduce::plan`].
pub fn amax(
    self_: &Tensor,
    dim: &[i64],
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    extremum("amax", self_, dim, keepdim, out)
}

/// `amin`: the dtype stays.
///
/// # Errors
/// As for [`amax`].
pub fn amin(
    self_: &Tensor,
    dim: &[i64],
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    extremum("amin", self_, dim, keepdim, out)
}

/// `aminmax`: two results of the input's dtype.
///
/// # Errors
/// `Runtime` or `Index` for empty slices, `Type` for complex numbers.
pub fn aminmax(
    self_: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<TensorIterator> {
    let dtype = self_.dtype();
    ensure!(!dtype.is_complex(), Type, "aminmax not implemented for {}", dtype.type_name());
    ensure!(
        dim.is_some() || self_.numel() > 0,
        Runtime,
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no \
         identity."
    );
    let dims = dim.map(|dim| [dim]);
    let reduce = Reduce::over(self_, dims.as_ref().map(|dims| &dims[..]), keepdim)?;
    reduce.check_not_empty("aminmax")?;
    check_out_dtype(min, dtype)?;
    check_out_dtype(max, dtype)?;
    if let (Some(min), Some(max)) = (min, max) {
        ensure!(
            matches!(
                geometry::get_overlap_status(min, max),
                OverlapBetween::No | OverlapBetween::TooHard
            ),
            Value,
            "aminmax(): the `min` and `max` out= tensors must not overlap."
        );
    }
    reduce.plan(&[(min, dtype), (max, dtype)])
}

fn arg_extremum(
    name: &str,
    self_: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    refuse_complex(self_, name)?;
    ensure!(self_.dtype() != DType::Bool, NotImplemented, "{name}(): does not support bool input");
    check_out_dtype(out, DType::Int64)?;
    let Some(dim) = dim else { return arg_of_all(name, self_, keepdim, out) };
    let reduce = Reduce::over(self_, Some(&[dim]), keepdim)?;
    reduce.check_not_empty(&format!("{name}()"))?;
    reduce.plan(&[(out, DType::Int64)])
}

/// The index is that of the flattened tensor, whatever its strides are.
fn arg_of_all(
    name: &str,
    self_: &Tensor,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    ensure!(
        self_.numel() > 0,
        Index,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0."
    );
    let shape = vec![1; if keepdim { self_.dim() } else { 0 }];
    let result = match out {
        Some(out) => {
            resize_output(out, &shape)?;
            out.clone()
        }
        None => allocate(&shape, None, DType::Int64, self_.device())?,
    };
    let flat = op::reshape(self_, &[-1])?;
    let single: Tensor = result.as_view_of(&[], &[], result.storage_offset())?.into();
    let mut iter = Reduce::over(&flat, None, false)?.plan(&[(Some(&single), DType::Int64)])?;
    iter.set_result(0, result);
    Ok(iter)
}

/// `argmax`: indices along one dimension, or into the flattened tensor.
///
/// # Errors
/// `Index` for empty slices, and those of [`Reduce::plan`].
pub fn argmax(
    self_: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    arg_extremum("argmax", self_, dim, keepdim, out)
}

/// `argmin`: indices along one dimension, or into the flattened tensor.
///
/// # Errors
/// As for [`argmax`].
pub fn argmin(
    self_: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    arg_extremum("argmin", self_, dim, keepdim, out)
}

/// The shape of `var` and `std`.
///
/// # Errors
/// Those of [`super::reduction_var`].
pub fn var(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    Ok(super::reduction_var(self_, dim, correction, keepdim, None)?.into_output(0))
}

/// The shapes of `var_mean` and `std_mean`.
///
/// # Errors
/// Those of [`super::reduction_var_mean`].
pub fn var_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let iter = super::reduction_var_mean(self_, dim, correction, keepdim, None, None)?;
    Ok((iter.output(0), iter.output(1)))
}

/// `linalg_vector_norm`: real for complex numbers.
///
/// # Errors
/// `NotImplemented` for integers, `Runtime` for a norm without identity of an empty slice.
pub fn vector_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let own = self_.dtype();
    ensure!(
        own.is_floating_point() || own.is_complex(),
        NotImplemented,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        own.type_name()
    );
    ensure!(
        !ord.is_complex(),
        Runtime,
        "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
    );
    let dtype = dtype.unwrap_or(own).to_real();
    check_out_dtype(out, dtype)?;
    let reduce = Reduce::over_or_all(self_, dim, keepdim)?;
    let ord = ord.to_f64();
    if self_.numel() == 0 && (ord < 0.0 || ord == f64::INFINITY) {
        check_norm_identity(self_, &reduce, ord, dim)?;
    }
    reduce.plan(&[(out, dtype)])
}

fn check_norm_identity(
    self_: &Tensor,
    reduce: &Reduce<'_>,
    ord: f64,
    dim: Option<&[i64]>,
) -> Result<()> {
    let Some(dims) = dim.filter(|dims| !dims.is_empty()) else {
        bail!(
            Runtime,
            "linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the \
             operation does not have an identity"
        )
    };
    ensure!(
        reduce.count() != 0,
        Runtime,
        "linalg.vector_norm cannot compute the {ord} norm on the dimension {}because this \
         dimension is empty and the operation does not have an identity",
        dims.iter().find(|&&dim| self_.size(dim).is_ok_and(|size| size == 0)).unwrap_or(&0)
    );
    Ok(())
}

/// The shape of `cumsum` and `cumprod`.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn cumulative(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    geometry::wrap_dim(dim, self_.dim())?;
    let widened = if self_.dtype().is_integral(true) { DType::Int64 } else { self_.dtype() };
    allocate(&self_.sizes(), None, dtype.unwrap_or(widened), self_.device())
}

/// The shape of `logcumsumexp`.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for integers.
pub fn logcumsumexp(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let dtype = self_.dtype();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        NotImplemented,
        "\"logcumsumexp_out_cpu\" not implemented for '{}'",
        dtype.type_name()
    );
    cumulative(self_, dim, None)
}

/// The shapes of `cummax` and `cummin`.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn cumulative_extremum(self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    geometry::wrap_dim(dim, self_.dim())?;
    let (sizes, device) = (self_.sizes(), self_.device());
    Ok((
        allocate(&sizes, None, self_.dtype(), device)?,
        allocate(&sizes, None, DType::Int64, device)?,
    ))
}
