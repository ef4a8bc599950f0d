//! The loops of reductions other than the floating-point sum.
//!
//! A [`Fold`] says how elements of one wide type are put together; the loops here bring the
//! elements to it: dense runs of a slice, or rows of columns, converted where the tensor has
//! another dtype, on several threads.

use crate::copy::strided::{Rows, gather};
use crate::reduce::buffers::{RunRoom, Staging, filled};
use crate::reduce::results::{COLUMNS, OutputRow, Results};
use crate::vec::convert::Conversion;
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use crate::vec::{Level, level};
use corten_core::{DType, Element, Result, try_vec};
use corten_ops::iter::TensorIterator;
use corten_ops::parallel::{self, GRAIN};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Mutex;

/// A way to put elements together.
pub(crate) trait Fold: Sync {
    /// The type in which elements are read.
    type In: Element;
    /// What is carried along.
    type Acc: Copy + Send;
    /// The results.
    type Out: Results;
    /// Whether rows of columns need other states to work with.
    const IN_TURN: bool = true;

    /// The state before the first element.
    fn start(&self) -> Self::Acc;
    /// With one more element; `index` counts within the slice.
    fn step(&self, acc: Self::Acc, x: Self::In, index: i64) -> Self::Acc;
    /// With the state of the elements that follow.
    fn combine(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// With one more element for each state. The new states have a place of their own, so that all
    /// are written: to leave one as it is takes a masked store, which is slow on some processors.
    #[inline(always)]
    fn step_each(
        &self,
        states: &[Self::Acc],
        next: &mut [Self::Acc],
        row: &[Self::In],
        index: i64,
    ) {
        for ((next, &acc), &x) in next.iter_mut().zip(states).zip(row) {
            *next = self.step(acc, x, index);
        }
    }
    /// With the elements of some rows for each state, the first row of them at `index`; `next` has room
    /// for as many states if rows are taken [in turn](Self::IN_TURN).
    #[inline(always)]
    fn step_rows<'a>(
        &self,
        states: &mut [Self::Acc],
        next: &mut [Self::Acc],
        rows: impl DoubleEndedIterator<Item = &'a [Self::In]> + ExactSizeIterator + Clone,
        index: i64,
    ) {
        in_turn(self, [states, next], rows, index);
    }
    /// The results of `count` elements.
    fn finish(&self, acc: Self::Acc, count: i64) -> Self::Out;

    /// With a run of elements, the first of them at `index`. By default eight states take turns.
    #[inline(always)]
    fn run(&self, acc: Self::Acc, row: &[Self::In], index: i64) -> Self::Acc {
        let mut lanes = [self.start(); 8];
        let chunks = row.chunks_exact(8);
        let rest = chunks.remainder();
        let first_of_rest = index + (row.len() - rest.len()) as i64;
        for (i, chunk) in chunks.enumerate() {
            for (j, lane) in lanes.iter_mut().enumerate() {
                *lane = self.step(*lane, chunk[j], index + (8 * i + j) as i64);
            }
        }
        let sum = lanes.into_iter().fold(acc, |a, b| self.combine(a, b));
        let steps = rest.iter().enumerate();
        steps.fold(sum, |a, (i, &x)| self.step(a, x, first_of_rest + i as i64))
    }
}

/// Takes one row after the other into states, which go from one room to the other and end in the first.
#[inline(always)]
fn in_turn<'a, F: Fold + ?Sized>(
    fold: &F,
    [states, next]: [&mut [F::Acc]; 2],
    rows: impl Iterator<Item = &'a [F::In]>,
    first: i64,
) {
    let mut rows = rows.zip(first..);
    while let Some((row, index)) = rows.next() {
        fold.step_each(states, next, row, index);
        match rows.next() {
            Some((row, index)) => fold.step_each(next, states, row, index),
            None => states.copy_from_slice(next),
        }
    }
}

/// Parts of a long slice, which threads share. Their number does not depend on that of the threads,
/// so that the result does not.
const MOST_PARTS: i64 = 8;

/// Folds the only input of a reduction into its outputs.
///
/// # Errors
/// When access is refused.
pub(crate) fn fold<F: Fold>(iter: &mut TensorIterator, fold: &F) -> Result<()> {
    let places = iter.pointers()?;
    // Of results some of which are not asked for, the last ones are.
    let outs = F::Out::DTYPES;
    let outs = &outs[outs.len().saturating_sub(iter.noutputs())..];
    let walk = ReducePlan::new(iter, &places, F::DTYPE, outs);
    walk.run(fold)
}

