//! Reductions of rows of dense columns: a state for each column, row after row.

use crate::reduce::buffers::{States, TurnedRoom};
use crate::reduce::loops::{Fold, ReducePlan, offset};
use crate::reduce::results::COLUMNS;
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use crate::vec::{Level, level};
use crate::vec::{one_at_a_time, prefetch_early};
use corten_core::Result;
use corten_ops::parallel::{self, GRAIN};

/// Rows that are read side by side: processors foresee what follows in some places at once, but not in
/// as many as a column of long rows has. More of them where states stay in registers meanwhile.
const ROWS_TOGETHER: usize = 8;
const ROWS_IN_REGISTERS: usize = 16;

/// Bytes of one row before the next one is looked at.
const BYTES_TOGETHER: usize = 256;

/// Bytes from one row to the next beyond which a processor does not foresee the next row.
const FAR: u64 = 2048;

/// Bytes of a matrix that stays in a second-level cache.
const NEAR: u64 = 512 << 10;

/// How many rows later the rows are that are brought near.
const ROWS_AHEAD: i64 = 2 * ROWS_TOGETHER as i64;

impl ReducePlan {
    /// Folds rows of dense columns into one state per column. What is not converted is aligned.
    pub(crate) fn fold_columns<F: Fold>(&self, fold: &F) -> Result<()> {
        let (width, length) = (self.kept[0].size, self.length());
        let at_once = self.columns_at_once::<F>(width);
        let blocks = (width + at_once - 1) / at_once;
        let grain = (GRAIN / (length * at_once)).max(1);
        parallel::parallel_for(0..self.count() / width * blocks, grain, |range| {
            for block in range {
                let (outer, first) = (block / blocks, block % blocks * at_once);
                let output = outer * width + first;
                let columns = (width - first).min(at_once) as usize;
                let mut room = States::new();
                let states = room.filled(columns, fold.start());
                // SAFETY: the columns lie within the rows; outputs are disjoint.
                unsafe {
                    self.rows(fold, self.input_of(output), states);
                    for (i, states) in states.chunks(COLUMNS).enumerate() {
                        self.store_states(fold, output + (i * COLUMNS) as i64, states);
                    }
                }
            }
            Ok(())
        })
    }

    /// How many columns are folded side by side: as many as there is room for, but every thread should
    /// have a share.
    fn columns_at_once<F: Fold>(&self, width: i64) -> i64 {
        if self.conversion.is_some() {
            return COLUMNS as i64;
        }
        let most = (States::BYTES / size_of::<F::Acc>().max(1)) as i64;
        let shares = parallel::num_threads() as i64;
        let blocks = ((width + most - 1) / most + shares - 1) / shares * shares;
        ((width + blocks - 1) / blocks).clamp((COLUMNS as i64).min(most), most)
    }

    /// Folds rows into states of their columns.
    ///
    /// # Safety
    /// `first` must be the address of the first column of a slice that has as many columns, in the
    /// places of their dtype if they are not converted.
    unsafe fn rows<F: Fold>(&self, fold: &F, first: *const u8, states: &mut [F::Acc]) {
        // Choosing between two vectors takes three steps with AVX2, and one with masks.
        #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
        if const { !F::IN_TURN } && level() == Level::Avx512 {
            // SAFETY: the caller's, and AVX-512 was detected.
            return unsafe { self.rows_avx512(fold, first, states) };
        }
        #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
        if level() >= Level::Avx2 {
            // SAFETY: the caller's, and AVX2 was detected.
            return unsafe { self.rows_avx2(fold, first, states) };
        }
        // SAFETY: the caller's.
        unsafe { self.rows_here::<F, { cfg!(target_arch = "x86_64") }>(fold, first, states) }
    }

