//! Reductions of short dense slices: many at a time, side by side.

use crate::reduce_loops::{Dim, Fold, Walk};
use crate::reduce_results::COLUMNS;
use crate::reduce_room::{TURNED, Turned, filled};
use crate::strided::{Rows, gather};
use crate::vec::{Level, level};
use corten_core::Element;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The longest slices that are turned into columns.
const SHORT: i64 = 48;

impl Walk {
    /// Whether slices are dense, and shorter than what a fold takes at a time, so that its steps would
    /// wait for each other.
    pub(crate) fn are_short(&self, length: i64) -> bool {
        let dense = |dim: &Dim, size: i64| dim.from == size;
        let slice = length * self.size as i64;
        matches!(&self.reduced[..], [dim] if dense(dim, self.size as i64))
            && self.kept.first().is_some_and(|dim| dense(dim, slice) && dim.size >= 8)
            && (2..=SHORT).contains(&length)
    }

    /// Folds short slices side by side, after turning them into columns.
    pub(crate) fn fold_short<F: Fold>(&self, fold: &F, outputs: Range<i64>) {
        let (length, width) = (self.length(), self.kept[0].size);
        let most = (TURNED / (length as usize * self.size.max(self.wide))).min(COLUMNS) as i64;
        let mut turned = Turned::new();
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
                let matrix = self.turned::<F::In>(from, count, length as usize, &mut turned);
                whole(fold, states, next, matrix);
                self.store_states(fold, output, states);
            }
            output += count as i64;
        }
    }

    /// Slices as the columns of a dense matrix of the fold's type.
    ///
    /// # Safety
    /// There must be as many slices of this length, and the buffers must have room for them.
    unsafe fn turned<'a, T: Element>(
        &self,
        from: Rows,
        slices: usize,
        length: usize,
        buffers: &'a mut Turned,
    ) -> &'a [T] {
        let count = slices * length;
        let mut ready = buffers.raw.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's; the buffers are different.
        unsafe {
            gather(self.size, from, ready, slices, length);
            if let Some(conversion) = self.conversion {
                let wide = buffers.wide.as_mut_ptr().cast();
                conversion.run(ready, wide, count);
                ready = wide;
            }
            std::slice::from_raw_parts(ready.cast(), count)
        }
    }
}

/// [`Fold::whole`], compiled for the processor.
fn whole<F: Fold>(fold: &F, states: &mut [F::Acc], next: &mut [F::Acc], matrix: &[F::In]) {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        // SAFETY: AVX2 was detected.
        return unsafe { whole_avx2(fold, states, next, matrix) };
    }
    fold.whole(states, next, matrix);
}

/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn whole_avx2<F: Fold>(
    fold: &F,
    states: &mut [F::Acc],
    next: &mut [F::Acc],
    matrix: &[F::In],
) {
    fold.whole(states, next, matrix);
}
