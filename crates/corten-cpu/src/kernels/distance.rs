//! Distances between rows.

use crate::kernels::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::loops::{Parts, RowFold, Vectorised, fold};
use crate::vec::Lanes;
use corten_core::{
    Access, AccessSet, Element, Result, Scalar, cast, ensure, geometry, match_dtype, try_vec,
};
use corten_ops::{Tensor, op};

/// The distances that have a cheaper form than powers.
#[derive(Clone, Copy)]
enum Norm {
    Count,
    Sum,
    Euclid,
    Most,
    Power(f64),
}

impl Norm {
    fn of(p: f64) -> Self {
        match p {
            0.0 => Self::Count,
            1.0 => Self::Sum,
            2.0 => Self::Euclid,
            f64::INFINITY => Self::Most,
            p => Self::Power(p),
        }
    }

    fn distance<T: Vectorised>(self, a: &[T], b: &[T]) -> f64 {
        let sum = |[parts]: [Parts<T>; 1]| total(parts.into_iter().map(cast::<T, f64>));
        match self {
            Self::Count => sum(fold([a, b], Unequal)),
            Self::Sum => sum(fold([a, b], Sizes)),
            Self::Euclid => sum(fold([a, b], Squares)).sqrt(),
            Self::Most => {
                let [most] = fold([a, b], Largest);
                let most = most.into_iter().map(cast::<T, f64>);
                most.fold(0.0, |most, d| if d > most || d.is_nan() { d } else { most })
            }
            Self::Power(p) => sum(fold([a, b], Powers(p))).powf(1.0 / p),
        }
    }

    /// The slope of the distance in one coordinate.
    fn slope(self, difference: f64, distance: f64) -> f64 {
        let size = difference.abs();
        let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
        match self {
            Self::Count => 0.0,
            Self::Sum => sign,
            Self::Most => {
                if size == distance {
                    sign
                } else {
                    0.0
                }
            }
            _ if distance == 0.0 => 0.0,
            Self::Euclid => difference / distance,
            Self::Power(p) if p < 1.0 && difference == 0.0 => 0.0,
            Self::Power(p) => sign * (size / distance).powf(p - 1.0),
        }
    }
}

/// Defines what distances are put together from.
macro_rules! differences {
    ($($(#[$doc:meta])* $name:ident |$d:ident| $term:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: Element> RowFold<T, 2, 1> for $name {
            #[inline(always)]
            fn step<V: Lanes<Elem = T>>(self, [sum]: [V; 1], [x, y]: [V; 2]) -> [V; 1] {
                let $d = x - y;
                [sum + $term]
            }
        }
    )+};
}

differences! {
    /// 1 for different elements.
    Unequal |d| V::select(d.ne(V::lit(0.0)), V::lit(1.0), V::lit(0.0));
    /// The size of the difference.
    Sizes |d| d.abs();
    /// Its square.
    Squares |d| d * d;
}

/// Its size, of which the largest counts.
#[derive(Clone, Copy)]
struct Largest;

impl<T: Element> RowFold<T, 2, 1> for Largest {
    #[inline(always)]
    fn step<V: Lanes<Elem = T>>(self, [most]: [V; 1], [x, y]: [V; 2]) -> [V; 1] {
        [most.max((x - y).abs())]
    }
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, [x]: [V; 1], [y]: [V; 1]) -> [V; 1] {
        [x.max(y)]
    }
}

/// A power of its size.
#[derive(Clone, Copy)]
struct Powers(f64);

impl<T: Element> RowFold<T, 2, 1> for Powers {
    #[inline(always)]
    fn step<V: Lanes<Elem = T>>(self, [sum]: [V; 1], [x, y]: [V; 2]) -> [V; 1] {
        [sum + (x - y).abs().pow(V::lit(self.0))]
    }
}

/// The sum, +0 of nothing.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The difference as the dtype can hold it, so that the greatest one equals the distance.
fn difference<T: Element>(x: T, y: T) -> f64 {
    cast(cast::<f64, T>(cast::<T, f64>(x) - cast::<T, f64>(y)))
}

/// Two batches of rows with a common batch shape.
struct Batches {
    first: Tensor,
    second: Tensor,
    shape: Vec<i64>,
    rows: [usize; 2],
    columns: usize,
}

