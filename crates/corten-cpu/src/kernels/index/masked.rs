//! Elements by a mask, and the positions of a mask.

use super::flat::{as_bits, match_bits};
use crate::kernels::support::is_shape_only;
use crate::parallel::chunks::for_each_chunk;
use corten_core::{
    Access, AccessSet, DType, Dims, MemoryFormat, Reader, Result, Writer, ensure, geometry,
};
use corten_ops::{Tensor, op};
use smallvec::SmallVec;
use std::ops::Range;

fn broadcast(tensors: [&Tensor; 2]) -> Result<[Tensor; 2]> {
    let shape = geometry::infer_broadcast(&tensors[0].sizes(), &tensors[1].sizes())?;
    let expand = |tensor: &Tensor| {
        op::contiguous(&op::expand(tensor, &shape, false)?, MemoryFormat::Contiguous)
    };
    Ok([expand(tensors[0])?, expand(tensors[1])?])
}

/// The elements where `mask` is true, in row-major order.
///
/// # Errors
/// `Runtime` unless the mask is bool and broadcasts with the tensor.
pub fn masked_select(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(mask.dtype() == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask");
    let [source, mask] = broadcast([&as_bits(self_)?, mask])?;
    let mask = Reader::<bool>::new(&mask)?;
    let mask = &mask[..];
    let counts = Counts::of(mask)?;
    let out = op::empty_memory_format(
        &[counts.total() as i64],
        Some(self_.dtype()),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    let target = as_bits(&out)?;
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (source.base(), Access::Read),
            (target.base(), Access::Write),
        ])?;
        let (from, to) = (set.read::<T>(0)?, set.write::<T>(1)?);
        for_each_chunk(&mut counts.cut(to), 1, 1, |piece, to| {
            let places = counts.places(piece);
            pick_where(&mask[places.clone()], to[0], |place| from[places.start + place]);
            Ok(())
        })
    })?;
    Ok(out)
}

/// StridedLoads of a mask whose results one thread writes: so many that it does not matter where they are cut.
const PIECE: usize = 1 << 14;

/// A mask in pieces, and how many places are true in each: from that follows where its results begin, so
/// that threads write different pieces.
struct Counts {
    /// All places.
    places: usize,
    /// The places of a piece.
    piece: usize,
    counts: SmallVec<[usize; 4]>,
}

impl Counts {
    fn of(mask: &[bool]) -> Result<Self> {
        let pieces = mask.len().div_ceil(PIECE).max(1);
        let piece = mask.len().div_ceil(pieces).next_multiple_of(PART);
        // Bounded: one for many thousand places of the mask.
        let mut counts = SmallVec::from_elem(0, mask.len().div_ceil(piece.max(1)));
        for_each_chunk(&mut counts, 1, COUNTED_AT_ONCE, |index, count| {
            let places = index * piece..((index + 1) * piece).min(mask.len());
            count[0] = count_true(&mask[places]);
            Ok(())
        })?;
        Ok(Self { places: mask.len(), piece, counts })
    }

    fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The places of a piece.
    fn places(&self, piece: usize) -> Range<usize> {
        piece * self.piece..((piece + 1) * self.piece).min(self.places)
    }

    /// The results of all pieces, one after the other.
    fn cut<'a, T>(&self, mut to: &'a mut [T]) -> SmallVec<[&'a mut [T]; 4]> {
        let mut next = |&count: &usize| to.split_off_mut(..count).unwrap_or_default();
        self.counts.iter().map(&mut next).collect()
    }
}

/// Pieces of a mask whose true places take as long to count as a thread takes to start.
const COUNTED_AT_ONCE: usize = 8;

/// How many are true.
fn count_true(mask: &[bool]) -> usize {
    // Few enough for a sum in a byte.
    let sums =
        mask.chunks(255).map(|part| part.iter().fold(0u8, |sum, &chosen| sum + u8::from(chosen)));
    sums.map(usize::from).sum()
}

/// StridedLoads that are looked at together.
const PART: usize = 64;

/// Writes `value(place)` for every place that is true, in order. Values are put into a buffer
/// whether they are chosen or not, as no processor foresees which are.
#[inline(always)]
fn pick_where<T: Copy>(mask: &[bool], mut to: &mut [T], value: impl Fn(usize) -> T) {
    for (part, mask) in mask.chunks(PART).enumerate() {
        if !mask.iter().fold(false, |any, &chosen| any | chosen) {
            continue;
        }
        let (mut picked, mut count) = ([value(part * PART); PART], 0);
        for (i, &chosen) in mask.iter().enumerate() {
            picked[count % PART] = value(part * PART + i);
            count += usize::from(chosen);
        }
        let (now, later) = to.split_at_mut(count.min(to.len()));
        now.copy_from_slice(&picked[..now.len()]);
        to = later;
    }
}

