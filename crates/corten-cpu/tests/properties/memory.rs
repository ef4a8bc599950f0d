//! Memory whose ends a sanitizer sees.
//!
//! The library's own allocator rounds sizes up and keeps freed blocks, which hides accesses beyond
//! a block or after its end. Here each block is one of the system, as long as asked for.

use corten_core::allocator::{ALIGNMENT, Allocator, set_allocator};
use corten_core::{DataPtr, Device, DeviceType, Result, err};
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Once;

/// Makes tensors of such memory from now on.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| assert!(set_allocator(DeviceType::Cpu, &Exact, u8::MAX)));
}

struct Exact;

struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the block came from `alloc` with this layout and is given back once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: the block belongs to one `DataPtr`; it can be freed by any thread.
unsafe impl Send for Allocation {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Allocation {}

// SAFETY: blocks are as long as asked for, aligned, and live as long as their owner.
unsafe impl Allocator for Exact {
    fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
        if nbytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        let layout = Layout::from_size_align(nbytes, ALIGNMENT).unwrap();
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) });
        let start = start.ok_or_else(|| err!(OutOfMemory, "{nbytes} bytes"))?;
        let owner = Box::new(Allocation { start, layout });
        Ok(DataPtr::with_owner(start.as_ptr(), owner, Device::CPU))
    }

    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        // SAFETY: the caller vouches for both blocks.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, nbytes) };
    }
}
