//! Factories that compute their elements from the position, and triangles of matrices.

use crate::indexing::bits_of;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta};
use crate::pointwise::Numbers;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar, bug, not_implemented_for};
use corten_ops::iter::TensorIterator;
use corten_ops::{Tensor, op};

static BY_POSITION: Template = Template { name: "by_position", text: &[text::FACTORY] };
static TRIANGLE: Template = Template { name: "triangle", text: &[text::FACTORY] };

/// Runs `by_position` of a kind over the output of a walk; `numbers` are start, end, step and base.
fn count(iter: &mut TensorIterator, kind: u32, numbers: &[Scalar], value: DType) -> Result<()> {
    let mut n = iter.numel();
    if n == 0 {
        return Ok(());
    }
    if iter.ndim() > 1 {
        bug!("a range has one dimension");
    }
    let mut stride = iter.strides(0).first().copied().unwrap_or(0);
    let mut numbers = Numbers::of(numbers, value)?;
    let dtype = iter.dtype(0);
    let mut to = iter.data_ptr(0)?;
    let stream = Stream::current(iter.device().index);
    let arguments = [Argument::Storage(dtype), Argument::Value(value), Argument::Number(kind)];
    let parameters = parameters!(n, to, stride, numbers);
    // SAFETY: the iterator holds `n` elements at this stride.
    unsafe { BY_POSITION.launch(&arguments, Shape::over(iter.numel()), stream, parameters) }
}

/// `arange`: `start + step * position`.
///
/// # Errors
/// `NotImplemented` for dtypes that ranges are not counted in; for the functions below likewise.
pub fn arange(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let &[start, end, step] = scalars else { bug!("arange needs start, end and step") };
    let dtype = iter.dtype(0);
    if dtype.is_complex() || dtype == DType::Bool || dtype.is_barebones_unsigned() {
        return Err(not_implemented_for("arange_cuda", dtype));
    }
    if dtype.is_integral(false) {
        let [start, step] = [start, step].map(|number| Scalar::Int(number.to_i64()));
        return count(iter, 0, &[start, Scalar::Int(0), step], DType::Int64);
    }
    count(iter, 0, &[start, end, step], dtype)
}

/// The step between numbers of a line.
fn step_of(start: Scalar, end: Scalar, steps: i64) -> Scalar {
    let parts = (steps - 1) as f64;
    if steps <= 1 {
        return Scalar::Int(0);
    }
    if start.is_complex() || end.is_complex() {
        let (start, end) = (start.to_complex(), end.to_complex());
        let re = (end.re - start.re) / parts;
        return Scalar::Complex(corten_core::Complex::new(re, (end.im - start.im) / parts));
    }
    Scalar::from((end.to_f64() - start.to_f64()) / parts)
}

/// The ends of a line as numbers of a dtype, and what it is counted in.
fn line(dtype: DType, ends: [Scalar; 2]) -> ([Scalar; 2], DType) {
    match dtype.is_integral(true) {
        true => (ends.map(|end| Scalar::from(end.to_f64().trunc())), DType::Float64),
        false => (ends, dtype),
    }
}

/// `linspace`: the first half counted from the start, the second half back from the end.
pub fn linspace(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let &[start, end, steps] = scalars else { bug!("linspace needs start, end and steps") };
    let ([start, end], value) = line(iter.dtype(0), [start, end]);
    count(iter, 1, &[start, end, step_of(start, end, steps.to_i64())], value)
}

/// `logspace`: powers of the base with exponents as in [`linspace`].
pub fn logspace(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let &[start, end, steps, base] = scalars else {
        bug!("logspace needs start, end, steps and base")
    };
    let ([start, end], value) = line(iter.dtype(0), [start, end]);
    count(iter, 2, &[start, end, step_of(start, end, steps.to_i64()), base], value)
}

/// The lower triangle of each matrix: columns up to `row + diagonal`.
pub fn tril(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    op::tril(&on_meta(self_)?, diagonal)?;
    triangle(self_, diagonal, 1)
}

/// The upper triangle of each matrix: columns from `row + diagonal`.
pub fn triu(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    op::triu(&on_meta(self_)?, diagonal)?;
    triangle(self_, diagonal, 0)
}

fn triangle(self_: &Tensor, diagonal: i64, lower: u32) -> Result<Tensor> {
    let input = contiguous(self_)?;
    let out = empty(&self_.sizes(), self_.dtype(), self_)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let held = Operands::hold(&[(&out, Access::Write), (&input, Access::Read)])?;
    let (mut n, mut to, mut from) = (out.numel() as u64, held.at(0), held.at(1));
    let (mut rows, mut columns) = (self_.size(-2)? as u64, self_.size(-1)? as u64);
    let mut diagonal = diagonal;
    let stream = Stream::current(out.device().index);
    let arguments = [Argument::Storage(bits_of(out.dtype())), Argument::Number(lower)];
    let parameters = parameters!(n, to, from, rows, columns, diagonal);
    // SAFETY: both are contiguous, of the same sizes, and held.
    unsafe { TRIANGLE.launch(&arguments, Shape::over(out.numel()), stream, parameters)? };
    drop(held);
    Ok(out)
}
