//! Reductions.

use crate::pointwise::steps::note_reduction;
use crate::reduce::cascade;
use crate::reduce::folds::{All, Any, Extrema, Extremum, IntSum, Order, Product, Select};
use crate::reduce::loops::{fold, for_each_output_row};
use crate::reduce::moments::{Norm, NormOrder, Variance};
use crate::rows::loops::compiled;
use corten_core::{Complex, DType, Element, Result, Scalar, bug, ensure, not_implemented_for};
use corten_ops::iter::{TensorIterator, TensorIteratorConfig};
use corten_ops::{Tensor, meta, op};

/// Sets every element of the output to zero.
fn clear(iter: &mut TensorIterator) -> Result<()> {
    let size = iter.dtype(0).itemsize();
    for_each_output_row(iter, 0, |first, stride, count| {
        if stride == size as i64 {
            // SAFETY: the iterator vouches for the elements of its output, which are side by side.
            return unsafe { first.write_bytes(0, count as usize * size) };
        }
        for i in 0..count {
            // SAFETY: the iterator vouches for the elements of its output.
            unsafe { first.wrapping_offset((stride * i) as isize).write_bytes(0, size) };
        }
    })
}

/// The sum in the order of Note [Cascade sum] for floating point, else in `i64`.
fn sum_plain(iter: &mut TensorIterator) -> Result<()> {
    let (to, from) = (iter.dtype(0), iter.dtype(1));
    if to.is_integral(true) {
        return fold(iter, &IntSum);
    }
    clear(iter)?;
    let half = matches!(to, DType::Float16 | DType::BFloat16);
    if to == DType::Complex32 || (half && iter.num_reduce_dims() > 1) {
        return sum_half(iter);
    }
    if to == from {
        return known(cascade::sum(iter)?, to);
    }
    let input = op::to_dtype(iter.input(0), to, false, false, None)?;
    sum_of(iter, &input)
}

/// The sum of another tensor of the input's shape, in the output's dtype.
fn sum_of(iter: &mut TensorIterator, input: &Tensor) -> Result<()> {
    let config = TensorIteratorConfig::reduction().add_output(Some(iter.tensor(0)));
    let mut other = config.add_input(input).build()?;
    // The output is held by one walk at a time.
    iter.finish()?;
    known(cascade::sum(&mut other)?, iter.dtype(0))
}

fn known(known: bool, dtype: DType) -> Result<()> {
    if known { Ok(()) } else { Err(not_implemented_for("sum_cpu", dtype)) }
}

/// Sums of 16-bit numbers over several dimensions keep their partial results in `f32`, those of
/// pairs of them always.
fn sum_half(iter: &mut TensorIterator) -> Result<()> {
    in_single(iter, |wide| known(cascade::sum(wide)?, wide.dtype(0)))
}

/// Runs a reduction of 16-bit numbers in `f32`.
fn in_single(
    iter: &mut TensorIterator,
    run: impl FnOnce(&mut TensorIterator) -> Result<()>,
) -> Result<()> {
    // The output is held by one walk at a time.
    iter.finish()?;
    let wide = iter.dtype(0).opmath();
    let single = |tensor: &Tensor| op::to_dtype(tensor, wide, false, false, None);
    let (input, output) = (single(iter.input(0))?, single(iter.tensor(0))?);
    let config = TensorIteratorConfig::reduction().add_output(Some(&output));
    let mut wide = config.add_input(&input).build()?;
    run(&mut wide)?;
    wide.finish()?;
    op::copy_(iter.tensor(0), &output, false)?;
    Ok(())
}

/// Whether a sum or mean makes no tensor of its input in another dtype first.
fn reads_walk_alone(iter: &TensorIterator) -> bool {
    let (to, from) = (iter.dtype(0), iter.dtype(1));
    to.is_integral(true) || (to == from && !to.is_reduced_float() && to != DType::Complex32)
}

/// `sum`.
///
/// # Errors
/// `NotImplemented` for dtypes that are only stored; for the functions below likewise.
pub fn sum(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    if reads_walk_alone(iter) {
        note_reduction(iter, sum, &[])?;
    }
    sum_plain(iter)
}

/// `nansum`.
pub fn nansum(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    if !iter.dtype(1).is_floating_point() {
        return sum_plain(iter);
    }
    if iter.dtype(0) == iter.dtype(1) {
        clear(iter)?;
        return known(cascade::sum_present(iter)?, iter.dtype(0));
    }
    let input = op::to_dtype(iter.input(0), iter.dtype(0), false, false, None)?;
    let input = op::nan_to_num(&input, Some(0.0), Some(f64::INFINITY), Some(-f64::INFINITY))?;
    if input.dtype().is_integral(true) {
        let config = TensorIteratorConfig::reduction().add_output(Some(iter.tensor(0)));
        let mut without = config.add_input(&input).build()?;
        iter.finish()?;
        return sum_plain(&mut without);
    }
    clear(iter)?;
    sum_of(iter, &input)
}