impl Batches {
    fn of(x1: &Tensor, x2: &Tensor) -> Result<Self> {
        let (a, b) = (x1.sizes(), x2.sizes());
        ensure!(
            a.len() >= 2 && b.len() >= 2 && a[a.len() - 1] == b[b.len() - 1],
            Runtime,
            "cdist: expected batches of rows of equal length, but got tensors of sizes {:?} and {:?}",
            a.as_slice(),
            b.as_slice()
        );
        let (lead_a, lead_b) = (&a[..a.len() - 2], &b[..b.len() - 2]);
        let lead = geometry::infer_broadcast(lead_a, lead_b)?;
        let (p, r, m) = (a[a.len() - 2], b[b.len() - 2], a[a.len() - 1]);
        let wide = |tensor: &Tensor, rows: i64| {
            contiguous(&op::expand(tensor, &[&lead[..], &[rows, m]].concat(), false)?)
        };
        Ok(Self {
            first: wide(x1, p)?,
            second: wide(x2, r)?,
            shape: [&lead[..], &[p, r]].concat(),
            rows: [p as usize, r as usize],
            columns: m as usize,
        })
    }

    /// Whether Euclidean distances come from a matrix product: from more than 25 rows on, unless
    /// the mode decides.
    fn by_products(&self, mode: Option<i64>) -> bool {
        const MANY: usize = 25;
        let many = self.rows.iter().any(|&rows| rows > MANY);
        self.columns > 0 && (mode == Some(1) || (mode.unwrap_or(0) == 0 && many))
    }

    /// $\sqrt{|a|^2 - 2 a b + |b|^2}$, with the three terms in one product.
    fn euclidean(&self) -> Result<Tensor> {
        let squares = |rows: &Tensor| {
            op::sum_dim_intlist(&op::mul_tensor(rows, rows)?, Some(&[-1]), true, None)
        };
        let (a, b) = (squares(&self.first)?, squares(&self.second)?);
        let one = |like: &Tensor| op::ones_like(like, None, None, None, None, None);
        let doubled = op::mul_scalar(&self.first, Scalar::from(-2.0))?;
        let left = op::cat(&[doubled, a.clone(), one(&a)?], -1)?;
        let right = op::cat(&[self.second.clone(), one(&b)?, b], -1)?;
        let squared = op::matmul(&left, &op::transpose_int(&right, -1, -2)?)?;
        op::sqrt_(&op::clamp_min_(&squared, Scalar::from(0.0))?)
    }
}

/// `_cdist_forward`.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for the half precisions.
pub fn cdist_forward(
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    compute_mode: Option<i64>,
) -> Result<Tensor> {
    corten_ops::meta::distance::check(x1, x2, p)?;
    expect_dtype(x2, x1.dtype())?;
    let batches = Batches::of(x1, x2)?;
    let out = empty(&batches.shape, x1)?;
    if p == 2.0 && batches.by_products(compute_mode) {
        return batches.euclidean();
    }
    let (norm, columns, [rows, others]) = (Norm::of(p), batches.columns, batches.rows);
    match_dtype!(x1.dtype(), "cdist", SingleDouble, T => {
        let set = AccessSet::acquire(&[
            (batches.first.base(), Access::Read),
            (batches.second.base(), Access::Read),
            (out.base(), Access::Write),
        ])?;
        let (first, second) = (set.read::<T>(0)?, set.read::<T>(1)?);
        for_each_chunk(set.write::<T>(2)?, others, grain_of(others * columns), |i, out| {
            let row = &first[i * columns..][..columns];
            let start = i / rows * others;
            for (j, out) in out.iter_mut().enumerate() {
                let other = &second[(start + j) * columns..][..columns];
                *out = cast(norm.distance(row, other));
            }
            Ok(())
        })
    })?;
    Ok(out)
}

