//! Reductions of short dense slices: many at a time, side by side.

use crate::copy::strided::Rows;
use crate::reduce::buffers::{TurnedRoom, filled};
use crate::reduce::columns::compact_rows;
use crate::reduce::loops::{Dim, Fold, ReducePlan};
use crate::reduce::results::COLUMNS;
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use crate::vec::{Level, level};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The longest slices that are turned into columns.
const SHORT: i64 = 48;

impl ReducePlan {
    /// Whether slices are dense, and shorter than what a fold takes at a time, so that its steps would
    /// wait for each other.
    pub(crate) fn are_short(&self, length: i64) -> bool {
        let dense = |dim: &Dim, size: i64| dim.from == size;
        let slice = length.saturating_mul(self.size as i64);
        matches!(&self.reduced[..], [dim] if dense(dim, self.size as i64))
            && self.kept.first().is_some_and(|dim| dense(dim, slice) && dim.size >= 8)
            && (2..=SHORT).contains(&length)
    }

    /// Folds short slices side by side, after turning them into columns.
    pub(crate) fn fold_short<F: Fold>(&self, fold: &F, outputs: Range<i64>) {
        let (length, width) = (self.length(), self.kept[0].size);
        let most =
            (TurnedRoom::BYTES / (length as usize * self.size.max(self.wide))).min(COLUMNS) as i64;
        let mut turned = TurnedRoom::new();
        let mut output = outputs.start;
        while output < outputs.end {
            let count = (width - output % width).min(outputs.end - output).min(most) as usize;
            let from = Rows {
                at: self.input_of(output).cast_mut(),
                inner: self.kept[0].from,
                outer: self.size as i64,
            };
            let mut rooms = [[MaybeUninit::uninit(); COLUMNS]; 2];
            let [states, next] = &mut rooms;
            let states = filled(&mut states[..count], fold.start());
            let next = filled(&mut next[..count], fold.start());
            // SAFETY: the slices are those of these outputs, which belong to nobody else, and the
            // buffers have room for them.
            unsafe {
                let shape = [count, length as usize];
                let matrix = self.stage::<F::In, _>(from, false, shape, &mut turned);
                whole(fold, states, next, matrix);
                self.store_states(fold, output, states);
            }
            output += count as i64;
        }
    }
}

/// The states of whole slices, which are the columns of a matrix; compiled for the processor.
fn whole<F: Fold>(fold: &F, states: &mut [F::Acc], next: &mut [F::Acc], matrix: &[F::In]) {
    #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
    if level() >= Level::Avx2 {
        // SAFETY: AVX2 was detected.
        return unsafe { whole_avx2(fold, states, next, matrix) };
    }
    let rows = matrix.chunks_exact(states.len());
    match cfg!(target_arch = "x86_64") {
        true => compact_rows(fold, states, rows, 0),
        false => fold.step_rows(states, next, rows, 0),
    }
}

/// # Safety
/// The processor must have AVX2.
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn whole_avx2<F: Fold>(
    fold: &F,
    states: &mut [F::Acc],
    next: &mut [F::Acc],
    matrix: &[F::In],
) {
    let width = states.len();
    fold.step_rows(states, next, matrix.chunks_exact(width), 0);
}
