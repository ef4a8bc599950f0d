//! Sorting along a dimension, and the elements that sorting would put at some place.

mod keys;
mod rank;
mod search;
mod select;
mod small_topk;
mod split;
mod ties;
mod unique;

use crate::kernels::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk2, for_each_run, grain_of};
use corten_core::{
    Access, AccessSet, DType, Result, Scalar, geometry, match_dtype, not_implemented_for,
    try_collect, unwinding,
};
use corten_ops::meta::sort as shapes;
use corten_ops::{Tensor, derived, op};
use keys::{Key, flip_of, keys_of, narrow};
use rank::{Line, Ranked, first_places};
pub use search::*;
use select::{FEW, nth_element, quick_select, sort_few, sort_unstably};
use small_topk::few_first_places;
use ties::{Piece, Rooms};
pub use unique::*;

/// Work per element of a line, in simple steps.
const STEPS: usize = 8;

/// What an operator chooses from a line: as many places as it is given room for.
#[derive(Clone, Copy)]
enum Choose<'a> {
    /// Those that its order begins with.
    First { descending: bool },
    /// All, equal elements by place or not.
    All { descending: bool, by_place: bool },
    /// As many, by the steps of PyTorch's algorithm.
    Top { largest: bool, sorted: bool },
    /// Others.
    By(&'a (dyn Fn(&Line, &mut [i64]) + Sync)),
}

/// The places that are chosen from every line of `self_`, and the elements there.
fn choose_places(
    self_: &Tensor,
    dim: usize,
    (values, indices): (&Tensor, &Tensor),
    name: &str,
    choose: Choose<'_>,
) -> Result<()> {
    match_dtype!(self_.dtype(), name, RealBool, T => {
        if indices.numel() == 0 {
            return Ok(());
        }
        let input = contiguous(&with_last(self_, dim)?)?;
        let (values, indices) = (Staged::new(values, dim)?, Staged::new(indices, dim)?);
        choose_from_lines::<T>(&input, &values.stage, &indices.stage, choose)?;
        values.finish()?;
        indices.finish()
    })
}

fn choose_from_lines<T: Ranked>(
    input: &Tensor,
    values: &Tensor,
    indices: &Tensor,
    choose: Choose<'_>,
) -> Result<()> {
    let last = |tensor: &Tensor| tensor.sizes().last().map_or(1, |&size| size as usize);
    let (length, count) = (last(input), last(indices));
    let set = AccessSet::acquire(&[
        (input.base(), Access::Read),
        (values.base(), Access::Write),
        (indices.base(), Access::Write),
    ])?;
    let input = set.read::<T>(0)?;
    let values = (set.write::<T>(1)?, count);
    let indices = (set.write::<i64>(2)?, count);
    for_each_chunk2(values, indices, grain_of(length * STEPS), |i, values, indices| {
        let line = &input[i * length..][..length];
        match choose {
            Choose::First { descending } => {
                if !few_first_places(line, descending, false, indices) {
                    first_places(line, descending, indices);
                }
            }
            Choose::All { descending, by_place } => {
                let by_place = by_place || line.len() <= FEW;
                if !few_first_places(line, descending, !by_place, indices) {
                    return sort_line(line, (descending, by_place), values, indices);
                }
            }
            // Where no elements are equal, every algorithm finds the same.
            Choose::Top { largest, sorted: true }
                if few_first_places(line, largest, true, indices) => {}
            Choose::Top { largest, sorted } => {
                let ranks = line.iter().map(|x| x.rank());
                top_places(try_collect(ranks.zip(0..))?, largest, sorted, indices);
            }
            Choose::By(choose) => choose(&Line::of(line), indices),
        }
        for (value, &place) in values.iter_mut().zip(&*indices) {
            *value = line[place as usize];
        }
        Ok(())
    })
}

/// A view whose last dimension is `dim`; a rank-0 tensor becomes a vector.
fn with_last(tensor: &Tensor, dim: usize) -> Result<Tensor> {
    match tensor.dim() {
        0 => op::unsqueeze(tensor, 0),
        rank if dim + 1 == rank => Ok(tensor.clone()),
        _ => op::transpose_int(tensor, dim as i64, -1),
    }
}

/// An output as lines that are adjacent in memory.
struct Staged {
    moved: Tensor,
    stage: Tensor,
}

