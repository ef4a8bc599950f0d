//! The allocator of host memory.

use std::ffi::c_void;
use std::ptr;

use super::Allocator;
use crate::{DataPtr, Deleter, Device, Error, Result, err};

/// Every block starts at a multiple of this: a cache line and the widest vector.
pub const ALIGNMENT: usize = 64;

/// The default source of host memory.
#[derive(Debug)]
pub struct CpuAllocator;

// SAFETY: `posix_memalign` returns fresh aligned memory of the size asked for.
unsafe impl Allocator for CpuAllocator {
    fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
        if nbytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        let mut block = ptr::null_mut();
        // SAFETY: `block` is a valid place for the result, and the alignment is a power of two.
        let code = unsafe { libc::posix_memalign(&mut block, ALIGNMENT, nbytes) };
        if code != 0 {
            return Err(out_of_memory(nbytes));
        }
        // SAFETY: `free` frees what `posix_memalign` returned.
        Ok(unsafe { DataPtr::new(block.cast(), block, free, Device::CPU) })
    }

    fn raw_deleter(&self) -> Option<Deleter> {
        Some(free)
    }

    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        // SAFETY: the caller vouches for both blocks.
        unsafe { ptr::copy_nonoverlapping(source, destination, nbytes) };
    }
}

unsafe fn free(block: *mut c_void) {
    // SAFETY: only `CpuAllocator` hands this deleter out, with blocks of `posix_memalign`.
    unsafe { libc::free(block) };
}

fn out_of_memory(nbytes: usize) -> Error {
    err!(
        Runtime,
        "[enforce fail at alloc_cpu] DefaultCPUAllocator: can't allocate memory: you tried to \
         allocate {nbytes} bytes. Error code 12 (Cannot allocate memory)"
    )
}