/// Gives `F::DTYPE`.
trait InDtype {
    const DTYPE: DType;
}

impl<F: Fold> InDtype for F {
    const DTYPE: DType = <F::In as Element>::DTYPE;
}

/// One dimension of the walk.
#[derive(Clone, Copy)]
pub(crate) struct Dim {
    pub(crate) size: i64,
    /// Input stride in bytes.
    pub(crate) from: i64,
    /// Output strides in bytes.
    to: [i64; 2],
}

/// The same elements of slices that lie `stride` bytes apart.
struct Slices {
    first: *const u8,
    stride: i64,
    elements: Range<i64>,
}

pub(crate) struct ReducePlan {
    from: *const u8,
    to: SmallVec<[*mut u8; 2]>,
    /// Dimensions that go, fastest first.
    pub(crate) reduced: SmallVec<[Dim; 4]>,
    /// Dimensions that stay, fastest first.
    pub(crate) kept: SmallVec<[Dim; 4]>,
    /// Bytes per element of the outputs.
    out_sizes: [usize; 2],
    /// Bytes per element in memory and in the type of the fold.
    pub(crate) size: usize,
    pub(crate) wide: usize,
    pub(crate) conversion: Option<Conversion>,
    conversions: SmallVec<[Option<Conversion>; 2]>,
}

// SAFETY: the addresses are used for disjoint outputs per thread, and the iterator holds access.
unsafe impl Sync for ReducePlan {}

impl ReducePlan {
    fn new(iter: &TensorIterator, places: &[*mut u8], wide: DType, outs: &[DType]) -> Self {
        let outputs = iter.noutputs();
        let (shape, from) = (iter.shape(), iter.strides(outputs));
        let to = [iter.strides(0), iter.strides(if outputs > 1 { 1 } else { 0 })];
        let (mut reduced, mut kept) = (SmallVec::new_const(), SmallVec::new_const());
        for i in 0..shape.len() {
            let dim = Dim { size: shape[i], from: from[i], to: [to[0][i], to[1][i]] };
            if to[0][i] == 0 { reduced.push(dim) } else { kept.push(dim) }
        }
        let dtype = iter.dtype(outputs);
        let conversion = (dtype != wide).then(|| Conversion::new(dtype, wide));
        let mut conversions = SmallVec::new_const();
        for (i, &out) in outs.iter().enumerate() {
            let to = iter.dtype(i);
            conversions.push((out != to).then(|| Conversion::new(out, to)));
        }
        Self {
            from: places[outputs],
            to: places[..outputs].into(),
            reduced,
            kept,
            out_sizes: [0, 1].map(|i| if i < outputs { iter.dtype(i).itemsize() } else { 0 }),
            size: dtype.itemsize(),
            wide: wide.itemsize(),
            conversion,
            conversions,
        }
    }

    pub(crate) fn count(&self) -> i64 {
        self.kept.iter().map(|dim| dim.size).product()
    }

    pub(crate) fn length(&self) -> i64 {
        self.reduced.iter().map(|dim| dim.size).product()
    }

    fn run<F: Fold>(&self, fold: &F) -> Result<()> {
        let (count, length) = (self.count(), self.length());
        if count == 0 {
            return Ok(());
        }
        // A buffer of the user's may hold elements between the places of their dtype.
        let aligned = self.conversion.is_some() || self.from.cast::<F::In>().is_aligned();
        let columns = self.kept.first().is_some_and(|dim| {
            aligned
                && dim.from == self.size as i64
                && dim.size >= 8
                && self.reduced.iter().all(|r| r.from != dim.from)
        });
        if length > 0 && columns {
            self.fold_columns(fold)
        } else if self.are_short(length) {
            parallel::parallel_for(0..count, GRAIN / length, |range| {
                self.fold_short(fold, range);
                Ok(())
            })
        } else if count < MOST_PARTS && length >= 2 * GRAIN {
            self.fold_in_parts(fold, MOST_PARTS.min(length / GRAIN))
        } else {
            parallel::parallel_for(0..count, (GRAIN / length.max(1)).max(1), |range| {
                self.fold_slices(fold, range);
                Ok(())
            })
        }
    }

