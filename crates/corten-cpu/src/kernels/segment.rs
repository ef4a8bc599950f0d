//! Reductions of neighbouring slices, segment by segment.

use super::support::{contiguous, defined, empty, expect_dtype, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{
    Access, AccessSet, DType, Result, Scalar, bail, ensure, geometry, match_dtype,
    try_with_capacity,
};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// What is made of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduce {
    Max,
    Mean,
    Min,
    Sum,
    Prod,
}

impl Reduce {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "max" => Self::Max,
            "mean" => Self::Mean,
            "min" => Self::Min,
            "sum" => Self::Sum,
            "prod" => Self::Prod,
            _ => bail!(
                Runtime,
                "reduce argument must be either sum, prod, mean, amax or amin, got {name}"
            ),
        })
    }

    /// What a segment starts with.
    fn start(self) -> f64 {
        match self {
            Self::Max => f64::NEG_INFINITY,
            Self::Min => f64::INFINITY,
            Self::Mean | Self::Sum => 0.0,
            Self::Prod => 1.0,
        }
    }

    fn combine<W: Wide>(self, value: W, next: W) -> W {
        match self {
            Self::Sum | Self::Mean => value + next,
            Self::Prod => value * next,
            _ if next.is_nan() || value.is_nan() => value + next,
            Self::Max => {
                if next > value {
                    next
                } else {
                    value
                }
            }
            Self::Min => {
                if next < value {
                    next
                } else {
                    value
                }
            }
        }
    }
}

/// How the data divide: rows of `size` slices of `inner` elements, each row in segments.
struct Segments {
    rows: Vec<Vec<Range<usize>>>,
    count: usize,
    size: usize,
    inner: usize,
}

impl Segments {
    /// Without data for tensors that have none.
    fn of(
        data: &Tensor,
        lengths: Option<&Tensor>,
        offsets: Option<&Tensor>,
        axis: i64,
        check_sums: bool,
    ) -> Result<(Self, usize)> {
        let axis = geometry::wrap_dim(axis, data.dim())?;
        let (name, given, extra) = match (defined(offsets), defined(lengths)) {
            (Some(offsets), _) => ("offsets", offsets, 1),
            (None, Some(lengths)) => ("lengths", lengths, 0),
            _ => bail!(Runtime, "segment_reduce(): Either lengths or offsets must be defined."),
        };
        ensure!(
            data.dim() >= given.dim(),
            Runtime,
            "Expected data.dim() >= {name}_value.dim() to be true, but got false.  (Could this \
             error message be improved?  If so, please report an enhancement request to PyTorch.)"
        );
        ensure!(
            axis + 1 == given.dim(),
            Runtime,
            "segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
        );
        if !matches!(given.dtype(), DType::Int32 | DType::Int64) {
            let name = "_segment_reduce_lengths_cpu_kernel1";
            return Err(corten_core::not_implemented_for(name, given.dtype()));
        }
        let sizes = data.sizes();
        ensure!(
            given.sizes()[..axis] == sizes[..axis],
            Runtime,
            "segment_reduce(): expected {name} for a shape of {:?} but got {:?}",
            &sizes[..axis],
            given.sizes().as_slice()
        );
        let product = |list: &[i64]| list.iter().product::<i64>() as usize;
        let mut segments = Self {
            rows: Vec::new(),
            count: (given.sizes()[axis] - extra).max(0) as usize,
            size: sizes[axis] as usize,
            inner: product(&sizes[axis + 1..]),
        };
        if !is_shape_only(given) && !is_shape_only(data) {
            let numbers = given.to_vec::<i64>()?;
            segments.rows = segments.ranges(&numbers, product(&sizes[..axis]), extra == 1)?;
            if extra == 0 && check_sums {
                segments.check_sums()?;
            }
        }
        Ok((segments, axis))
    }

    fn ranges(&self, numbers: &[i64], rows: usize, ends: bool) -> Result<Vec<Vec<Range<usize>>>> {
        ensure!(
            ends || numbers.iter().all(|&length| length >= 0),
            Runtime,
            "lengths contains negative value!"
        );
        let per_row = numbers.len() / rows.max(1);
        let range = |start: i64, end: i64| {
            let inside = 0 <= start && start <= end && end as usize <= self.size;
            ensure!(
                inside,
                Runtime,
                "segment_reduce(): a segment from {start} to {end} is not within a size of {}",
                self.size
            );
            Ok(start as usize..end as usize)
        };
        let row = |numbers: &[i64]| -> Result<Vec<Range<usize>>> {
            match ends {
                true => {
                    let mut ranges = try_with_capacity(numbers.len())?;
                    for pair in numbers.windows(2) {
                        ranges.push(range(pair[0], pair[1])?);
                    }
                    Ok(ranges)
                }
                false => {
                    let mut start = 0i64;
                    let mut ranges = try_with_capacity(numbers.len())?;
                    for &length in numbers {
                        let end = start.saturating_add(length);
                        ranges.push(range(std::mem::replace(&mut start, end), end)?);
                    }
                    Ok(ranges)
                }
            }
        };
        let mut all = try_with_capacity(rows)?;
        for i in 0..rows {
            all.push(row(&numbers[i * per_row..][..per_row])?);
        }
        Ok(all)
    }

    fn check_sums(&self) -> Result<()> {
        let whole = |row: &Vec<Range<usize>>| row.last().map_or(0, |last| last.end) == self.size;
        ensure!(
            self.rows.iter().all(whole),
            Runtime,
            "segment_reduce(): Expected all rows of lengths along axis to sum to \
             data.size(lengths.dim()-1) when !unsafe."
        );
        Ok(())
    }