impl Staged {
    fn new(out: &Tensor, dim: usize) -> Result<Self> {
        let moved = with_last(out, dim)?;
        let stage = match moved.is_contiguous() {
            true => moved.clone(),
            false => empty(&moved.sizes(), out)?,
        };
        Ok(Self { moved, stage })
    }

    /// Brings the lines to where they belong.
    fn finish(self) -> Result<()> {
        if !self.moved.is_contiguous() {
            op::copy_(&self.moved, &self.stage, false)?;
        }
        Ok(())
    }
}

/// `sort`: equal elements end up in PyTorch's order.
///
/// # Errors
/// `Index` for a dimension out of range, `Type` for complex numbers.
pub fn sort(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_stable(self_, None, dim, descending)
}

/// `sort.stable`.
///
/// # Errors
/// As for [`sort`].
pub fn sort_stable(
    self_: &Tensor,
    stable: Option<bool>,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    let (values, indices) = shapes::sort_stable(self_, stable, dim, descending)?;
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let name = "sorting_kernel_method_name";
    let by_place = stable == Some(true) || (!descending && sorts_by_digits(self_));
    choose_places(self_, dim, (&values, &indices), name, Choose::All { descending, by_place })?;
    Ok((values, indices))
}

/// Sorts a line, equal elements by place or as PyTorch's unstable algorithm leaves them.
fn sort_line<T: Ranked>(
    line: &[T],
    (descending, by_place): (bool, bool),
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    match narrow::<T>(line.len()) {
        true => sort_by_keys::<T, u64>(line, (descending, by_place), values, indices),
        false => sort_by_keys::<T, u128>(line, (descending, by_place), values, indices),
    }
}

/// From so many elements on it is faster to compute an element from its rank than to look for it.
const FAR: usize = 1 << 14;

fn sort_by_keys<T: Ranked, K: Key>(
    line: &[T],
    (descending, by_place): (bool, bool),
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    let flip = flip_of(descending);
    let mut keys: Vec<K> = keys_of(line.iter().map(|x| x.rank()), flip);
    let flip = flip >> (u64::BITS - K::RANK_BITS);
    let value = |key: K| match line.len() < FAR {
        true => line[key.place()],
        false => T::of_rank(key.rank_part() ^ flip).unwrap_or_else(|| line[key.place()]),
    };
    let mut pieces = Vec::new();
    Piece::of_line(&mut keys, values, indices, by_place).cut(&mut pieces);
    for_each_run(&mut pieces, 1, 1, |_, pieces| {
        let mut rooms = Rooms::default();
        pieces.iter_mut().for_each(|piece| piece.finish(&mut rooms, value));
        Ok(())
    })
}

/// Vectors of so many integers are sorted digit by digit in PyTorch, which is stable.
const MANY_INTEGERS: i64 = 32_768;

fn sorts_by_digits(tensor: &Tensor) -> bool {
    let integers = tensor.dtype().is_integral(false) && !tensor.dtype().is_barebones_unsigned();
    integers && tensor.dim() == 1 && tensor.numel() >= MANY_INTEGERS
}

/// The dtypes of the operators that select.
fn check_selectable(dtype: DType, name: &str) -> Result<()> {
    let stored_only = dtype.is_barebones_unsigned() || dtype == DType::Bool;
    if stored_only { Err(not_implemented_for(name, dtype)) } else { Ok(()) }
}

/// `topk`.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a `k` out of range, `Type` for complex
/// numbers.
pub fn topk(
    self_: &Tensor,
    k: i64,
    dim: i64,
    largest: bool,
    sorted: bool,
) -> Result<(Tensor, Tensor)> {
    let (values, indices) = shapes::topk(self_, k, dim, largest, sorted)?;
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    if self_.dim() == 0 {
        op::copy_(&values, self_, false)?;
        op::fill__scalar(&indices, Scalar::Int(0))?;
        return Ok((values, indices));
    }
    check_selectable(self_.dtype(), "topk_cpu")?;
    // A small part is cheaper to find as the front of a sorted line.
    let choose = match k.saturating_mul(64) <= self_.sizes()[dim] {
        true => Choose::First { descending: largest },
        false => Choose::Top { largest, sorted },
    };
    choose_places(self_, dim, (&values, &indices), "topk_cpu", choose)?;
    Ok((values, indices))
}

