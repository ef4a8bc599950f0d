//! The allocator of the extension module: mimalloc, by its short way wherever that will do.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use libmimalloc_sys as mi;

/// Small blocks are what an eager program allocates most; the C library's aligned path is slow, and
/// mimalloc's own takes twice the instructions of its plain one.
pub(crate) struct Allocator;

/// What a plain block is aligned to, if it is as large as that.
const NATURAL: usize = 16;

#[inline(always)]
fn is_natural(layout: Layout, size: usize) -> bool {
    layout.align() <= NATURAL && layout.align() <= size
}

// SAFETY: blocks of mimalloc are as large as asked for and may be freed by any thread. Plain ones
// are aligned to their size or to 16 bytes, whichever is less, and the size of a layout that is
// smaller than its alignment takes the aligned way.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        if is_natural(layout, size) {
            // SAFETY: any size may be asked for.
            return unsafe { mi::mi_malloc(size) }.cast();
        }
        // SAFETY: the alignment of a layout is a power of two.
        unsafe { mi::mi_malloc_aligned(size, layout.align()) }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        if is_natural(layout, size) {
            // SAFETY: any size may be asked for.
            return unsafe { mi::mi_zalloc(size) }.cast();
        }
        // SAFETY: the alignment of a layout is a power of two.
        unsafe { mi::mi_zalloc_aligned(size, layout.align()) }.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller gives back a block of this allocator.
        unsafe { mi::mi_free(block.cast::<c_void>()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_natural(layout, size) {
            // SAFETY: the caller hands over a block of this allocator.
            return unsafe { mi::mi_realloc(block.cast::<c_void>(), size) }.cast();
        }
        // SAFETY: as above, and the alignment of a layout is a power of two.
        unsafe { mi::mi_realloc_aligned(block.cast::<c_void>(), size, layout.align()) }.cast()
    }
}