    /// The places in the data of element `inner` of the slices of a segment.
    fn places(
        &self,
        row: usize,
        segment: &Range<usize>,
        inner: usize,
    ) -> impl Iterator<Item = usize> + Clone {
        let (size, width) = (self.size, self.inner);
        segment.clone().map(move |slice| (row * size + slice) * width + inner)
    }
}

/// `segment_reduce`.
///
/// # Errors
/// `Runtime` for lengths and offsets that do not fit, `Index` for an axis out of range.
pub fn segment_reduce(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    unsafe_: bool,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let place = geometry::wrap_dim(axis, data.dim())? as i64;
    ensure!(
        defined(indices).is_none(),
        Runtime,
        "segment_reduce(): indices based reduction is not supported yet."
    );
    let (segments, axis) = Segments::of(data, lengths, offsets, place, !unsafe_)?;
    let reduce = Reduce::named(reduce)?;
    let mut sizes = data.sizes();
    if let Some(size) = sizes.get_mut(axis) {
        *size = segments.count as i64;
    }
    let out = empty(&sizes, data)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let data = contiguous(data)?;
    match_dtype!(data.dtype(), "_segment_reduce_cpu", Float, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&data, Access::Read)])?;
        forward(&segments, access.write::<T>(0)?, access.read::<T>(1)?, reduce, initial)
    })?;
    Ok(out)
}

fn forward<T: Float>(
    segments: &Segments,
    out: &mut [T],
    data: &[T],
    reduce: Reduce,
    initial: Option<Scalar>,
) -> Result<()> {
    let of = <T as Float>::Wide::of;
    let start = of(initial.map_or(reduce.start(), |initial| initial.to_f64()));
    let (count, inner) = (segments.count, segments.inner);
    for_each_chunk(out, inner, grain_of(inner * segments.size), |chunk, out| {
        let row = chunk / count;
        let segment = &segments.rows[row][chunk % count];
        for (i, out) in out.iter_mut().enumerate() {
            let values = segments.places(row, segment, i).map(|place| data[place].widen());
            let value = values.fold(start, |value, next| reduce.combine(value, next));
            *out = T::narrow(match reduce {
                Reduce::Mean if segment.is_empty() && initial.is_none() => of(f64::NAN),
                Reduce::Mean if !segment.is_empty() => value / of(segment.len() as f64),
                _ => value,
            });
        }
        Ok(())
    })
}

/// `_segment_reduce_backward`.
///
/// # Errors
/// As for [`segment_reduce`].
pub fn segment_reduce_backward(
    grad: &Tensor,
    output: &Tensor,
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let (segments, _) = Segments::of(data, lengths, offsets, axis, false)?;
    let reduce = Reduce::named(reduce)?;
    ensure!(
        grad.sizes() == output.sizes(),
        Runtime,
        "segment_reduce_backward: expected a gradient of size {:?} but got {:?}",
        output.sizes().as_slice(),
        grad.sizes().as_slice()
    );
    expect_dtype(grad, data.dtype())?;
    expect_dtype(output, data.dtype())?;
    let out = op::zero_(&empty(&data.sizes(), data)?)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (grad, output, data) = (contiguous(grad)?, contiguous(output)?, contiguous(data)?);
    let initial =
        initial.filter(|_| reduce == Reduce::Prod).map_or(1.0, |initial| initial.to_f64());
    match_dtype!(data.dtype(), "_segment_reduce_cpu", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&grad, Access::Read),
            (&output, Access::Read),
            (&data, Access::Read),
        ])?;
        let given = (access.read::<T>(1)?, access.read::<T>(2)?, access.read::<T>(3)?);
        backward(&segments, access.write::<T>(0)?, given, reduce, initial);
        Ok(())
    })?;
    Ok(out)
}

fn backward<T: Float>(
    segments: &Segments,
    out: &mut [T],
    (grad, output, data): (&[T], &[T], &[T]),
    reduce: Reduce,
    initial: f64,
) {
    let of = <T as Float>::Wide::of;
    for (row, ranges) in segments.rows.iter().enumerate() {
        for (nr, segment) in ranges.iter().enumerate() {
            for i in 0..segments.inner {
                let place = (row * segments.count + nr) * segments.inner + i;
                let (g, y) = (grad[place].widen(), output[place].widen());
                let places = segments.places(row, segment, i);
                let value = |place: usize| data[place].widen();
                match reduce {
                    Reduce::Sum => places.for_each(|at| out[at] = T::narrow(g)),
                    Reduce::Mean => {
                        let share = g / of(segment.len() as f64);
                        places.for_each(|at| out[at] = T::narrow(share));
                    }
                    Reduce::Max | Reduce::Min => {
                        let chosen = |&at: &usize| value(at).is_nan() || value(at) == y;
                        let count = places.clone().filter(chosen).count();
                        // As in PyTorch, only a positive gradient is shared.
                        let shared = count > 1 && g > of(0.0);
                        let share = if shared { g / of(count as f64) } else { g };
                        places.filter(chosen).for_each(|at| out[at] = T::narrow(share));
                    }
                    Reduce::Prod => {
                        let others = |skipped: usize| {
                            let rest = places.clone().filter(|&at| at != skipped);
                            rest.fold(of(initial), |product, at| product * value(at))
                        };
                        for at in places.clone() {
                            let x = value(at);
                            let alone = x.is_nan() || x == of(0.0);
                            let slope = if alone { g * others(at) } else { g * y / x };
                            out[at] = T::narrow(slope);
                        }
                    }
                }
            }
        }
    }
}
