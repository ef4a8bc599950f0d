//! Rules of reductions: which dimensions go, and the dtype of what stays.
//!
//! The input keeps its dtype unless a rule says otherwise, so kernels convert while they read.

use super::check::check_out_dtype;
use crate::Tensor;
use crate::iter::{TensorIterator, TensorIteratorConfig, allocate, resize_output};
use corten_core::{
    DType, Device, Dims, Result, Scalar, bail, can_cast, ensure, geometry, not_implemented_for,
    warn,
};
use smallvec::SmallVec;

/// A reduction being planned: the input, the dimensions that go, and the shape that stays.
///
/// ```
/// use corten::ops::meta::Reduce;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = Tensor::ones([2, 3])?;
/// let reduce = Reduce::over(&x, Some(&[-1]), true)?;
/// assert_eq!((reduce.count(), reduce.shape().to_vec()), (3, vec![2, 1]));
/// # Ok(())
/// # }
/// ```
pub struct Reduce<'a> {
    input: &'a Tensor,
    sizes: Dims,
    reduced: Flags,
    keepdim: bool,
}

/// One flag per dimension.
type Flags = SmallVec<[bool; 8]>;

impl<'a> Reduce<'a> {
    /// Reduces over `dims`; `None` means all of them.
    ///
    /// # Errors
    /// `Index` for a dimension out of range, `Runtime` for one given twice.
    pub fn over(input: &'a Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Self> {
        let mut reduce =
            Self { input, sizes: Dims::new_const(), reduced: Flags::new_const(), keepdim };
        input.copy_sizes_to(&mut reduce.sizes);
        let rank = reduce.sizes.len();
        // A number has no dimension, and one that may be named.
        reduce.reduced.resize(rank.max(1), dims.is_none());
        for &dim in dims.unwrap_or_default() {
            let dim = geometry::wrap_dim(dim, rank)?;
            ensure!(
                !std::mem::replace(&mut reduce.reduced[dim], true),
                Runtime,
                "dim {dim} appears multiple times in the list of dims"
            );
        }
        reduce.reduced.truncate(rank);
        Ok(reduce)
    }

    /// Reduces over `dims`, where an empty list means all of them too.
    ///
    /// # Errors
    /// As for [`over`](Self::over).
    pub fn over_or_all(input: &'a Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Self> {
        Self::over(input, dims.filter(|dims| !dims.is_empty()), keepdim)
    }

    /// The number of elements folded into each result.
    pub fn count(&self) -> i64 {
        self.sizes.iter().zip(&self.reduced).filter(|(_, r)| **r).map(|(size, _)| *size).product()
    }

    /// The shape of the results.
    pub fn shape(&self) -> Dims {
        let mut shape = Dims::new_const();
        for (&size, &reduced) in self.sizes.iter().zip(&self.reduced) {
            match (reduced, self.keepdim) {
                (false, _) => shape.push(size),
                (true, true) => shape.push(1),
                (true, false) => {}
            }
        }
        shape
    }

    /// Refuses to reduce nothing: for operators without an identity.
    ///
    /// # Errors
    /// `Index` naming the first reduced dimension of size 0.
    pub fn check_not_empty(&self, name: &str) -> Result<()> {
        for (dim, (&size, &reduced)) in self.sizes.iter().zip(&self.reduced).enumerate() {
            ensure!(
                size != 0 || !reduced,
                Index,
                "{name}: Expected reduction dim {dim} to have non-zero size."
            );
        }
        Ok(())
    }

    /// Plans the walk: one output per entry, allocated in its dtype where it is not given.
    ///
    /// # Errors
    /// Those of resizing and of [`TensorIteratorConfig::build`].
    pub fn plan(&self, outputs: &[(Option<&Tensor>, DType)]) -> Result<TensorIterator> {
        let shape = self.shape();
        if self.is_read_in_order() && outputs.iter().all(|output| self.is_made_in_order(output)) {
            let made = |&(_, dtype): &_| allocate(&shape, None, dtype, Device::CPU);
            let results = outputs.iter().map(made).collect::<Result<_>>()?;
            return Ok(TensorIterator::reducing(results, self.input, &self.sizes, &self.reduced));
        }
        self.plan_broadcast(outputs)
    }

