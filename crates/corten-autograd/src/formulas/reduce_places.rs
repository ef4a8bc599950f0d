//! Gradients of `scatter_reduce` and `index_reduce`.

use corten_core::{Result, Scalar, bail};
use corten_ops::{Tensor, op};

/// Where the elements of a source went.
#[derive(Clone, Copy)]
enum ScatterIndex<'a> {
    Elements { dim: i64, index: &'a Tensor },
    Slices { dim: i64, index: &'a Tensor },
}

impl ScatterIndex<'_> {
    /// What lies at the places, in the shape of the source.
    fn read(self, from: &Tensor) -> Result<Tensor> {
        match self {
            Self::Elements { dim, index } => op::gather(from, dim, index, false),
            Self::Slices { dim, index } => op::index_select(from, dim, index),
        }
    }

    fn add(self, to: &Tensor, source: &Tensor) -> Result<Tensor> {
        match self {
            Self::Elements { dim, index } => op::scatter_add(to, dim, index, source),
            Self::Slices { dim, index } => op::index_add(to, dim, index, source, 1.into()),
        }
    }

    fn reduce(self, to: &Tensor, source: &Tensor, reduce: &str, with: bool) -> Result<Tensor> {
        match self {
            Self::Elements { dim, index } => {
                op::scatter_reduce_two(to, dim, index, source, reduce, with)
            }
            Self::Slices { dim, index } => op::index_reduce(to, dim, index, source, reduce, with),
        }
    }

    /// Zeros at the places.
    fn clear(self, to: &Tensor) -> Result<Tensor> {
        match self {
            Self::Elements { dim, index } => op::scatter_value(to, dim, index, 0.into()),
            Self::Slices { dim, index } => op::index_fill_int_scalar(to, dim, index, 0.into()),
        }
    }
}

/// The operands and the result of a reduction.
struct Call<'a> {
    places: ScatterIndex<'a>,
    grad: &'a Tensor,
    target: &'a Tensor,
    source: &'a Tensor,
    result: &'a Tensor,
    include_self: bool,
}

/// The gradients of target and source, the source in the shape of what was read of it.
type Pair = Result<(Tensor, Tensor)>;

impl Call<'_> {
    fn gradients(&self, reduce: &str) -> Pair {
        let (target, source) = match reduce {
            "sum" => (self.grad.clone(), self.places.read(self.grad)?),
            "prod" => self.of_product()?,
            "mean" => self.of_mean()?,
            "amax" | "amin" => self.of_extremum()?,
            _ => bail!(Runtime, "there is no gradient of the reduction {reduce}"),
        };
        let target = if self.include_self { target } else { self.places.clear(&target)? };
        Ok((target, source))
    }

    /// The gradient is shared among all that are equal to the result.
    fn of_extremum(&self) -> Pair {
        let dtype = self.target.dtype();
        let same = |a: &Tensor, b: &Tensor| {
            let equal = op::eq_tensor(a, b)?;
            op::to_dtype(&equal, dtype, false, false, None)
        };
        let target = same(self.target, self.result)?;
        let source = same(self.source, &self.places.read(self.result)?)?;
        let share = op::div_tensor(self.grad, &self.places.add(&target, &source)?)?;
        Ok((op::mul_tensor(&target, &share)?, op::mul_tensor(&source, &self.places.read(&share)?)?))
    }

    fn of_mean(&self) -> Pair {
        let like = |tensor: &Tensor, number: bool| {
            op::full_like(tensor, Scalar::Int(number.into()), None, None, None, None, None)
        };
        let counts =
            self.places.add(&like(self.grad, self.include_self)?, &like(self.source, true)?)?;
        let nothing = op::eq_scalar(&counts, 0.into())?;
        let counts = op::masked_fill_scalar(&counts, &nothing, 1.into())?;
        let source = op::div_tensor(&self.places.read(self.grad)?, &self.places.read(&counts)?)?;
        Ok((op::div_tensor(self.grad, &counts)?, source))
    }

    /// The product of the others: the result divided by the element, or where that is 0, the
    /// product computed anew with a 1 in its place.
    fn of_product(&self) -> Pair {
        let (target, source) = (self.target, self.source);
        let without_zeros =
            op::masked_fill_scalar(target, &op::eq_scalar(target, 0.into())?, 1.into())?;
        let others = self.places.reduce(&without_zeros, source, "prod", self.include_self)?;
        let to_target = op::conj(&op::div_tensor(&others, &without_zeros)?)?;
        let zero = op::eq_scalar(source, 0.into())?;
        let as_numbers = op::to_dtype(&zero, target.dtype(), false, false, None)?;
        let zeros = op::zeros_like(target, None, None, None, None, None)?;
        let zeros = self.places.read(&self.places.add(&zeros, &as_numbers)?)?;
        let alone = op::logical_and(&zero, &op::eq_scalar(&zeros, 1.into())?)?;
        let filled = op::masked_fill_scalar(source, &alone, 1.into())?;
        let anew = self.places.reduce(target, &filled, "prod", self.include_self)?;
        let usual = op::div_tensor(
            &self.places.read(self.result)?,
            &op::masked_fill_scalar(source, &zero, 1.into())?,
        )?;
        let factor = op::where_self(&alone, &self.places.read(&anew)?, &usual)?;
        Ok((
            op::mul_tensor(self.grad, &to_target)?,
            op::mul_tensor(&self.places.read(self.grad)?, &op::conj(&factor)?)?,
        ))
    }
}

/// Of `scatter_reduce`, with respect to `self` and `src`.
///
/// # Errors
/// Those of the operators.
pub fn scatter_reduce_backward(
    _needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<Vec<Tensor>> {
    let places = ScatterIndex::Elements { dim, index };
    // What is read of the source has the shape of the index.
    let mut source = src.clone();
    for (d, &size) in index.sizes().iter().enumerate() {
        source = op::narrow(&source, d as i64, 0, size)?;
    }
    let call = Call { places, grad, target: self_, source: &source, result, include_self };
    let (to_self, mut to_source) = call.gradients(reduce)?;
    if source.sizes() != src.sizes() {
        let (sizes, have) = (src.sizes(), to_source.sizes());
        let missing = sizes.iter().zip(&have).rev().flat_map(|(a, b)| [0, a - b]);
        to_source = op::constant_pad_nd(&to_source, &missing.collect::<Vec<_>>(), 0.into())?;
    }
    Ok(vec![to_self, to_source])
}

/// Of `index_reduce`, with respect to `self` and `source`.
///
/// # Errors
/// Those of the operators.
pub fn index_reduce_backward(
    _needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<Vec<Tensor>> {
    let places = ScatterIndex::Slices { dim, index };
    let call = Call { places, grad, target: self_, source, result, include_self };
    let (to_self, to_source) = call.gradients(reduce)?;
    Ok(vec![to_self, op::reshape(&to_source, &source.sizes())?])
}
