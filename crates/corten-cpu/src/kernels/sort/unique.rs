//! Different elements and slices.

use super::keys::{Key, keys_of, narrow, sort_stably};
use super::rank::Ranked;
use super::select::{FEW, sort_few};
use crate::kernels::support::{contiguous, empty_as};
use crate::rows::loops::compiled;
use corten_core::{
    DType, Reader, Result, Writer, ensure, err, geometry, match_dtype, try_collect, try_vec,
    unwinding,
};
use corten_ops::{Tensor, op};

/// Runs of equal items in some order of them.
struct Runs {
    /// The first item of each run.
    firsts: Vec<i64>,
    /// The run of each item.
    inverse: Vec<i64>,
    /// The length of each run.
    counts: Vec<i64>,
}

impl Runs {
    fn of(
        order: impl ExactSizeIterator<Item = usize>,
        same: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let mut runs = Self {
            firsts: Vec::new(),
            inverse: unwinding::vec(0, order.len()),
            counts: Vec::new(),
        };
        let mut before = None;
        for item in order {
            match runs.counts.last_mut() {
                Some(count) if before.is_some_and(|before| same(before, item)) => *count += 1,
                _ => {
                    unwinding::push(&mut runs.firsts, item as i64);
                    unwinding::push(&mut runs.counts, 1);
                }
            }
            runs.inverse[item] = runs.counts.len() as i64 - 1;
            before = Some(item);
        }
        runs
    }

    /// The places of the runs' first items, and the two results that need not be asked for.
    fn finish(
        self,
        like: &Tensor,
        inverse_shape: &[i64],
        inverse: bool,
        counts: bool,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let absent = || empty_as(&[0], like, DType::Int64);
        let firsts = Tensor::from_slice(&self.firsts, &[self.firsts.len() as i64])?;
        let inverse = match inverse {
            true => Tensor::from_vec(self.inverse, inverse_shape)?,
            false => absent()?,
        };
        let length = self.counts.len() as i64;
        let counts = if counts { Tensor::from_vec(self.counts, &[length])? } else { absent()? };
        Ok((firsts, inverse, counts))
    }
}

/// The different elements, of a tensor as a vector, in ascending order.
fn elements(
    self_: &Tensor,
    (inverse, counts): (bool, bool),
    name: &str,
) -> Result<(Tensor, Tensor, Tensor)> {
    let flat = contiguous(&op::reshape(self_, &[-1])?)?;
    if !inverse && !counts {
        let absent = empty_as(&[0], &flat, DType::Int64)?;
        return Ok((different(&flat, name)?, absent.clone(), absent));
    }
    let runs = match_dtype!(self_.dtype(), name, RealBool, T => {
        let line = Reader::<T>::new(&flat)?;
        Ok(match narrow::<T>(line.len()) {
            true => runs_of_equals::<T, u64>(&line),
            false => runs_of_equals::<T, u128>(&line),
        })
    })?;
    let (firsts, inverse, counts) = runs.finish(&flat, &self_.sizes(), inverse, counts)?;
    Ok((op::index_select(&flat, 0, &firsts)?, inverse, counts))
}

/// The keys of a line, sorted.
fn sorted_keys<T: Ranked, K: Key>(line: &[T]) -> Vec<K> {
    let mut keys = keys_of(line.iter().map(|x| x.rank()), 0);
    sort_stably(&mut keys, &mut Vec::new());
    keys
}

/// Whether elements of one rank equal each other: no NaN equals another.
fn equals_itself<T: Ranked>(rank: u64) -> bool {
    Some(rank) != T::NAN
}

fn runs_of_equals<T: Ranked, K: Key>(line: &[T]) -> Runs {
    let keys = sorted_keys::<T, K>(line);
    let rank = |place: usize| line[place].rank();
    let same = |a: usize, b: usize| rank(a) == rank(b) && equals_itself::<T>(rank(a));
    Runs::of(keys.iter().map(|key| key.place()), same)
}

/// The different elements of a vector, of equal ones the first.
fn different(flat: &Tensor, name: &str) -> Result<Tensor> {
    match_dtype!(flat.dtype(), name, RealBool, T => {
        let line = Reader::<T>::new(flat)?;
        let found = match narrow::<T>(line.len()) {
            true => different_elements::<T, u64>(&line),
            false => different_elements::<T, u128>(&line),
        };
        let count = found.len() as i64;
        Tensor::from_vec(found, &[count])
    })
}