/// Writes the elements of `source` in order where `mask` is true.
///
/// # Errors
/// `Runtime` when dtypes differ or `source` has too few elements.
pub fn masked_scatter_(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "masked_scatter: expected self and source to have same dtypes but got{} and {}",
        self_.dtype().type_name(),
        source.dtype().type_name()
    );
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().type_name()
    );
    geometry::assert_no_internal_overlap(self_)?;
    let mask = op::contiguous(&op::expand(mask, &self_.sizes(), false)?, MemoryFormat::Contiguous)?;
    if is_shape_only(self_) {
        return Ok(self_.clone());
    }
    let target = op::clone(&as_bits(self_)?, Some(MemoryFormat::Contiguous))?;
    let values = op::contiguous(&as_bits(source)?, MemoryFormat::Contiguous)?;
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (values.base(), Access::Read),
            (mask.base(), Access::Read),
            (target.base(), Access::Write),
        ])?;
        let (from, mask, to) = (set.read::<T>(0)?, set.read::<bool>(1)?, set.write::<T>(2)?);
        let mut next = from.iter();
        for (slot, _) in to.iter_mut().zip(mask).filter(|(_, chosen)| **chosen) {
            let value = next.next();
            ensure!(
                value.is_some(),
                Runtime,
                "Number of elements of source < number of ones in mask"
            );
            *slot = value.copied().unwrap_or(*slot);
        }
    });
    op::copy_(&as_bits(self_)?, &target, false)?;
    Ok(self_.clone())
}

/// The functional form of [`masked_scatter_`], on the broadcast shape of tensor and mask.
///
/// # Errors
/// As [`masked_scatter_`].
pub fn masked_scatter(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let shape = geometry::infer_broadcast(&self_.sizes(), &mask.sizes())?;
    let expanded = op::expand(self_, &shape, false)?;
    let copy = op::clone(&expanded, Some(MemoryFormat::Contiguous))?;
    masked_scatter_(&copy, mask, source)
}

/// The positions of the elements that are not zero, one row each, in row-major order.
///
/// # Errors
/// `OutOfMemory`.
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    let mask = op::to_dtype(self_, DType::Bool, false, false, None)?;
    let mask = op::contiguous(&mask, MemoryFormat::Contiguous)?;
    let mask = Reader::<bool>::new(&mask)?;
    let mask = &mask[..];
    let (counts, sizes) = (Counts::of(mask)?, self_.sizes());
    let (count, rank) = (counts.total(), sizes.len());
    // The result is column-major, as each dimension's positions are used together.
    let out = op::empty_memory_format(
        &[rank as i64, count as i64],
        Some(DType::Int64),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    if count > 0 && rank > 0 {
        let mut out = Writer::<i64>::new(&out)?;
        let mut pieces: SmallVec<[DimIndices<'_>; 4]> =
            counts.counts.iter().map(|_| DimIndices::new()).collect();
        for column in out.chunks_exact_mut(count) {
            pieces.iter_mut().zip(counts.cut(column)).for_each(|(piece, part)| piece.push(part));
        }
        for_each_chunk(&mut pieces, 1, 1, |piece, columns| {
            let places = counts.places(piece);
            write_places(&mask[places.clone()], places.start, &sizes, &mut columns[0]);
            Ok(())
        })?;
    }
    let count = count as i64;
    Ok(out.as_view_of(&[count, rank as i64], &[1, count], 0)?.into())
}

/// The results of a piece, those of each dimension in a slice of their own.
type DimIndices<'a> = SmallVec<[&'a mut [i64]; 4]>;

/// Writes the positions that are true in a piece of a mask of some sizes, from place `first` on.
fn write_places(mask: &[bool], first: usize, sizes: &[i64], out: &mut DimIndices<'_>) {
    let (Some((&inner, outer)), Some((last, outside))) = (sizes.split_last(), out.split_last_mut())
    else {
        return;
    };
    let mut position = position_of(first / inner as usize, outer);
    let mut start = first % inner as usize;
    let (mut rest, mut done) = (mask, 0);
    while !rest.is_empty() {
        let (row, later) = rest.split_at((inner as usize - start).min(rest.len()));
        let found = count_true(row);
        if found > 0 {
            pick_where(row, &mut last[done..done + found], |place| (start + place) as i64);
            for (column, &at) in outside.iter_mut().zip(&position) {
                column[done..done + found].fill(at);
            }
            done += found;
        }
        step(&mut position, outer);
        (rest, start) = (later, 0);
    }
}

/// The position of a row in some dimensions.
fn position_of(mut row: usize, sizes: &[i64]) -> Dims {
    let mut position = Dims::from_elem(0, sizes.len());
    for (at, &size) in position.iter_mut().zip(sizes).rev() {
        *at = (row % size as usize) as i64;
        row /= size as usize;
    }
    position
}

/// The position of the next row.
fn step(position: &mut [i64], sizes: &[i64]) {
    for (at, &size) in position.iter_mut().zip(sizes).rev() {
        *at += 1;
        if *at < size {
            break;
        }
        *at = 0;
    }
}
