//! Factories with defaults; with options they are in [`build`](crate::build).

use crate::{Tensor, op};
use corten_core::{Result, Scalar};

/// Tensors of the default dtype on the CPU, unless a function says otherwise. With a dtype, a device or a generator
/// they are builders: `build::zeros(&[2, 3]).dtype(DType::Int64).call()`.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = Tensor::randn([2, 3])?;
/// assert_eq!(x.sizes().as_slice(), [2, 3]);
/// assert_eq!(Tensor::arange(0, 5)?.to_vec::<i64>()?, [0, 1, 2, 3, 4]);
/// let y = build::zeros(&[4]).dtype(DType::Int64).call()?;
/// assert_eq!(y.dtype(), DType::Int64);
/// # Ok(())
/// # }
/// ```
impl Tensor {
    /// Elements that are still to be written.
    ///
    /// # Errors
    /// `Runtime` for negative sizes, or where no memory is left; so for the functions below.
    pub fn empty(sizes: impl AsRef<[i64]>) -> Result<Self> {
        op::empty_memory_format(sizes.as_ref(), None, None, None, None, None)
    }

    /// Zeros.
    ///
    /// # Errors
    /// As [`empty`](Self::empty).
    pub fn zeros(sizes: impl AsRef<[i64]>) -> Result<Self> {
        op::zeros(sizes.as_ref(), None, None, None, None)
    }

    /// Ones.
    ///
    /// # Errors
    /// As [`empty`](Self::empty).
    pub fn ones(sizes: impl AsRef<[i64]>) -> Result<Self> {
        op::ones(sizes.as_ref(), None, None, None, None)
    }

    /// A number everywhere; its type decides the dtype.
    ///
    /// # Errors
    /// As [`empty`](Self::empty).
    pub fn full(sizes: impl AsRef<[i64]>, value: impl Into<Scalar>) -> Result<Self> {
        op::full(sizes.as_ref(), value.into(), None, None, None, None)
    }

    /// The identity matrix with `n` rows.
    ///
    /// # Errors
    /// As [`empty`](Self::empty).
    pub fn eye(n: i64) -> Result<Self> {
        op::eye(n, None, None, None, None)
    }

    /// Numbers from `start` up to, not with, `end`, by ones; integers give an `int64`.
    ///
    /// # Errors
    /// `Runtime` when the end is before the start.
    pub fn arange(start: impl Into<Scalar>, end: impl Into<Scalar>) -> Result<Self> {
        op::arange_start(start.into(), end.into(), None, None, None, None)
    }

    /// `steps` numbers from `start` to `end`.
    ///
    /// # Errors
    /// `Runtime` for a negative number of steps.
    pub fn linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: i64) -> Result<Self> {
        op::linspace(start.into(), end.into(), steps, None, None, None, None)
    }

    /// Uniform random numbers in [0, 1).
    ///
    /// # Errors
    /// As [`empty`](Self::empty).
    pub fn rand(sizes: impl AsRef<[i64]>) -> Result<Self> {
        op::rand(sizes.as_ref(), None, None, None, None)
    }

    /// Standard normal random numbers.
    ///
    /// # Errors
    /// As [`empty`](Self::empty).
    pub fn randn(sizes: impl AsRef<[i64]>) -> Result<Self> {
        op::randn(sizes.as_ref(), None, None, None, None)
    }

    /// Random integers from `low` up to, not with, `high`, as `int64`.
    ///
    /// # Errors
    /// `Runtime` when there is no number between.
    pub fn randint(low: i64, high: i64, sizes: impl AsRef<[i64]>) -> Result<Self> {
        op::randint_low(low, high, sizes.as_ref(), None, None, None, None)
    }

    /// The integers below `n` in random order, as `int64`.
    ///
    /// # Errors
    /// `Runtime` for a negative number.
    pub fn randperm(n: i64) -> Result<Self> {
        op::randperm(n, None, None, None, None)
    }
}