fn different_elements<T: Ranked, K: Key>(line: &[T]) -> Vec<T> {
    let mut keys = sorted_keys::<T, K>(line);
    keys.dedup_by(|next, key| {
        next.rank_part() == key.rank_part() && equals_itself::<T>(key.rank_part())
    });
    unwinding::collect(keys.into_iter().map(|key| line[key.place()]))
}

/// `_unique2`: always in ascending order.
///
/// # Errors
/// `NotImplemented` for complex numbers.
pub fn unique2(
    self_: &Tensor,
    _sorted: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    elements(self_, (return_inverse, return_counts), "unique")
}

/// `_unique`: always in ascending order.
///
/// # Errors
/// `NotImplemented` for complex numbers.
pub fn unique(self_: &Tensor, _sorted: bool, return_inverse: bool) -> Result<(Tensor, Tensor)> {
    let (found, inverse, _) = elements(self_, (return_inverse, false), "unique")?;
    Ok((found, inverse))
}

/// `unique_consecutive`.
///
/// # Errors
/// `NotImplemented` for complex numbers; with a dimension, as for [`unique_dim_consecutive`].
pub fn unique_consecutive(
    self_: &Tensor,
    return_inverse: bool,
    return_counts: bool,
    dim: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    match dim {
        Some(dim) => slices(self_, dim, false, (true, true)),
        None => runs_of_elements(self_, return_inverse, return_counts),
    }
}

/// One element of every run of equal ones, of a tensor as a vector.
fn runs_of_elements(
    self_: &Tensor,
    inverse: bool,
    counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let flat = contiguous(&op::reshape(self_, &[-1])?)?;
    match_dtype!(self_.dtype(), "unique_consecutive_cpu", RealBool, T => {
        let items = Reader::<T>::new(&flat)?;
        // Neither is NaN equal to itself, nor need zeros of either sign have the same bits.
        let starts = |i: usize| i == 0 || items[i] != items[i - 1];
        // A place is written for every item and kept for the first of each run.
        let found = empty_as(&[items.len() as i64], &flat, flat.dtype())?;
        let mut runs = 0;
        if let Some(&first) = items.first() {
            let mut found = Writer::<T>::new(&found)?;
            found[0] = first;
            runs = 1;
            for pair in items.windows(2) {
                found[runs] = pair[1];
                runs += usize::from(pair[0] != pair[1]);
            }
        }
        op::resize_(&found, &[runs as i64], None)?;
        let absent = || empty_as(&[0], &flat, DType::Int64);
        let inverse = match inverse {
            true => {
                let mut run = -1;
                let numbers = try_collect((0..items.len()).map(|i| {
                    run += i64::from(starts(i));
                    run
                }))?;
                Tensor::from_vec(numbers, &self_.sizes())?
            }
            false => absent()?,
        };
        let counts = match counts {
            true => {
                let mut lengths = try_vec(0i64, runs)?;
                let mut run = 0;
                for i in 0..items.len() {
                    run += usize::from(starts(i));
                    lengths[run - 1] += 1;
                }
                Tensor::from_vec(lengths, &[runs as i64])?
            }
            false => absent()?,
        };
        Ok((found, inverse, counts))
    })
}

/// `unique_dim`: inverse and counts whether asked for or not.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` where another dimension is empty,
/// `NotImplemented` for complex numbers.
pub fn unique_dim(
    self_: &Tensor,
    dim: i64,
    _sorted: bool,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    slices(self_, dim, true, (true, true))
}

/// `unique_dim_consecutive`: inverse and counts whether asked for or not.
///
/// # Errors
/// As for [`unique_dim`].
pub fn unique_dim_consecutive(
    self_: &Tensor,
    dim: i64,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    slices(self_, dim, false, (true, true))
}

