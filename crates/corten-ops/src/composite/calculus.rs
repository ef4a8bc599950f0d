//! Differences and integrals of samples.

use super::support::along;
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, ensure, geometry};

const ONE: Scalar = Scalar::Int(1);

fn slice(tensor: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>) -> Result<Tensor> {
    op::slice_tensor(tensor, dim, start, end, 1)
}

/// Differences of neighbours along a dimension, `n` times over.
///
/// # Errors
/// `Runtime` for a rank-0 tensor, a negative order and tensors in front or behind that do not fit.
pub fn diff(
    self_: &Tensor,
    n: i64,
    dim: i64,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Runtime, "diff expects input to be at least one-dimensional");
    let axis = geometry::wrap_dim(dim, self_.dim())? as i64;
    let mut parts = vec![self_.clone()];
    for (place, part) in [(0, prepend), (1, append)] {
        if let Some(part) = part.filter(|part| part.defined()) {
            check_neighbour(self_, part, axis as usize)?;
            parts.insert(if place == 0 { 0 } else { parts.len() }, part.clone());
        }
    }
    ensure!(n >= 0, Runtime, "order must be non-negative but got {n}");
    if n == 0 {
        return op::clone(self_, None);
    }
    let mut values = if parts.len() > 1 { op::cat(&parts, axis)? } else { self_.clone() };
    for _ in 0..n.min(values.size(axis)?) {
        let size = values.size(axis)?;
        let (next, before) = (
            slice(&values, axis, Some(1.min(size)), None)?,
            slice(&values, axis, None, Some((size - 1).max(0)))?,
        );
        values = match values.dtype() {
            DType::Bool => op::logical_xor(&next, &before)?,
            _ => op::sub_tensor(&next, &before, ONE)?,
        };
    }
    Ok(values)
}

fn check_neighbour(self_: &Tensor, part: &Tensor, axis: usize) -> Result<()> {
    ensure!(
        part.dim() == self_.dim(),
        Runtime,
        "diff expects prepend or append to be the same dimension as input"
    );
    for (i, (&size, &other)) in self_.sizes().iter().zip(part.sizes().iter()).enumerate() {
        ensure!(
            size == other || i == axis,
            Runtime,
            "diff expects the shape of tensor to prepend or append to match that of input except \
             along the differencing dimension; input.size({i}) = {size}, but got \
             tensor.size({i}) = {other}"
        );
    }
    Ok(())
}

/// The points of a dimension as distances to their neighbours, along the right dimension of `y`.
fn distances(y: &Tensor, x: &Tensor, dim: i64, name: &str) -> Result<Tensor> {
    let axis = geometry::wrap_dim(dim, y.dim())?;
    if x.dim() != 1 {
        let last = x.dim() == 0;
        let dx = op::sub_tensor(
            &if last {
                slice(&op::unsqueeze(x, 0)?, 0, Some(1), None)?
            } else {
                slice(x, dim, Some(1), None)?
            },
            &if last {
                slice(&op::unsqueeze(x, 0)?, 0, None, Some(-1))?
            } else {
                slice(x, dim, None, Some(-1))?
            },
            ONE,
        )?;
        return Ok(dx);
    }
    let points = x.numel();
    ensure!(
        points == y.sizes()[axis],
        Runtime,
        "{name}: There must be one `x` value for each sample point"
    );
    let dx = op::sub_tensor(&slice(x, 0, Some(1), None)?, &slice(x, 0, None, Some(-1))?, ONE)?;
    along(&dx, y.dim(), axis)
}

fn no_bool(tensor: &Tensor, name: &str, argument: &str) -> Result<()> {
    ensure!(
        tensor.dtype() != DType::Bool,
        NotImplemented,
        "{name}: received a bool input for `{argument}`, but bool is not supported"
    );
    Ok(())
}

/// Sums of neighbouring samples.
fn pairs(y: &Tensor, dim: i64) -> Result<Tensor> {
    op::add_tensor(&slice(y, dim, None, Some(-1))?, &slice(y, dim, Some(1), None)?, ONE)
}

fn half(tensor: &Tensor) -> Result<Tensor> {
    op::div_scalar(tensor, Scalar::Float(2.0))
}