/// `_cdist_backward`.
///
/// # Errors
/// `NotImplemented` for the half precisions.
pub fn cdist_backward(
    grad_output: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    cdist: &Tensor,
) -> Result<Tensor> {
    let batches = Batches::of(x1, x2)?;
    let wide = |tensor: &Tensor| contiguous(&op::expand(tensor, &batches.shape, false)?);
    let (grad, distances) = (wide(grad_output)?, wide(cdist)?);
    let out = empty(&batches.first.sizes(), x1)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (norm, columns, [rows, others]) = (Norm::of(p), batches.columns, batches.rows);
    match_dtype!(x1.dtype(), "cdist_backward", SingleDouble, T => {
        let set = AccessSet::acquire(&[
            (batches.first.base(), Access::Read),
            (batches.second.base(), Access::Read),
            (grad.base(), Access::Read),
            (distances.base(), Access::Read),
            (out.base(), Access::Write),
        ])?;
        let (first, second) = (set.read::<T>(0)?, set.read::<T>(1)?);
        let (grad, distances) = (set.read::<T>(2)?, set.read::<T>(3)?);
        for_each_chunk(set.write::<T>(4)?, columns, grain_of(others * columns), |i, out| {
            let start = i / rows * others;
            for (k, out) in out.iter_mut().enumerate() {
                let x = first[i * columns + k];
                let slope = |j: usize| {
                    let d = difference(x, second[(start + j) * columns + k]);
                    let place = i * others + j;
                    cast::<T, f64>(grad[place]) * norm.slope(d, cast(distances[place]))
                };
                *out = cast(total((0..others).map(slope)));
            }
            Ok(())
        })
    })?;
    Ok(out)
}

/// The pairs of rows in the order of `pdist`.
fn pairs(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (i + 1..rows).map(move |j| (i, j)))
}

/// `_pdist_forward`.
///
/// # Errors
/// `Runtime` for other than a matrix, `NotImplemented` for the half precisions.
pub fn pdist_forward(self_: &Tensor, p: f64) -> Result<Tensor> {
    let out = corten_ops::meta::distance::pdist(self_, p)?;
    let input = contiguous(self_)?;
    let (rows, columns) = (self_.size(0)? as usize, self_.size(1)? as usize);
    let norm = Norm::of(p);
    match_dtype!(self_.dtype(), "pdist", SingleDouble, T => {
        let set = AccessSet::acquire(&[(input.base(), Access::Read), (out.base(), Access::Write)])?;
        let input = set.read::<T>(0)?;
        let row = |i: usize| &input[i * columns..][..columns];
        for (out, (i, j)) in set.write::<T>(1)?.iter_mut().zip(pairs(rows)) {
            *out = cast(norm.distance(row(i), row(j)));
        }
        Ok(())
    })?;
    Ok(out)
}

/// `_pdist_backward`.
///
/// # Errors
/// `Runtime` for shapes that do not fit, `NotImplemented` for the half precisions.
pub fn pdist_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    p: f64,
    pdist: &Tensor,
) -> Result<Tensor> {
    ensure!(
        self_.dim() == 2 && grad_output.sizes() == pdist.sizes(),
        Runtime,
        "_pdist_backward requires a matrix and a gradient of the distances' shape"
    );
    let (grad, distances, input) =
        (contiguous(grad_output)?, contiguous(pdist)?, contiguous(self_)?);
    let out = empty(&self_.sizes(), self_)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (rows, columns) = (self_.size(0)? as usize, self_.size(1)? as usize);
    let norm = Norm::of(p);
    match_dtype!(self_.dtype(), "pdist_backward", SingleDouble, T => {
        let set = AccessSet::acquire(&[
            (input.base(), Access::Read),
            (grad.base(), Access::Read),
            (distances.base(), Access::Read),
            (out.base(), Access::Write),
        ])?;
        let (input, grad, distances) = (set.read::<T>(0)?, set.read::<T>(1)?, set.read::<T>(2)?);
        let mut sums = try_vec(0f64, rows * columns)?;
        for (n, (i, j)) in pairs(rows).enumerate().take(grad.len()) {
            for k in 0..columns {
                let d = difference(input[i * columns + k], input[j * columns + k]);
                let slope = cast::<T, f64>(grad[n]) * norm.slope(d, cast(distances[n]));
                sums[i * columns + k] += slope;
                sums[j * columns + k] -= slope;
            }
        }
        set.write::<T>(3)?.iter_mut().zip(sums).for_each(|(out, sum)| *out = cast(sum));
        Ok(())
    })?;
    Ok(out)
}