/// `mean`: the sum, divided; of 16-bit numbers in `f32`, where the sum does not overflow.
pub fn mean(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    if reads_walk_alone(iter) {
        note_reduction(iter, mean, &[])?;
    }
    if iter.dtype(0).is_reduced_float() {
        return in_single(iter, |wide| mean(wide, &[]));
    }
    ensure!(
        iter.dtype(0).is_floating_point() || iter.dtype(0).is_complex(),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        iter.input_dtype().type_name(),
        iter.dtype(0).type_name()
    );
    sum_plain(iter)?;
    let outputs: i64 = iter.shape()[iter.num_reduce_dims()..].iter().product();
    let count = if outputs == 0 { 0.0 } else { (iter.numel() / outputs) as f64 };
    match iter.dtype(0) {
        DType::Float32 => divide(iter, |x: f32| x / count as f32),
        DType::Float64 => divide(iter, |x: f64| x / count),
        DType::Complex64 => divide(iter, |z: Complex<f32>| z / count as f32),
        DType::Complex128 => divide(iter, |z: Complex<f64>| z / count),
        other => bug!("the mean has dtype {}", other.name()),
    }
}

fn divide<T: Element>(iter: &mut TensorIterator, quotient: impl Fn(T) -> T) -> Result<()> {
    for_each_output_row(iter, 0, |first, stride, count| {
        if stride == size_of::<T>() as i64 && first.cast::<T>().is_aligned() {
            // SAFETY: the iterator vouches for the elements of its output, which are side by side.
            let row = unsafe { std::slice::from_raw_parts_mut(first.cast::<T>(), count as usize) };
            return compiled(|| row.iter_mut().for_each(|x| *x = quotient(*x)));
        }
        for i in 0..count {
            let place = first.wrapping_offset((stride * i) as isize).cast::<T>();
            // SAFETY: the iterator vouches for the elements of its output, of this type.
            unsafe { place.write_unaligned(quotient(place.read_unaligned())) };
        }
    })
}

/// `prod`: floats in their own precision, those of 16 bits in `f32`, integers in `i64`.
pub fn prod(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    note_reduction(iter, prod, &[])?;
    match iter.dtype(0) {
        to if to.is_complex() => fold(iter, &Product::<Complex<f64>>::default()),
        DType::Float64 => fold(iter, &Product::<f64>::default()),
        to if to.is_floating_point() => fold(iter, &Product::<f32>::default()),
        _ => fold(iter, &Product::<i64>::default()),
    }
}

/// Runs a fold in the type in which a dtype's values are ordered; short integers but bytes are widened where
/// `wide` is said.
macro_rules! ordered {
    (wide $iter:ident, $name:literal, $T:ident => $fold:expr) => {{
        let dtype = $iter.dtype($iter.noutputs());
        match dtype {
            DType::Float16 | DType::BFloat16 | DType::Float32 => ordered!(@run $iter f32 $T $fold),
            DType::Float64 => ordered!(@run $iter f64 $T $fold),
            DType::Bool | DType::UInt8 => ordered!(@run $iter u8 $T $fold),
            DType::Int8 | DType::Int16 | DType::Int32 => ordered!(@run $iter i32 $T $fold),
            DType::Int64 => ordered!(@run $iter i64 $T $fold),
            other => Err(not_implemented_for($name, other)),
        }
    }};
    ($iter:ident, $name:literal, $T:ident => $fold:expr) => {{
        let dtype = $iter.dtype($iter.noutputs());
        match dtype {
            DType::Float16 | DType::BFloat16 | DType::Float32 => ordered!(@run $iter f32 $T $fold),
            DType::Float64 => ordered!(@run $iter f64 $T $fold),
            DType::Bool | DType::UInt8 => ordered!(@run $iter u8 $T $fold),
            DType::Int8 => ordered!(@run $iter i8 $T $fold),
            DType::Int16 => ordered!(@run $iter i16 $T $fold),
            DType::Int32 => ordered!(@run $iter i32 $T $fold),
            DType::Int64 => ordered!(@run $iter i64 $T $fold),
            other => Err(not_implemented_for($name, other)),
        }
    }};
    (@run $iter:ident $type:ident $T:ident $fold:expr) => {{
        type $T = $type;
        fold($iter, &$fold)
    }};
}

/// `amax` and `max` of everything.
pub fn amax(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    note_reduction(iter, amax, &[])?;
    ordered!(iter, "max_values_cpu", T => Extremum::<T>::new(Order::Max))
}

/// `amin` and `min` of everything.
pub fn amin(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    note_reduction(iter, amin, &[])?;
    ordered!(iter, "min_values_cpu", T => Extremum::<T>::new(Order::Min))
}

/// `max.dim`: values and indices.
pub fn max_dim(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered!(wide iter, "max_cpu", T => Select::<T>::new(Order::Max))
}

