//! Buffers for packed blocks, kept by every thread.

use crate::types::element::Pod;
use std::cell::Cell;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    _bytes: [u8; 64],
}

/// A buffer that is aligned to cache lines and grows on demand.
#[derive(Default)]
pub struct Buffer(Vec<CacheLine>);

/// The buffers of a product: packed blocks of `a` and `b`, tiles of the result, accumulators of
/// low-precision results, and compensation.
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
    /// The first `count` elements, of unspecified values. The buffer grows if it is smaller.
    pub(crate) fn as_mut_slice<E: Pod>(&mut self, count: usize) -> &mut [E] {
        let lines = (count * size_of::<E>()).div_ceil(size_of::<CacheLine>());
        if self.0.len() < lines {
            self.0.resize(lines, CacheLine { _bytes: [0; 64] });
        }
        // SAFETY: the cache lines hold `count` elements, are aligned for them, and any bytes are
        // elements.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), count) }
    }

    /// The first `count` elements of those that were used before.
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
    /// This thread's workspace, or a new one while that is in use.
    pub(crate) fn acquire() -> Self {
        THREAD.take().unwrap_or_default()
    }

    /// Keeps the workspace for the next product.
    pub(crate) fn release(self) {
        THREAD.set(Some(self));
    }
}
