//! Room for copied blocks, kept by every thread.

use crate::types::low_precision::{Bf16, F16};
use std::cell::Cell;
use std::num::Wrapping;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

/// Room for one block, aligned to cache lines.
#[derive(Default)]
pub struct Room(Vec<Line>);

/// Room for a block of either factor, for a part of the result, for sums that are rounded, and for what
/// sums start from.
#[derive(Default)]
pub struct Scratch {
    pub(crate) a: Room,
    pub(crate) b: Room,
    pub(crate) c: Room,
    pub(crate) sums: Room,
    pub(crate) starts: Room,
}

thread_local! {
    static KEPT: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// Element types of which every bit pattern is a value.
///
/// # Safety
/// It must be so, and the type may not be aligned more strictly than a cache line.
pub unsafe trait Plain: Copy {}

// SAFETY: every bit pattern is a number or NaN; so below.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above.
unsafe impl Plain for Bf16 {}
// SAFETY: as above.
unsafe impl Plain for F16 {}
// SAFETY: every bit pattern is an integer; so below.
unsafe impl Plain for Wrapping<i32> {}
// SAFETY: as above.
unsafe impl Plain for Wrapping<i64> {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i16 {}

impl Room {
    /// Some elements, whatever they hold.
    pub(crate) fn elements<E: Plain>(&mut self, count: usize) -> &mut [E] {
        let lines = (count * size_of::<E>()).div_ceil(size_of::<Line>());
        if self.0.len() < lines {
            self.0.resize(lines, Line { _bytes: [0; 64] });
        }
        // SAFETY: the lines hold at least `count` elements, are aligned for them, and any bytes
        // are elements.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), count) }
    }

    /// The first elements of those asked for before.
    pub(crate) fn reused<E: Plain>(&self, count: usize) -> &[E] {
        assert!(count * size_of::<E>() <= size_of_val(self.0.as_slice()));
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), count) }
    }

    /// The address of the first element.
    pub(crate) fn first<E>(&self) -> *const E {
        self.0.as_ptr().cast()
    }
}

impl Scratch {
    /// This thread's room, or new one while that is in use.
    pub(crate) fn take() -> Self {
        KEPT.take().unwrap_or_default()
    }

    /// Keeps the room for the next product.
    pub(crate) fn give_back(self) {
        KEPT.set(Some(self));
    }
}