    /// As [`plan`](Self::plan), with operands that broadcast against the input: for kernels that
    /// build further walks with them.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    pub fn plan_broadcast(&self, outputs: &[(Option<&Tensor>, DType)]) -> Result<TensorIterator> {
        let shape = self.shape();
        let mut results = SmallVec::<[Tensor; 2]>::new();
        for (given, dtype) in outputs {
            results.push(match given.filter(|out| out.defined()) {
                Some(out) => {
                    resize_output(out, &shape)?;
                    out.clone()
                }
                None => allocate(&shape, None, *dtype, self.input.device())?,
            });
        }
        let mut config = TensorIteratorConfig::reduction()
            .promote_inputs_to_common_dtype(false)
            .check_all_same_dtype(false);
        for result in &results {
            config = config.add_output(Some(&self.with_reduced_dims(result)?));
        }
        let mut iter = config.add_input(self.input).build()?;
        for (i, result) in results.into_iter().enumerate() {
            iter.set_result(i, result);
        }
        Ok(iter)
    }

    /// Whether the input has elements in order, which kernels read as they are.
    fn is_read_in_order(&self) -> bool {
        let dtype = self.input.dtype();
        let converted = dtype.is_reduced_float() || dtype == DType::Complex32;
        !converted && self.input.is_dense_cpu() && self.input.numel() > 1
    }

    /// Whether an output is a new one that kernels write as it is: of integers, or of the input's
    /// dtype.
    fn is_made_in_order(&self, (given, dtype): &(Option<&Tensor>, DType)) -> bool {
        given.is_none() && (dtype.is_integral(true) || *dtype == self.input.dtype())
    }

    /// The output with a dimension of size 1 and stride 0 for each reduced one.
    fn with_reduced_dims(&self, out: &Tensor) -> Result<Tensor> {
        if self.keepdim {
            return Ok(out.clone());
        }
        let (sizes, strides) = (out.sizes(), out.strides());
        let mut kept = sizes.iter().zip(&strides).map(|(&size, &stride)| (size, stride));
        let dims =
            self.reduced.iter().map(|&r| if r { (1, 0) } else { kept.next().unwrap_or((1, 0)) });
        let (sizes, strides): (Dims, Dims) = dims.unzip();
        Ok(out.as_view_of(&sizes, &strides, out.storage_offset())?.into())
    }
}

/// The dtype of a sum: as asked for, else that of `out`, else `i64` for integers.
fn sum_dtype(self_: &Tensor, dtype: Option<DType>, out: Option<&Tensor>) -> Result<DType> {
    let own = self_.dtype();
    let widened = if own.is_integral(true) { DType::Int64 } else { own };
    let given = out.filter(|out| out.defined()).map(|out| out.dtype());
    let result = dtype.or(given).unwrap_or(widened);
    if !result.is_numeric() {
        return Err(not_implemented_for("sum_cpu", result));
    }
    check_out_dtype(out, result)?;
    Ok(result)
}

/// `sum.dim_IntList`: no or empty dimensions mean all; integers are summed in `i64`.
///
/// # Errors
/// Those of [`Reduce::over`] and [`Reduce::plan`].
pub fn reduction_sum(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let dtype = sum_dtype(self_, dtype, out)?;
    Reduce::over_or_all(self_, dim, keepdim)?.plan(&[(out, dtype)])
}

/// `nansum`: as `sum`, for real numbers.
///
/// # Errors
/// Those of [`reduction_sum`]; `NotImplemented` for complex numbers.
pub fn reduction_nansum(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    ensure!(!self_.dtype().is_complex(), NotImplemented, "nansum does not support complex inputs");
    if let (Some(out), None, false) = (out, dtype, self_.dtype().is_integral(true)) {
        let dtype = out.dtype();
        ensure!(
            dtype.is_floating_point(),
            NotImplemented,
            "\"nansum_cpu\" not implemented for '{}'",
            dtype.type_name()
        );
    }
    let dtype = sum_dtype(self_, dtype, out)?;
    let reduce = Reduce::over_or_all(self_, dim, keepdim)?;
    match dtype == self_.dtype() {
        true => reduce.plan(&[(out, dtype)]),
        false => reduce.plan_broadcast(&[(out, dtype)]),
    }
}

/// `prod`: over everything.
///
/// # Errors
/// Those of [`reduction_sum`].
pub fn reduction_prod(
    self_: &Tensor,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    reduction_sum(self_, None, false, dtype, out)
}

/// `prod.dim_int`: over one dimension.
///
/// # Errors
/// Those of [`reduction_sum`].
pub fn reduction_prod_dim(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    reduction_sum(self_, Some(&[dim]), keepdim, dtype, out)
}

/// `mean.dim`: as `sum`, for floating-point and complex results.
///
/// # Errors
/// Those of [`reduction_sum`]; `NotImplemented` for integral results.
pub fn reduction_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let which = if dtype.is_some() { "Optional" } else { "Input" };
    let own = dtype.unwrap_or(self_.dtype());
    ensure!(
        own.is_floating_point() || own.is_complex(),
        NotImplemented,
        "mean(): could not infer output dtype. {which} dtype must be either a floating point or \
         complex dtype. Got: {}",
        own.type_name()
    );
    reduction_sum(self_, dim, keepdim, dtype, out)
}

/// `amax`, `amin`: the dtype stays; an empty slice has no extremum.
///
/// # Errors
/// `Runtime` or `Index` for empty slices, and those of [`Reduce::plan`].
pub fn reduction_minmax(
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
            "amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the \
             reduction dim with the 'dim' argument."
        );
        reduce.check_not_empty("amax()")?;
    }
    reduce.plan(&[(out, dtype)])
}