fn sum(tensor: &Tensor, dim: i64) -> Result<Tensor> {
    op::sum_dim_intlist(tensor, Some(&[dim]), false, None)
}

/// Where there is no sample the integral is zero.
fn is_empty(y: &Tensor, dim: i64) -> Result<bool> {
    ensure!(y.dim() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    Ok(y.sizes()[geometry::wrap_dim(dim, y.dim())?] == 0)
}

fn nothing(y: &Tensor, dim: i64) -> Result<Tensor> {
    let mut shape = y.sizes();
    shape.remove(geometry::wrap_dim(dim, y.dim())?);
    op::new_zeros(y, &shape, None, None, None, None)
}

/// The integral along a dimension by the trapezoidal rule, over points `x`.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for points that do not fit, `NotImplemented` for
/// bool.
pub fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    if is_empty(y, dim)? {
        return nothing(y, dim);
    }
    no_bool(y, "trapezoid", "y")?;
    no_bool(x, "trapezoid", "x")?;
    let dx = distances(y, x, dim, "trapezoid")?;
    half(&sum(&op::mul_tensor(&pairs(y, dim)?, &dx)?, dim)?)
}

/// The integral along a dimension by the trapezoidal rule, over points at a distance.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for bool.
pub fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    if is_empty(y, dim)? {
        return nothing(y, dim);
    }
    no_bool(y, "trapezoid", "y")?;
    ensure!(
        !matches!(dx, Scalar::Bool(_)),
        Runtime,
        "trapezoid: Currently, we only support dx as a real number."
    );
    // Every sample counts twice but the first and the last.
    let ends = op::add_tensor(&op::select_int(y, dim, 0)?, &op::select_int(y, dim, -1)?, ONE)?;
    let total = op::sub_tensor(&sum(y, dim)?, &half(&ends)?, ONE)?;
    op::mul_scalar(&total, dx)
}

/// As [`trapezoid_x`].
///
/// # Errors
/// As for [`trapezoid_x`].
pub fn trapz_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    trapezoid_x(y, x, dim)
}

/// As [`trapezoid_dx`].
///
/// # Errors
/// As for [`trapezoid_dx`].
pub fn trapz_dx(y: &Tensor, dx: f64, dim: i64) -> Result<Tensor> {
    trapezoid_dx(y, Scalar::Float(dx), dim)
}

/// The integrals up to each sample but the first, over points `x`.
///
/// # Errors
/// As for [`trapezoid_x`].
pub fn cumulative_trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    is_empty(y, dim)?;
    no_bool(y, "cumulative_trapezoid", "y")?;
    no_bool(x, "cumulative_trapezoid", "x")?;
    let dx = distances(y, x, dim, "cumulative_trapezoid")?;
    half(&op::cumsum(&op::mul_tensor(&pairs(y, dim)?, &dx)?, dim, None)?)
}

/// The integrals up to each sample but the first, over points at a distance.
///
/// # Errors
/// As for [`trapezoid_dx`].
pub fn cumulative_trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    is_empty(y, dim)?;
    no_bool(y, "cumulative_trapezoid", "y")?;
    let sums = op::cumsum(&pairs(y, dim)?, dim, None)?;
    op::mul_scalar(&sums, Scalar::Float(dx.to_f64() / 2.0))
}

/// How far apart the samples of one dimension are.
enum Spacing {
    Step(Scalar),
    Points(Tensor),
}

/// The sum of three weighted parts.
fn weigh(parts: [(Tensor, Tensor); 3]) -> Result<Tensor> {
    let [a, b, c] = parts.map(|(weight, values)| op::mul_tensor(&values, &weight));
    op::add_tensor(&op::add_tensor(&a?, &b?, ONE)?, &c?, ONE)
}