    /// Folds slices one after the other; the results of neighbours are stored together.
    fn fold_slices<F: Fold>(&self, fold: &F, outputs: Range<i64>) {
        let (width, stride) = self.kept.first().map_or((1, 0), |dim| (dim.size, dim.from));
        let mut output = outputs.start;
        while output < outputs.end {
            let left = (width - output % width).min(outputs.end - output);
            let count = left.min(COLUMNS as i64) as usize;
            let mut room = [MaybeUninit::uninit(); COLUMNS];
            let states = filled(&mut room[..count], fold.start());
            // SAFETY: the slices are those of these outputs, which belong to nobody else.
            unsafe {
                let first = self.input_of(output);
                self.slices(fold, &Slices { first, stride, elements: 0..self.length() }, states);
                self.store_states(fold, output, states);
            }
            output += count as i64;
        }
    }

    /// Folds few long slices: each in parts on several threads, put together in order.
    fn fold_in_parts<F: Fold>(&self, fold: &F, parts: i64) -> Result<()> {
        let length = self.length();
        for output in 0..self.count() {
            let states: Mutex<Vec<Option<F::Acc>>> = Mutex::new(try_vec(None, parts as usize)?);
            parallel::parallel_for(0..parts, 1, |range| {
                for part in range {
                    let elements = length * part / parts..length * (part + 1) / parts;
                    // SAFETY: the part lies within the slice.
                    let acc = unsafe { self.slice(fold, self.input_of(output), elements) };
                    let mut states = states.lock().unwrap_or_else(|poison| poison.into_inner());
                    states[part as usize] = Some(acc);
                }
                Ok(())
            })?;
            let states = states.into_inner().unwrap_or_else(|poison| poison.into_inner());
            let acc = states.into_iter().flatten().reduce(|a, b| fold.combine(a, b));
            // SAFETY: this thread alone writes the output now.
            unsafe { self.store_states(fold, output, &[acc.unwrap_or_else(|| fold.start())]) };
        }
        Ok(())
    }

    /// The address of the first element of the slice that goes to an output.
    pub(crate) fn input_of(&self, output: i64) -> *const u8 {
        self.from.wrapping_offset(offset(&self.kept, output, |dim| dim.from) as isize)
    }

    /// Stores neighbouring outputs, of which `output` is the first.
    ///
    /// # Safety
    /// No other thread may use these outputs meanwhile.
    pub(crate) unsafe fn store_states<F: Fold>(&self, fold: &F, output: i64, states: &[F::Acc]) {
        let place = |(i, &first): (usize, &*mut u8)| OutputRow {
            first: first.wrapping_offset(offset(&self.kept, output, |dim| dim.to[i]) as isize),
            stride: self.kept.first().map_or(0, |dim| dim.to[i]),
            size: self.out_sizes[i],
        };
        // Bounded: results of a reduction.
        let places: SmallVec<[OutputRow; 2]> = self.to.iter().enumerate().map(place).collect();
        let length = self.length();
        let results = states.iter().map(|&acc| fold.finish(acc, length));
        // SAFETY: the caller's.
        unsafe { F::Out::store_row(results, &places, &self.conversions) };
    }

    /// Folds part of a slice.
    ///
    /// # Safety
    /// `first` must be the address of a slice, `elements` a range of its elements.
    unsafe fn slice<F: Fold>(&self, fold: &F, first: *const u8, elements: Range<i64>) -> F::Acc {
        let mut states = [fold.start()];
        // SAFETY: the caller's.
        unsafe { self.slices(fold, &Slices { first, stride: 0, elements }, &mut states) };
        states[0]
    }

    /// Folds parts of slices, each into its state.
    ///
    /// # Safety
    /// There must be as many slices as states, with these elements.
    unsafe fn slices<F: Fold>(&self, fold: &F, slices: &Slices, states: &mut [F::Acc]) {
        #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
        if level() >= Level::Avx2 {
            // SAFETY: the caller's, and AVX2 was detected.
            return unsafe { self.slices_avx2(fold, slices, states) };
        }
        // SAFETY: the caller's.
        unsafe { self.slices_here(fold, slices, states) }
    }