/// `argmax`, `argmin`: indices along one dimension, or into the flattened tensor.
///
/// # Errors
/// `Index` for empty slices, and those of [`Reduce::plan`].
pub fn reduction_arg(
    self_: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    check_out_dtype(out, DType::Int64)?;
    let dims = dim.map(|dim| [dim]);
    let reduce = Reduce::over(self_, dims.as_ref().map(|dims| &dims[..]), keepdim)?;
    if self_.numel() == 0 {
        ensure!(
            dim.is_some(),
            Index,
            "argmax(): Expected reduction dim to be specified for input.numel() == 0."
        );
        reduce.check_not_empty("argmax()")?;
    }
    reduce.plan(&[(out, DType::Int64)])
}

/// The dtype of `any` and `all`: bool, but `u8` for `u8`.
fn bool_dtype(name: &str, self_: &Tensor, out: Option<&Tensor>) -> Result<DType> {
    let dtype = if self_.dtype() == DType::UInt8 { DType::UInt8 } else { DType::Bool };
    let Some(out) = out.filter(|out| out.defined()) else { return Ok(dtype) };
    ensure!(
        matches!(out.dtype(), DType::Bool | DType::UInt8),
        Runtime,
        "{name} only supports bool tensor for result, got: {}",
        out.dtype().type_name()
    );
    Ok(out.dtype())
}

/// The shape rules of an operator that tests truth: over everything, over one dimension, and over
/// some, of which an empty list reduces nothing.
macro_rules! reductions_to_bool {
    ($name:literal, $all:ident, $dim:ident, $dims:ident) => {
        #[doc = concat!("`", $name, "`: over everything.")]
        ///
        /// # Errors
        /// Those of [`Reduce::plan`].
        pub fn $all(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
            let dtype = bool_dtype($name, self_, out)?;
            Reduce::over(self_, None, false)?.plan(&[(out, dtype)])
        }

        #[doc = concat!("`", $name, ".dim`: over one dimension.")]
        ///
        /// # Errors
        /// Those of [`Reduce::plan`].
        pub fn $dim(
            self_: &Tensor,
            dim: i64,
            keepdim: bool,
            out: Option<&Tensor>,
        ) -> Result<TensorIterator> {
            let dtype = bool_dtype($name, self_, out)?;
            Reduce::over(self_, Some(&[dim]), keepdim)?.plan(&[(out, dtype)])
        }

        #[doc = concat!("`", $name, ".dims`: an empty list of dimensions reduces nothing.")]
        ///
        /// # Errors
        /// Those of [`Reduce::plan`].
        pub fn $dims(
            self_: &Tensor,
            dim: Option<&[i64]>,
            keepdim: bool,
            out: Option<&Tensor>,
        ) -> Result<TensorIterator> {
            let dtype = bool_dtype($name, self_, out)?;
            Reduce::over(self_, dim, keepdim)?.plan(&[(out, dtype)])
        }
    };
}

reductions_to_bool!("any", reduction_any, reduction_any_dim, reduction_any_dims);
reductions_to_bool!("all", reduction_all, reduction_all_dim, reduction_all_dims);

/// `var.correction`, `std.correction`: for floating-point and complex inputs; the result is real.
///
/// # Errors
/// `NotImplemented` for integers, and those of [`Reduce::plan`].
pub fn reduction_var(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let dtype = self_.dtype();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        NotImplemented,
        "std and var only support floating point and complex dtypes"
    );
    let reduce = Reduce::over_or_all(self_, dim, keepdim)?;
    warn_about_freedom(&reduce, correction, "var");
    reduce.plan(&[(out, dtype.to_real())])
}

/// `var_mean.correction`, `std_mean.correction`: two results.
///
/// # Errors
/// `NotImplemented` for integers, and those of [`Reduce::plan`].
pub fn reduction_var_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    var: Option<&Tensor>,
    mean: Option<&Tensor>,
) -> Result<TensorIterator> {
    let dtype = self_.dtype();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        NotImplemented,
        "var_mean only support floating point and complex dtypes"
    );
    let reduce = Reduce::over_or_all(self_, dim, keepdim)?;
    warn_about_freedom(&reduce, correction, "var_mean");
    reduce.plan(&[(var, dtype.to_real()), (mean, dtype)])
}

fn warn_about_freedom(reduce: &Reduce<'_>, correction: Option<Scalar>, name: &str) {
    let correction = correction.map_or(1.0, |correction| correction.to_f64());
    if reduce.count() as f64 <= correction && reduce.shape().iter().all(|&size| size != 0) {
        warn(format!(
            "{name}(): degrees of freedom is <= 0. Correction should be strictly less than the \
             reduction factor (input numel divided by output numel)."
        ));
    }
}

/// The output of `var` and `std`.
///
/// # Errors
/// `Runtime` for a dtype that the result cannot be cast to.
pub fn check_var_out(self_: &Tensor, out: &Tensor) -> Result<()> {
    let (from, to) = (self_.dtype(), out.dtype());
    ensure!(
        can_cast(from.to_real(), to),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        from.to_real().type_name(),
        to.type_name()
    );
    Ok(())
}