/// The greatest or the least of some elements.
fn top_places(mut items: Vec<(u64, i64)>, largest: bool, sorted: bool, out: &mut [i64]) {
    let count = out.len();
    let before = |a: &(u64, i64), b: &(u64, i64)| if largest { a.0 > b.0 } else { a.0 < b.0 };
    nth_element(&mut items, count - 1, before);
    if sorted {
        sort_unstably(&mut items[..count - 1], before);
    }
    out.iter_mut().zip(items).for_each(|(out, item)| *out = item.1);
}

/// Runs an operator that selects one element of every line.
fn select_one(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    (values, indices): (&Tensor, &Tensor),
    name: &str,
    select: impl Fn(&Line) -> usize + Sync,
) -> Result<()> {
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let kept = |out: &Tensor| match keepdim || self_.dim() == 0 {
        true => Ok(out.clone()),
        false => op::unsqueeze(out, dim as i64),
    };
    let choose = |line: &Line, out: &mut [i64]| out[0] = select(line) as i64;
    choose_places(self_, dim, (&kept(values)?, &kept(indices)?), name, Choose::By(&choose))
}

/// `kthvalue`.
///
/// # Errors
/// `Index` for a dimension out of range or empty, `Runtime` for a `k` out of range.
pub fn kthvalue(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let outputs = shapes::kthvalue(self_, k, dim, keepdim)?;
    if self_.dim() == 0 {
        return only(self_, outputs);
    }
    check_selectable(self_.dtype(), "kthvalue_cpu")?;
    select_one(self_, dim, keepdim, (&outputs.0, &outputs.1), "kthvalue_cpu", |line| {
        quick_select(&line.ranks, k as usize - 1)
    })?;
    Ok(outputs)
}

/// The only element of a rank-0 tensor, of whatever dtype.
fn only(self_: &Tensor, (values, indices): (Tensor, Tensor)) -> Result<(Tensor, Tensor)> {
    Ok((op::copy_(&values, self_, false)?, op::fill__scalar(&indices, Scalar::Int(0))?))
}

/// The place of the median, of the lower one for an even number of elements. The first NaN takes
/// its place, unless they are ignored.
fn median_place(line: &Line, ignore_nan: bool) -> usize {
    let mut count = line.ranks.len();
    if let Some(nan) = line.nan {
        match (ignore_nan, line.ranks.iter().position(|&rank| rank == nan)) {
            (false, Some(first)) => return first,
            _ => count = line.ranks.iter().filter(|&&rank| rank != nan).count(),
        }
    }
    line.place_of(count.saturating_sub(1) / 2)
}

/// `median.dim`.
///
/// # Errors
/// `Index` for a dimension out of range or empty; `NotImplemented` for bool and complex numbers.
pub fn median_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    medians(self_, dim, keepdim, false)
}

/// `nanmedian.dim`.
///
/// # Errors
/// As for [`median_dim`].
pub fn nanmedian_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    medians(self_, dim, keepdim, true)
}

fn medians(self_: &Tensor, dim: i64, keepdim: bool, ignore_nan: bool) -> Result<(Tensor, Tensor)> {
    let outputs = shapes::median_dim(self_, dim, keepdim)?;
    check_selectable(self_.dtype(), "median_out")?;
    select_one(self_, dim, keepdim, (&outputs.0, &outputs.1), "median_out", |line| {
        median_place(line, ignore_nan)
    })?;
    Ok(outputs)
}

/// `median` of everything; of nothing NaN.
///
/// # Errors
/// `NotImplemented` for bool and complex numbers.
pub fn median(self_: &Tensor) -> Result<Tensor> {
    median_of_all(self_, false)
}

/// `nanmedian` of everything; of nothing NaN.
///
/// # Errors
/// `NotImplemented` for bool and complex numbers.
pub fn nanmedian(self_: &Tensor) -> Result<Tensor> {
    median_of_all(self_, true)
}

fn median_of_all(self_: &Tensor, ignore_nan: bool) -> Result<Tensor> {
    check_selectable(self_.dtype(), "median_cpu")?;
    let (values, indices) = (empty(&[], self_)?, empty_places(self_)?);
    if is_shape_only(&values) {
        return Ok(values);
    }
    if self_.numel() == 0 {
        return op::copy_(&values, &derived::wrapped(Scalar::Float(f64::NAN))?, false);
    }
    let flat = op::reshape(self_, &[-1])?;
    select_one(&flat, 0, false, (&values, &indices), "median_cpu", |line| {
        median_place(line, ignore_nan)
    })?;
    Ok(values)
}