/// The slope along one dimension: central differences, one-sided ones at the ends.
fn slope(self_: &Tensor, dim: i64, spacing: &Spacing, edge_order: i64) -> Result<Tensor> {
    let size = self_.size(dim)?;
    let at = |from: i64, to: i64| slice(self_, dim, Some(from), Some(to));
    let Spacing::Points(points) = spacing else {
        let Spacing::Step(step) = *spacing else { return Ok(self_.clone()) };
        return even_slope(self_, dim, step, edge_order);
    };
    let mut shape = vec![1; self_.dim()];
    shape[geometry::wrap_dim(dim, self_.dim())?] = -1;
    let dx = op::view(
        &op::sub_tensor(
            &slice(points, 0, Some(1), None)?,
            &slice(points, 0, None, Some(-1))?,
            ONE,
        )?,
        &shape,
    )?;
    let d = |from: i64, to: i64| slice(&dx, dim, Some(from), Some(to));
    let (left, right) = (d(0, size - 2)?, d(1, size - 1)?);
    let product = |a: &Tensor, b: &Tensor| op::mul_tensor(a, b);
    let total = op::add_tensor(&left, &right, ONE)?;
    let middle = weigh([
        (op::neg(&op::div_tensor(&right, &product(&left, &total)?)?)?, at(0, size - 2)?),
        (
            op::div_tensor(&op::sub_tensor(&right, &left, ONE)?, &product(&left, &right)?)?,
            at(1, size - 1)?,
        ),
        (op::div_tensor(&left, &product(&right, &total)?)?, at(2, size)?),
    ])?;
    let end = |first: i64, near: Tensor, far: Tensor, sign: f64| -> Result<Tensor> {
        if edge_order == 1 {
            let rise = op::sub_tensor(&at(first + 1, first + 2)?, &at(first, first + 1)?, ONE)?;
            return op::div_tensor(&rise, &near);
        }
        // A parabola through three points; `near` is the distance at the end itself.
        let both = op::add_tensor(&near, &far, ONE)?;
        let twice = op::add_tensor(&both, &near, ONE)?;
        let outer = op::neg(&op::div_tensor(&twice, &product(&near, &both)?)?)?;
        let inner = op::div_tensor(&both, &product(&near, &far)?)?;
        let third = op::neg(&op::div_tensor(&near, &product(&far, &both)?)?)?;
        let places = if sign > 0.0 { [0, 1, 2] } else { [size - 1, size - 2, size - 3] };
        let value = weigh([
            (outer, at(places[0], places[0] + 1)?),
            (inner, at(places[1], places[1] + 1)?),
            (third, at(places[2], places[2] + 1)?),
        ])?;
        if sign > 0.0 { Ok(value) } else { op::neg(&value) }
    };
    let n = size - 1;
    let prepend = end(0, d(0, 1)?, if n > 1 { d(1, 2)? } else { d(0, 1)? }, 1.0)?;
    let append =
        end(size - 2, d(n - 1, n)?, if n > 1 { d(n - 2, n - 1)? } else { d(n - 1, n)? }, -1.0)?;
    op::cat(&[prepend, middle, append], dim)
}

fn even_slope(self_: &Tensor, dim: i64, step: Scalar, edge_order: i64) -> Result<Tensor> {
    let size = self_.size(dim)?;
    let at = |from: i64, to: i64| slice(self_, dim, Some(from), Some(to));
    let over = |a: &Tensor, b: &Tensor, factor: f64| {
        let rise = op::sub_tensor(a, b, ONE)?;
        let step = op::div_scalar(&rise, step)?;
        if factor == 1.0 { Ok(step) } else { op::mul_scalar(&step, Scalar::Float(factor)) }
    };
    let middle = over(&at(2, size)?, &at(0, size - 2)?, 0.5)?;
    let (first, last) = match edge_order {
        1 => (
            over(&at(1, 2)?, &at(0, 1)?, 1.0)?,
            over(&at(size - 1, size)?, &at(size - 2, size - 1)?, 1.0)?,
        ),
        _ => {
            // (-3a + 4b - c) / 2 on the left, mirrored on the right.
            let parabola = |a: Tensor, b: Tensor, c: Tensor| {
                let sum = op::mul_scalar(&b, Scalar::Float(2.0))?;
                let sum = op::sub_tensor(&sum, &a, Scalar::Float(1.5))?;
                op::div_scalar(&op::sub_tensor(&sum, &c, Scalar::Float(0.5))?, step)
            };
            let right =
                parabola(at(size - 1, size)?, at(size - 2, size - 1)?, at(size - 3, size - 2)?)?;
            (parabola(at(0, 1)?, at(1, 2)?, at(2, 3)?)?, op::neg(&right)?)
        }
    };
    op::cat(&[first, middle, last], dim)
}