fn slices(
    self_: &Tensor,
    dim: i64,
    sorted: bool,
    (inverse, counts): (bool, bool),
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(self_.dim() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    let axis = geometry::wrap_dim(dim, self_.dim())?;
    let sizes = self_.sizes();
    let empty = sizes.iter().filter(|&&size| size == 0).count();
    if sizes[axis] == 0 {
        ensure!(
            empty == 1,
            Runtime,
            "Number of zero sized dimensions is more than one, so unique cannot be applied "
        );
        let none = || empty_as(&[0], self_, DType::Int64);
        return Ok((empty_as(&sizes, self_, self_.dtype())?, none()?, none()?));
    }
    ensure!(
        empty == 0,
        Runtime,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    let moved = contiguous(&op::movedim_int(self_, axis as i64, 0)?)?;
    let count = sizes[axis] as usize;
    let runs = match_dtype!(self_.dtype(), "unique_dim", RealBool, T => {
        let ranks: Vec<u64> = try_collect(Reader::<T>::new(&moved)?.iter().map(|x| x.rank()))?;
        let length = ranks.len() / count;
        let row = |i: usize| &ranks[i * length..][..length];
        let nan = |i: usize| <T as Ranked>::NAN.is_some_and(|nan| row(i).contains(&nan));
        let mut order: Vec<usize> = try_collect(0..count)?;
        if sorted {
            match count <= FEW {
                true => sort_few(&mut order, |&a, &b| before(row(a), row(b), <T as Ranked>::NAN)),
                false => order.sort_by(|&a, &b| row(a).cmp(row(b))),
            }
        }
        Ok(Runs::of(order.into_iter(), |a, b| row(a) == row(b) && !nan(a)))
    })?;
    let (firsts, inverse, counts) = runs.finish(&moved, &[count as i64], inverse, counts)?;
    let found = op::index_select(&moved, 0, &firsts)?;
    Ok((op::movedim_int(&found, 0, axis as i64)?, inverse, counts))
}

/// The order of PyTorch's slices: an element that is NaN is passed over.
fn before(a: &[u64], b: &[u64], nan: Option<u64>) -> bool {
    let real = |rank: u64| Some(rank) != nan;
    let mut pairs = a.iter().zip(b).filter(|&(&a, &b)| a != b && real(a) && real(b));
    pairs.next().is_some_and(|(a, b)| a < b)
}

/// `bincount`.
///
/// # Errors
/// `Runtime` for negative numbers, for other than a vector and for weights that do not fit it;
/// `NotImplemented` for dtypes other than integers; `OutOfMemory` for a large number.
pub fn bincount(self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    ensure!(minlength >= 0, Runtime, "minlength should be >= 0");
    match_dtype!(self_.dtype(), "bincount_cpu", Counts, T => Ok(size_of::<T>()))?;
    if self_.dim() == 1 && self_.numel() == 0 {
        return Tensor::from_vec(try_vec(0i64, length_of(minlength)?)?, &[minlength]);
    }
    let vector = self_.dim() == 1;
    let shape = "bincount only supports 1-d non-negative integral inputs.";
    ensure!(vector, Runtime, "{shape}");
    let numbers = contiguous(&op::to_dtype(self_, DType::Int64, false, false, None)?)?;
    let numbers = Reader::<i64>::new(&numbers)?;
    let extremes = |(least, most): (i64, i64), &number: &i64| (least.min(number), most.max(number));
    let (least, most) = compiled(|| numbers.iter().fold((0, 0), extremes));
    ensure!(least >= 0, Runtime, "{shape}");
    let weights = weights.filter(|weights| weights.defined());
    if let Some(weights) = weights {
        ensure!(
            weights.dim() == 1 && weights.numel() == self_.numel(),
            Runtime,
            "weights should be 1-d and have the same length as input"
        );
    }
    let bins = most.checked_add(1).ok_or_else(|| err!(Runtime, "bincount: too many bins"))?;
    let bins = bins.max(minlength);
    match weights {
        None => count(&numbers, bins, self_, DType::Int64, |_| 1i64),
        Some(weights) if weights.dtype() == DType::Float32 => {
            let weights = weights.to_vec::<f32>()?;
            count(&numbers, bins, self_, DType::Float32, |i| weights[i])
        }
        Some(weights) => {
            let weights = weights.to_vec::<f64>()?;
            count(&numbers, bins, self_, DType::Float64, |i| weights[i])
        }
    }
}

fn length_of(length: i64) -> Result<usize> {
    let fits = length < i64::MAX / 16;
    ensure!(fits, Runtime, "Storage size calculation overflowed with sizes=[{length}]");
    Ok(length as usize)
}

fn count<T: corten_core::Element + std::ops::AddAssign + Default>(
    numbers: &[i64],
    bins: i64,
    like: &Tensor,
    dtype: DType,
    weight: impl Fn(usize) -> T,
) -> Result<Tensor> {
    length_of(bins)?;
    let out = empty_as(&[bins], like, dtype)?;
    {
        let mut out = Writer::<T>::new(&out)?;
        out.fill(T::default());
        for (i, &number) in numbers.iter().enumerate() {
            out[number as usize] += weight(i);
        }
    }
    Ok(out)
}