    /// # Safety
    /// As for [`rows`](Self::rows), and the processor must have AVX-512.
    #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    unsafe fn rows_avx512<F: Fold>(&self, fold: &F, first: *const u8, states: &mut [F::Acc]) {
        // SAFETY: the caller's.
        unsafe { self.rows_here::<F, false>(fold, first, states) }
    }

    /// # Safety
    /// As for [`rows`](Self::rows), and the processor must have AVX2.
    #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn rows_avx2<F: Fold>(&self, fold: &F, first: *const u8, states: &mut [F::Acc]) {
        // SAFETY: the caller's.
        unsafe { self.rows_here::<F, false>(fold, first, states) }
    }

    /// With `COMPACT`, the loops are small and not fast.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    #[inline(always)]
    unsafe fn rows_here<F: Fold, const COMPACT: bool>(
        &self,
        fold: &F,
        first: *const u8,
        states: &mut [F::Acc],
    ) {
        let mut room = States::new();
        let others = room.filled(if F::IN_TURN { states.len() } else { 0 }, fold.start());
        let length = self.length();
        let stride = self.reduced.first().map_or(0, |dim| dim.from.unsigned_abs());
        let row_at = |index: i64| {
            first.wrapping_offset(offset(&self.reduced, index, |dim| dim.from) as isize)
        };
        let far = F::IN_TURN && stride >= FAR && stride.saturating_mul(length as u64) > NEAR;
        let columns = if far { BYTES_TOGETHER / self.size } else { states.len().max(1) };
        let rows = if F::IN_TURN { ROWS_TOGETHER } else { ROWS_IN_REGISTERS };
        for start in (0..length).step_by(rows) {
            let [mut now, mut later] = [[first; ROWS_IN_REGISTERS]; 2];
            let here = now[..rows].iter_mut().zip(start..length);
            let here = here.map(|(row, index)| *row = row_at(index)).count();
            let coming = start + ROWS_AHEAD..if far { length } else { 0 };
            let coming = later[..rows].iter_mut().zip(coming);
            let coming = coming.map(|(row, index)| *row = row_at(index)).count();
            for (i, states) in states.chunks_mut(columns).enumerate() {
                let skipped = i * columns * self.size;
                for row in &later[..coming] {
                    prefetch_early(row.wrapping_add(skipped), columns * self.size);
                }
                let others = others.chunks_mut(columns).nth(i).unwrap_or_default();
                let (rows, columns) = ((&now[..here], skipped), (states, others));
                // SAFETY: the rows have those columns.
                unsafe { self.few_rows::<F, COMPACT>(fold, columns, rows, start) };
            }
        }
    }

    /// Folds parts of rows, from so many bytes on, into states; there are as many others to work with.
    /// The first row has the given index.
    ///
    /// # Safety
    /// Of every row there must be as many elements as there are states, in the places of their dtype if
    /// they are not converted.
    #[inline(always)]
    unsafe fn few_rows<F: Fold, const COMPACT: bool>(
        &self,
        fold: &F,
        (states, others): (&mut [F::Acc], &mut [F::Acc]),
        (rows, skipped): (&[*const u8], usize),
        index: i64,
    ) {
        let width = states.len();
        let mut parts: [&[F::In]; ROWS_IN_REGISTERS] = [&[]; ROWS_IN_REGISTERS];
        let Some(conversion) = self.conversion else {
            for (part, row) in parts.iter_mut().zip(rows) {
                let row = row.wrapping_add(skipped).cast();
                // SAFETY: the caller's; the elements are of the fold's type.
                *part = unsafe { std::slice::from_raw_parts(row, width) };
            }
            let rows = parts[..rows.len()].iter().copied();
            return match COMPACT {
                true => compact_rows(fold, states, rows, index),
                false => fold.step_rows(states, others, rows, index),
            };
        };
        let mut room = TurnedRoom::new();
        let first = room.wide.as_mut_ptr().cast::<F::In>();
        let most = (TurnedRoom::BYTES / (width.max(1) * self.wide)).max(1);
        for (rows, index) in rows.chunks(most).zip((index..).step_by(most)) {
            for (i, (part, row)) in parts.iter_mut().zip(rows).enumerate() {
                let to = first.wrapping_add(i * width);
                // SAFETY: the caller's; the room has place for so many rows of at most `COLUMNS`.
                unsafe {
                    conversion.run(row.wrapping_add(skipped), to.cast(), width);
                    *part = std::slice::from_raw_parts(to, width);
                }
            }
            let rows = parts[..rows.len()].iter().copied();
            match COMPACT {
                true => compact_rows(fold, states, rows, index),
                false => fold.step_rows(states, others, rows, index),
            }
        }
    }
}

/// As [`Fold::step_rows`], element by element, which is a small part of the code.
#[inline(always)]
pub(crate) fn compact_rows<'a, F: Fold>(
    fold: &F,
    states: &mut [F::Acc],
    rows: impl Iterator<Item = &'a [F::In]>,
    index: i64,
) {
    for (row, index) in rows.zip(index..) {
        for (state, &x) in states.iter_mut().zip(row) {
            one_at_a_time();
            *state = fold.step(*state, x, index);
        }
    }
}