fn slopes(
    self_: &Tensor,
    spacing: Vec<Spacing>,
    dims: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    ensure!(
        self_.dtype() != DType::UInt8,
        NotImplemented,
        "torch.gradient does not support uint8 input."
    );
    ensure!(
        edge_order == 1 || edge_order == 2,
        Runtime,
        "torch.gradient only supports edge_order=1 and edge_order=2."
    );
    let mut seen = Vec::new();
    for &dim in dims {
        let wrapped = geometry::wrap_dim(dim, self_.dim())?;
        ensure!(
            !seen.contains(&wrapped),
            Runtime,
            "dim {wrapped} appears multiple times in the list of dims"
        );
        seen.push(wrapped);
        ensure!(
            self_.sizes().get(wrapped).copied().unwrap_or(1) > edge_order,
            Runtime,
            "torch.gradient expected each dimension size to be at least edge_order+1"
        );
    }
    for spacing in &spacing {
        if let Spacing::Points(points) = spacing {
            ensure!(
                points.dim() == 1,
                Runtime,
                "torch.gradient expected each element of spacing to have one dimension, but got an \
                 element with {} dimensions!",
                points.dim()
            );
        }
    }
    seen.iter()
        .zip(&spacing)
        .map(|(&dim, spacing)| slope(self_, dim as i64, spacing, edge_order))
        .collect()
}

fn all_dims(self_: &Tensor, dim: Option<i64>) -> Vec<i64> {
    dim.map_or_else(|| (0..self_.dim() as i64).collect(), |dim| vec![dim])
}

fn check_count(self_: &Tensor, count: usize, dims: Option<&[i64]>) -> Result<()> {
    match dims {
        Some(dims) => ensure!(
            dims.len() == count,
            Runtime,
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim \
             arguments to have the same length, but got a spacing argument of length {count} and a \
             dim argument of length {}.",
            dims.len()
        ),
        None => ensure!(
            self_.dim() == count,
            Runtime,
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal \
             to 'self.dim() = {}', since dim argument was not given, but got a list of length \
             {count}",
            self_.dim()
        ),
    }
    Ok(())
}

fn steps(step: Scalar, count: usize) -> Vec<Spacing> {
    (0..count).map(|_| Spacing::Step(step)).collect()
}

/// Slopes along one or every dimension, samples a step apart.
///
/// # Errors
/// `Runtime` for dimensions that are too short or named twice; for the functions below likewise.
pub fn gradient_scalarint(
    self_: &Tensor,
    spacing: Option<Scalar>,
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = all_dims(self_, dim);
    slopes(self_, steps(spacing.unwrap_or(ONE), dims.len()), &dims, edge_order)
}

/// Slopes along some dimensions, samples a step apart.
pub fn gradient_scalararray(
    self_: &Tensor,
    spacing: Scalar,
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    slopes(self_, steps(spacing, dim.len()), dim, edge_order)
}

/// Slopes along some dimensions, samples 1 apart.
pub fn gradient_array(self_: &Tensor, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    slopes(self_, steps(ONE, dim.len()), dim, edge_order)
}

/// Slopes along one or every dimension, with a step for each.
pub fn gradient_scalarrayint(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = all_dims(self_, dim);
    check_count(self_, spacing.len(), dim.map(|_| &dims[..]))?;
    slopes(self_, spacing.iter().map(|&step| Spacing::Step(step)).collect(), &dims, edge_order)
}

/// Slopes along some dimensions, with a step for each.
pub fn gradient_scalarrayarray(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    check_count(self_, spacing.len(), Some(dim))?;
    slopes(self_, spacing.iter().map(|&step| Spacing::Step(step)).collect(), dim, edge_order)
}

/// Slopes along one or every dimension, with points for each.
pub fn gradient_tensorarrayint(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = all_dims(self_, dim);
    check_count(self_, spacing.len(), dim.map(|_| &dims[..]))?;
    slopes(self_, spacing.iter().cloned().map(Spacing::Points).collect(), &dims, edge_order)
}

/// Slopes along some dimensions, with points for each.
pub fn gradient_tensorarray(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    check_count(self_, spacing.len(), Some(dim))?;
    slopes(self_, spacing.iter().cloned().map(Spacing::Points).collect(), dim, edge_order)
}
