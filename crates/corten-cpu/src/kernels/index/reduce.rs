//! `scatter_reduce` and `index_reduce`: many elements of a source combined into one of the target.

use super::arithmetic::{Ordered, add_to, multiply_by, put_in};
use super::flat::{contiguous_copy, flat};
use super::gather::{Scatter, narrowed, prepare};
use super::select::{Slices, reduced_slices};
use corten_core::{DType, Result, Scalar, bail, match_dtype, not_implemented_for};
use corten_ops::{Tensor, op};

/// How elements are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduce {
    Sum,
    Prod,
    Mean,
    Amax,
    Amin,
}

impl Reduce {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "sum" => Self::Sum,
            "prod" => Self::Prod,
            "mean" => Self::Mean,
            "amax" | "max" => Self::Amax,
            "amin" | "min" => Self::Amin,
            _ => bail!(
                Runtime,
                "reduce argument must be either sum, prod, mean, amax or amin, got {name}"
            ),
        })
    }

    /// The number that changes nothing.
    fn identity(self, dtype: DType) -> Result<Scalar> {
        Ok(match self {
            Self::Sum | Self::Mean => Scalar::Int(0),
            Self::Prod => Scalar::Int(1),
            Self::Amax => extreme!(dtype, LOWEST),
            Self::Amin => extreme!(dtype, HIGHEST),
        })
    }
}

macro_rules! extreme {
    ($dtype:expr, $end:ident) => {
        match_dtype!($dtype, "scatter_reduce_exclude_input_init", OrderedBool, T => Ok(corten_core::Element::to_scalar(T::$end)))?
    };
}
use extreme;
/// Where the elements of a source go.
enum ScatterTarget {
    Elements(Scatter),
    Slices(Slices),
}

impl ScatterTarget {
    fn target(&self) -> &Tensor {
        match self {
            Self::Elements(scatter) => &scatter.target,
            Self::Slices(slices) => &slices.self_,
        }
    }

    fn run<T: corten_core::Element>(
        &self,
        values: &Tensor,
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        let target = flat(self.target())?;
        match self {
            Self::Elements(scatter) => scatter.run::<T>(&target, values, combine),
            Self::Slices(slices) => slices.run::<T>(&target, values, combine),
        }
    }

    /// Combines the values, or one value for all, into the target.
    fn combine(&self, name: &'static str, values: &Tensor, reduce: Reduce) -> Result<()> {
        let dtype = values.dtype();
        if reduce == Reduce::Mean && dtype == DType::Bool {
            return Err(not_implemented_for(name, dtype));
        }
        match reduce {
            Reduce::Sum | Reduce::Mean => match_dtype!(dtype, name, AllNoF8, T => {
                self.run::<T>(values, add_to)
            }),
            Reduce::Prod => match_dtype!(dtype, name, AllNoF8, T => {
                self.run::<T>(values, multiply_by)
            }),
            Reduce::Amax => match_dtype!(dtype, name, OrderedBool, T => {
                self.run::<T>(values, |slot, value| *slot = slot.larger(value))
            }),
            Reduce::Amin => match_dtype!(dtype, name, OrderedBool, T => {
                self.run::<T>(values, |slot, value| *slot = slot.smaller(value))
            }),
        }
    }

    /// Writes one number to all places.
    fn clear(&self, number: Scalar) -> Result<()> {
        let dtype = self.target().dtype();
        let value = op::full(&[1], number, Some(dtype), None, None, None)?;
        match_dtype!(dtype, "scatter_reduce_exclude_input_init", AllNoF8, T => {
            self.run::<T>(&value, put_in)
        })
    }

    /// Divides every element of the target by how many were summed into it.
    fn divide(self, include_self: bool) -> Result<()> {
        let target = self.target().clone();
        let start = Scalar::Int(i64::from(include_self));
        let counts = op::full_like(&target, start, None, None, None, None, None)?;
        let one = op::full(&[1], Scalar::Int(1), Some(target.dtype()), None, None, None)?;
        let counting = match self {
            Self::Elements(scatter) => {
                Self::Elements(Scatter { target: counts.clone(), ..scatter })
            }
            Self::Slices(slices) => Self::Slices(Slices { self_: counts.clone(), ..slices }),
        };
        counting.combine("scatter_gather_tensor_cpu", &one, Reduce::Sum)?;
        let nothing = op::eq_scalar(&counts, Scalar::Int(0))?;
        op::masked_fill__scalar(&counts, &nothing, Scalar::Int(1))?;
        let rounding = match target.dtype().is_integral(true) {
            true => Some("floor"),
            false => None,
        };
        op::div__tensor_mode(&target, &counts, rounding)?;
        Ok(())
    }

    fn reduce(self, values: &Tensor, reduce: Reduce, include_self: bool) -> Result<()> {
        let name = match (&self, reduce) {
            (Self::Slices(_), _) => "index_func_",
            (_, Reduce::Sum | Reduce::Prod) => "scatter_gather_tensor_cpu",
            (_, Reduce::Mean) => "scatter_gather_tensor_cpu_reduce_mean",
            (_, Reduce::Amax) => "scatter_gather_tensor_cpu_reduce_amax",
            (_, Reduce::Amin) => "scatter_gather_tensor_cpu_reduce_amin",
        };
        if !include_self {
            self.clear(reduce.identity(self.target().dtype())?)?;
        }
        self.combine(name, values, reduce)?;
        if reduce == Reduce::Mean { self.divide(include_self) } else { Ok(()) }
    }
}

/// Combines the elements of `src` into those along `dim` that `index` names.
///
/// # Errors
/// `Runtime` when ranks, sizes or dtypes do not fit, an index is out of bounds, or there is no
/// such way to combine.
pub fn scatter_reduce_two_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let reduce = Reduce::named(reduce)?;
    if let Some(scatter) = prepare("scatter", self_, dim, index, Some(src))? {
        let values = narrowed(src, index)?;
        ScatterTarget::Elements(scatter).reduce(&values, reduce, include_self)?;
    }
    Ok(self_.clone())
}

/// The functional form of [`scatter_reduce_two_`].
///
/// # Errors
/// As [`scatter_reduce_two_`].
pub fn scatter_reduce_two(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    scatter_reduce_two_(&contiguous_copy(self_)?, dim, index, src, reduce, include_self)
}

/// Combines the slices of `source` into those along `dim` that `index` names.
///
/// # Errors
/// As [`scatter_reduce_two_`].
pub fn index_reduce_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let Ok(kind @ (Reduce::Prod | Reduce::Mean | Reduce::Amax | Reduce::Amin)) =
        Reduce::named(reduce)
    else {
        bail!(
            Runtime,
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        );
    };
    let (slices, values) = reduced_slices(self_, dim, index, source)?;
    ScatterTarget::Slices(slices).reduce(&values, kind, include_self)?;
    Ok(self_.clone())
}

/// The functional form of [`index_reduce_`].
///
/// # Errors
/// As [`index_reduce_`].
pub fn index_reduce(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    index_reduce_(&contiguous_copy(self_)?, dim, index, source, reduce, include_self)
}
