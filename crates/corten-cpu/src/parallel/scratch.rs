//! Buffers that threads keep: a kernel that needs room for a block, again and again, neither asks
//! the allocator for it nor clears it each time.

use corten_core::{Complex, unwinding};
use std::cell::Cell;
use std::thread::LocalKey;

/// An element type that threads keep a buffer of.
pub(crate) trait Buffered: Copy + Default + 'static {
    /// This thread's buffer.
    fn kept() -> &'static LocalKey<Cell<Vec<Self>>>;
}

macro_rules! buffered {
    ($($element:ty),+) => {$(
        impl Buffered for $element {
            fn kept() -> &'static LocalKey<Cell<Vec<Self>>> {
                thread_local! {
                    static KEPT: Cell<Vec<$element>> = const { Cell::new(Vec::new()) };
                }
                &KEPT
            }
        }
    )+};
}

buffered!(u8, i8, i16, i32, i64, f32, f64, Complex<f32>, Complex<f64>);

/// Larger buffers go back to the allocator.
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// Calls `f` with `count` elements, whatever they hold.
pub(crate) fn with_buffer<T: Buffered, R>(count: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = T::kept().take();
    if buffer.len() < count {
        unwinding::resize(&mut buffer, count, T::default());
    }
    let result = f(&mut buffer[..count]);
    if buffer.len() * size_of::<T>() <= MOST_BYTES {
        T::kept().set(buffer);
    }
    result
}