    /// # Safety
    /// As for [`slices`](Self::slices), and the processor must have AVX2.
    #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn slices_avx2<F: Fold>(&self, fold: &F, slices: &Slices, states: &mut [F::Acc]) {
        // SAFETY: the caller's.
        unsafe { self.slices_here(fold, slices, states) }
    }

    /// # Safety
    /// As for [`slices`](Self::slices).
    #[inline(always)]
    unsafe fn slices_here<F: Fold>(&self, fold: &F, slices: &Slices, states: &mut [F::Acc]) {
        let row = self.reduced.first().copied();
        let row = row.unwrap_or(Dim { size: 1, from: self.size as i64, to: [0; 2] });
        for (i, state) in states.iter_mut().enumerate() {
            let first = slices.first.wrapping_offset((slices.stride * i as i64) as isize);
            let Range { start: mut index, end } = slices.elements;
            while index < end {
                let at =
                    first.wrapping_offset(offset(&self.reduced, index, |dim| dim.from) as isize);
                let length = (row.size - index % row.size).min(end - index);
                // SAFETY: the run lies within a row of the slice.
                *state = unsafe { self.run_of_row(fold, *state, at, row.from, length, index) };
                index += length;
            }
        }
    }

    /// # Safety
    /// There must be `length` elements at `at` with this stride.
    #[inline(always)]
    unsafe fn run_of_row<F: Fold>(
        &self,
        fold: &F,
        mut acc: F::Acc,
        at: *const u8,
        stride: i64,
        length: i64,
        index: i64,
    ) -> F::Acc {
        let aligned = at.cast::<F::In>().is_aligned() || self.conversion.is_some();
        let dense = aligned && (stride == self.size as i64 || length == 1);
        if dense && self.conversion.is_none() {
            // SAFETY: the elements are dense and of the fold's type.
            let row = unsafe { std::slice::from_raw_parts(at.cast::<F::In>(), length as usize) };
            return fold.run(acc, row, index);
        }
        let mut buffer = RunRoom::new();
        let step = (RunRoom::BYTES / self.wide.max(self.size)) as i64;
        for start in (0..length).step_by(step as usize) {
            let count = step.min(length - start) as usize;
            let from = Rows {
                at: at.wrapping_offset((stride * start) as isize).cast_mut(),
                inner: stride,
                outer: 0,
            };
            // SAFETY: `count` elements are left, and the buffer has room for them.
            let row = unsafe { self.stage::<F::In, _>(from, dense, [count, 1], &mut buffer) };
            acc = fold.run(acc, row, index + start);
        }
        acc
    }

    /// Rows of elements as a dense run of the fold's type: where they are, or in the buffer.
    ///
    /// # Safety
    /// There must be `rows` of `width` elements, and the buffer must have room for them.
    #[inline(always)]
    pub(crate) unsafe fn stage<'a, T: Element, const UNITS: usize>(
        &self,
        from: Rows,
        dense: bool,
        [width, rows]: [usize; 2],
        buffer: &'a mut Staging<UNITS>,
    ) -> &'a [T] {
        let mut ready = from.at.cast_const();
        if !dense {
            // SAFETY: the caller's.
            unsafe { gather(self.size, from, buffer.raw.as_mut_ptr().cast(), width, rows) };
            ready = buffer.raw.as_ptr().cast();
        }
        let count = width * rows;
        if let Some(conversion) = self.conversion {
            // SAFETY: the caller's; the buffers are different.
            unsafe { conversion.run(ready, buffer.wide.as_mut_ptr().cast(), count) };
            ready = buffer.wide.as_ptr().cast();
        }
        // SAFETY: `count` elements of type `T` lie there.
        unsafe { std::slice::from_raw_parts(ready.cast(), count) }
    }
}

/// Bytes to position `index`, which counts along the first dimension first.
#[inline(always)]
pub(crate) fn offset(dims: &[Dim], index: i64, stride: impl Fn(&Dim) -> i64) -> i64 {
    if let [dim] = dims {
        return index * stride(dim);
    }
    let mut rest = index;
    let mut total = 0;
    for dim in dims {
        total += rest % dim.size * stride(dim);
        rest /= dim.size;
    }
    total
}

/// Calls `row` with each row of an output: address, stride in bytes, number of elements.
///
/// # Errors
/// When access is refused.
pub(crate) fn for_each_output_row(
    iter: &mut TensorIterator,
    output: usize,
    row: impl Fn(*mut u8, i64, i64),
) -> Result<()> {
    let first = iter.pointers()?[output];
    let split = iter.num_reduce_dims();
    let dims: SmallVec<[Dim; 4]> = (split..iter.ndim())
        .map(|i| Dim { size: iter.shape()[i], from: iter.strides(output)[i], to: [0; 2] })
        .collect();
    let Some((inner, outer)) = dims.split_first() else {
        row(first, 0, 1);
        return Ok(());
    };
    let count: i64 = outer.iter().map(|dim| dim.size).product();
    for index in 0..if inner.size == 0 { 0 } else { count } {
        let at = first.wrapping_offset(offset(outer, index, |dim| dim.from) as isize);
        row(at, inner.from, inner.size);
    }
    Ok(())
}
