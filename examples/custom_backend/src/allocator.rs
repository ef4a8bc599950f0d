//! The device's memory: blocks of the host's, counted.

use corten::core::{Allocator, DataPtr, Device, DeviceType, Result};
use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering};

static BYTES: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);

/// Bytes that tensors of the device hold at present.
pub fn bytes_in_use() -> usize {
    BYTES.load(Ordering::SeqCst)
}

/// Blocks that tensors of the device hold at present.
pub fn blocks_in_use() -> usize {
    BLOCKS.load(Ordering::SeqCst)
}

pub(crate) struct CountingAllocator;

pub(crate) const DEVICE: Device = Device { device_type: DeviceType::PrivateUse1, index: 0 };

/// One block; freed with the storage that owns it.
struct Allocation {
    address: usize,
    layout: Layout,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.layout.size(), Ordering::SeqCst);
        BLOCKS.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: `allocate` got the address from the same layout, and the block is dropped once.
        unsafe { std::alloc::dealloc(self.address as *mut u8, self.layout) };
    }
}

// SAFETY: `allocate` returns a block of at least the size asked for, aligned to 64 bytes, that its
// owner in the `DataPtr` keeps alive.
unsafe impl Allocator for CountingAllocator {
    fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
        if nbytes == 0 {
            return Ok(DataPtr::null(DEVICE));
        }
        let layout = match Layout::from_size_align(nbytes, 64) {
            Ok(layout) => layout,
            Err(_) => corten::core::bail!(OutOfMemory, "no block of {nbytes} bytes"),
        };
        // SAFETY: the layout's size is not zero.
        let address = unsafe { std::alloc::alloc(layout) };
        corten::core::ensure!(!address.is_null(), OutOfMemory, "no block of {nbytes} bytes");
        BYTES.fetch_add(nbytes, Ordering::SeqCst);
        BLOCKS.fetch_add(1, Ordering::SeqCst);
        let block = Allocation { address: address as usize, layout };
        Ok(DataPtr::with_owner(address, Box::new(block), DEVICE))
    }

    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        // SAFETY: the caller's: both blocks are valid for that many bytes and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, nbytes) };
    }
}