/// `min.dim`: values and indices.
pub fn min_dim(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered!(wide iter, "min_cpu", T => Select::<T>::new(Order::Min))
}

/// `argmax`.
pub fn argmax(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered!(wide iter, "argmax_cpu", T => Select::<T>::new(Order::Max))
}

/// `argmin`.
pub fn argmin(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered!(wide iter, "argmin_cpu", T => Select::<T>::new(Order::Min))
}

/// `aminmax`: of everything in one pass; of slices in two, each of which takes the states of many
/// columns at a time.
pub fn aminmax(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    if iter.output(0).numel() == 1 {
        return ordered!(wide iter, "aminmax_cpu", T => Extrema::<T>::default());
    }
    iter.acquire()?;
    for (output, order) in [Order::Min, Order::Max].into_iter().enumerate() {
        let one = &mut iter.with_output(output);
        ordered!(one, "aminmax_cpu", T => Extremum::<T>::new(order))?;
    }
    Ok(())
}

/// `any`.
pub fn any(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    note_reduction(iter, any, &[])?;
    fold(iter, &Any)
}

/// `all`.
pub fn all(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    note_reduction(iter, all, &[])?;
    fold(iter, &All)
}

/// `linalg_vector_norm`; the first scalar is the order.
pub fn vector_norm(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    note_reduction(iter, vector_norm, scalars)?;
    let Some(order) = scalars.first() else { bug!("a norm needs an order") };
    let order = NormOrder::new(order.to_f64());
    match iter.dtype(1) {
        dtype if dtype.is_complex() => fold(iter, &Norm::<Complex<f64>>::new(order)),
        DType::Float64 => fold(iter, &Norm::<f64>::new(order)),
        _ => fold(iter, &Norm::<f32>::new(order)),
    }
}

/// What is made of the variance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    Variance,
    Deviation,
}

fn spread(iter: &mut TensorIterator, spread: Spread, correction: Option<Scalar>) -> Result<()> {
    let correction = correction.map_or(1.0, |correction| correction.to_f64());
    let root = spread == Spread::Deviation;
    if iter.noutputs() == 1 {
        note_reduction(iter, spread_of_rows, &[Scalar::Float(correction), Scalar::Bool(root)])?;
    }
    let complex = iter.dtype(iter.noutputs()).is_complex();
    match (iter.noutputs(), complex) {
        (1, true) => fold(iter, &Variance::<Complex<f64>, false>::new(correction, root)),
        (1, false) => fold(iter, &Variance::<f64, false>::new(correction, root)),
        (_, true) => fold(iter, &Variance::<Complex<f64>, true>::new(correction, root)),
        (_, false) => fold(iter, &Variance::<f64, true>::new(correction, root)),
    }
}

/// A spread by its correction, and whether the root is taken.
fn spread_of_rows(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let (Some(correction), Some(root)) = (scalars.first(), scalars.get(1)) else {
        bug!("a spread needs a correction")
    };
    let which = if root.to_bool() { Spread::Deviation } else { Spread::Variance };
    spread(iter, which, Some(*correction))
}

fn spread_into(
    which: Spread,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    let mut iter = meta::reduction_var(self_, dim, correction, keepdim, out)?;
    spread(&mut iter, which, correction)?;
    iter.finish()?;
    Ok(iter.into_output(0))
}

fn spread_and_mean(
    which: Spread,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let mut iter = meta::reduction_var_mean(self_, dim, correction, keepdim, None, None)?;
    spread(&mut iter, which, correction)?;
    iter.finish()?;
    Ok((iter.output(0), iter.output(1)))
}

/// Defines a spread with its out and mean forms.
macro_rules! spreads {
    ($($doc:literal $spread:ident $name:ident $out:ident $with_mean:ident;)+) => {$(
        #[doc = $doc]
        pub fn $name(
            self_: &Tensor,
            dim: Option<&[i64]>,
            correction: Option<Scalar>,
            keepdim: bool,
        ) -> Result<Tensor> {
            spread_into(Spread::$spread, self_, dim, correction, keepdim, None)
        }

        #[doc = $doc]
        /// Into `out`.
        pub fn $out(
            self_: &Tensor,
            dim: Option<&[i64]>,
            correction: Option<Scalar>,
            keepdim: bool,
            out: &Tensor,
        ) -> Result<Tensor> {
            meta::check_var_out(self_, out)?;
            spread_into(Spread::$spread, self_, dim, correction, keepdim, Some(out))
        }

        #[doc = $doc]
        /// With the mean.
        pub fn $with_mean(
            self_: &Tensor,
            dim: Option<&[i64]>,
            correction: Option<Scalar>,
            keepdim: bool,
        ) -> Result<(Tensor, Tensor)> {
            spread_and_mean(Spread::$spread, self_, dim, correction, keepdim)
        }
    )+};
}

spreads! {
    "The variance." Variance var var_out var_mean;
    "The standard deviation." Deviation std std_out std_mean;
}
