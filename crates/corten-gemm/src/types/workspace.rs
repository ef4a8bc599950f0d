//! Room for copied blocks, kept by every thread.

use crate::types::element::Pod;
use std::cell::Cell;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    _bytes: [u8; 64],
}

/// Room for one block, aligned to cache lines.
#[derive(Default)]
pub struct Buffer(Vec<CacheLine>);

/// Room for a block of either factor, for a part of the result, for sums that are rounded, and for what
/// sums start from.
#[derive(Default)]
pub struct Workspace {
    pub(crate) a: Buffer,
    pub(crate) b: Buffer,
    pub(crate) c: Buffer,
    pub(crate) sums: Buffer,
    #[cfg(target_arch = "x86_64")]
    pub(crate) compensation: Buffer,
}

thread_local! {
    static THREAD: Cell<Option<Workspace>> = const { Cell::new(None) };
}

impl Buffer {
    /// Some elements, whatever they hold.
    pub(crate) fn as_mut_slice<E: Pod>(&mut self, count: usize) -> &mut [E] {
        let strided = (count * size_of::<E>()).div_ceil(size_of::<CacheLine>());
        if self.0.len() < strided {
            self.0.resize(strided, CacheLine { _bytes: [0; 64] });
        }
        // SAFETY: the lines hold at least `count` elements, are aligned for them, and any bytes
        // are elements.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), count) }
    }

    /// The first elements of those asked for before.
    pub(crate) fn as_slice<E: Pod>(&self, count: usize) -> &[E] {
        assert!(count * size_of::<E>() <= size_of_val(self.0.as_slice()));
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), count) }
    }

    /// The address of the first element.
    pub(crate) fn as_ptr<E>(&self) -> *const E {
        self.0.as_ptr().cast()
    }
}

impl Workspace {
    /// This thread's room, or new one while that is in use.
    pub(crate) fn acquire() -> Self {
        THREAD.take().unwrap_or_default()
    }

    /// Keeps the room for the next product.
    pub(crate) fn release(self) {
        THREAD.set(Some(self));
    }
}