fn empty_places(like: &Tensor) -> Result<Tensor> {
    crate::kernels::support::empty_as(&[], like, DType::Int64)
}

/// `mode`: of the most frequent elements the least, at its last place.
///
/// # Errors
/// `Index` for a dimension out of range or empty; `NotImplemented` for complex numbers.
pub fn mode(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let outputs = shapes::mode(self_, dim, keepdim)?;
    if self_.dim() == 0 {
        return only(self_, outputs);
    }
    if self_.dtype().is_barebones_unsigned() {
        return Err(not_implemented_for("mode_cpu", self_.dtype()));
    }
    select_one(self_, dim, keepdim, (&outputs.0, &outputs.1), "mode_cpu", mode_place)?;
    Ok(outputs)
}

fn mode_place(line: &Line) -> usize {
    let mut items: Vec<(u64, usize)> = unwinding::collect(line.ranks.iter().copied().zip(0..));
    let nan = |item: &(u64, usize)| Some(item.0) == line.nan;
    match items.len() <= FEW {
        true => sort_few(&mut items, |a, b| a.0 < b.0 && !nan(a) && !nan(b)),
        false => sort_unstably(&mut items, |a, b| a.0 < b.0),
    }
    // No NaN equals another.
    let runs = items.chunk_by(|a, b| a.0 == b.0 && Some(a.0) != line.nan);
    let longest = runs.reduce(|best, run| if run.len() > best.len() { run } else { best });
    longest.and_then(<[_]>::last).map_or(0, |item| item.1)
}

/// As [`kthvalue`] into given tensors.
///
/// # Errors
/// As for [`kthvalue`]; `Runtime` for outputs of another dtype or that overlap the input.
pub fn kthvalue_out(
    self_: &Tensor,
    k: i64,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let results = kthvalue(self_, k, dim, keepdim)?;
    shapes::check_kthvalue_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), results)
}

/// As [`median_dim`] into given tensors.
///
/// # Errors
/// As for [`median_dim`]; `Runtime` for outputs of another dtype.
pub fn median_dim_out(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    shapes::check_median_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), median_dim(self_, dim, keepdim)?)
}

/// As [`nanmedian_dim`] into given tensors.
///
/// # Errors
/// As for [`nanmedian_dim`]; `Runtime` for outputs of another dtype.
pub fn nanmedian_dim_out(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    shapes::check_median_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), nanmedian_dim(self_, dim, keepdim)?)
}

/// As [`mode`] into given tensors.
///
/// # Errors
/// As for [`mode`]; `Runtime` for outputs of another dtype.
pub fn mode_out(
    self_: &Tensor,
    dim: i64,
    keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    shapes::check_mode_outputs(self_, values, indices)?;
    shapes::write_selection((values, indices), mode(self_, dim, keepdim)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_keep_every_bit_of_their_elements() {
        let mut state = 11u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        };
        // NaN of many kinds, numbers of both signs, zeros of both, equal ones.
        let zeros = [0.0f32, -0.0];
        let line: Vec<f32> = (0..2 * FAR)
            .map(|i| if i % 5 == 0 { zeros[i % 2] } else { f32::from_bits(next() & 0xffff_0003) })
            .collect();
        for (descending, by_place) in [(false, false), (true, false), (false, true), (true, true)] {
            let (mut values, mut indices) = (vec![0.0; line.len()], vec![0; line.len()]);
            sort_line(&line, (descending, by_place), &mut values, &mut indices).unwrap();
            let rank = |place: i64| line[place as usize].rank() ^ flip_of(descending);
            assert!(indices.windows(2).all(|pair| match rank(pair[0]) == rank(pair[1]) {
                true => !by_place || pair[0] < pair[1],
                false => rank(pair[0]) < rank(pair[1]),
            }));
            for (value, &place) in values.iter().zip(&indices) {
                assert_eq!(value.to_bits(), line[place as usize].to_bits());
            }
            indices.sort_unstable();
            assert!(indices.iter().copied().eq(0..line.len() as i64));
        }
    }
}
