//! The allocator of host memory. How it works is in `README.md` beside this file.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::{Allocator, classes, large, local, report, stats, system};
use crate::{DataPtr, Device, Error, FreeContext, Result, config, ensure, err};

/// Every block starts at a multiple of this: a cache line and the widest vector.
pub const ALIGNMENT: usize = 64;

/// The default source of host memory: keeps freed blocks for reuse.
///
/// ```
/// use corten_core::allocator::CpuAllocator;
/// use corten_core::Allocator;
///
/// let block = CpuAllocator.allocate(100)?;
/// assert!(block.get().addr().is_multiple_of(64));
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuAllocator;

/// What fresh memory is filled with.
///
/// ```
/// use corten_core::allocator::{Fill, set_fill};
/// use corten_core::{Reader, TensorBase, TensorOptions};
///
/// set_fill(Fill::Zeros);
/// let x = TensorBase::empty(&[2], TensorOptions::default())?;
/// set_fill(Fill::Nothing);
/// assert_eq!(Reader::<f32>::new(&x)?[..], [0.0, 0.0]);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Nothing: the contents are arbitrary.
    #[default]
    Nothing,
    /// Zeros.
    Zeros,
    /// The pattern `0x7fedbeef`, which reads as NaN in `f32`.
    Junk,
}

const ZEROS: u8 = 1;
const JUNK: u8 = 2;
pub(super) const REPORTING: u8 = 4;
#[cfg(all(feature = "numa", target_os = "linux"))]
pub(super) const NUMA: u8 = 8;
/// The environment was not read yet.
const UNREAD: u8 = 128;

/// What is special about allocations; 0 in the common case.
static MODE: AtomicU8 = AtomicU8::new(UNREAD);
static CACHE_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// A large block in the low bits of the context, in place of a class.
const LARGE: usize = 63;
const CLASS_BITS: usize = ALIGNMENT - 1;

// SAFETY: blocks come from the system with the sizes and the alignment asked for, and a block in
// use is in no list.
unsafe impl Allocator for CpuAllocator {
    #[inline]
    fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
        // Every block by itself, so that a sanitizer sees where it ends.
        if cfg!(corten_sanitize) {
            return allocate_exactly(nbytes);
        }
        // Zero wraps around to the largest number.
        if nbytes.wrapping_sub(1) >= classes::LARGEST {
            return allocate_unusual(nbytes);
        }
        let class = classes::of(nbytes);
        let block = match local::allocate(class) {
            Some(block) => block,
            None => retry_small(class, nbytes)?,
        };
        if MODE.load(Ordering::Relaxed) != 0 {
            apply_mode(block, classes::size(class), nbytes);
        }
        Ok(data_ptr(block, class))
    }

    #[inline]
    unsafe fn copy_data(&self, destination: *mut u8, source: *const u8, nbytes: usize) {
        // SAFETY: the caller vouches for both blocks.
        unsafe { ptr::copy_nonoverlapping(source, destination, nbytes) };
    }
}

/// A block of the C library's, as large as asked for.
#[cold]
fn allocate_exactly(nbytes: usize) -> Result<DataPtr> {
    if nbytes == 0 {
        return Ok(DataPtr::null(Device::CPU));
    }
    let block = isize::try_from(nbytes).ok().and_then(|_| system::allocate_exactly(nbytes));
    let block = block.ok_or_else(|| out_of_memory(nbytes))?;
    stats::count_shared_allocation(nbytes);
    if MODE.load(Ordering::Relaxed) != 0 {
        apply_mode(block, nbytes, nbytes);
    }
    Ok(data_ptr(block, LARGE))
}

static FREE: FreeContext = FreeContext::new(free);

#[inline(always)]
fn data_ptr(block: NonNull<u8>, class: usize) -> DataPtr {
    let context = block.as_ptr().map_addr(|address| address | class).cast();
    // SAFETY: `free` takes back exactly what the context names, and any thread may call it.
    unsafe { DataPtr::new(block.as_ptr(), context, &FREE, Device::CPU) }
}

/// # Safety
/// `context` must come from `data_ptr`, each time used once.
unsafe fn free(context: *mut c_void) {
    let class = context.addr() & CLASS_BITS;
    let block = context.map_addr(|address| address & !CLASS_BITS).cast();
    let Some(block) = NonNull::new(block) else { return };
    if cfg!(corten_sanitize) {
        // SAFETY: every block comes from `allocate_exactly` then, and the caller gives it back.
        return unsafe { free_exactly(block) };
    }
    if MODE.load(Ordering::Relaxed) & REPORTING != 0 {
        let nbytes = block_size(block, class);
        report::report(block.as_ptr().addr(), -(nbytes as i64), 0, false);
    }
    // SAFETY: the context names the block and its class.
    unsafe { if class == LARGE { large::free(block) } else { local::free(block, class) } }
}

/// # Safety
/// `block` must come from `allocate_exactly`, each time used once.
#[cold]
unsafe fn free_exactly(block: NonNull<u8>) {
    let nbytes = system::size_of_exact(block);
    if MODE.load(Ordering::Relaxed) & REPORTING != 0 {
        report::report(block.as_ptr().addr(), -(nbytes as i64), 0, false);
    }
    stats::count_shared_free(nbytes);
    // SAFETY: the caller vouches for the block.
    unsafe { system::free_exact(block) };
}

fn block_size(block: NonNull<u8>, class: usize) -> usize {
    if class == LARGE { large::size_of_live(block.as_ptr().addr()) } else { classes::size(class) }
}

/// No bytes, or more than the largest class.
#[cold]
fn allocate_unusual(nbytes: usize) -> Result<DataPtr> {
    if nbytes == 0 {
        return Ok(DataPtr::null(Device::CPU));
    }
    let block = match isize::try_from(nbytes) {
        Ok(_) => large::allocate(nbytes),
        Err(_) => None,
    };
    let block = block.ok_or_else(|| out_of_memory(nbytes))?;
    if MODE.load(Ordering::Relaxed) != 0 {
        apply_mode(block, block_size(block, LARGE), nbytes);
    }
    Ok(data_ptr(block, LARGE))
}

#[cold]
fn retry_small(class: usize, nbytes: usize) -> Result<NonNull<u8>> {
    empty_cache();
    local::allocate(class).ok_or_else(|| out_of_memory(nbytes))
}

#[cold]
fn apply_mode(block: NonNull<u8>, nbytes: usize, requested: usize) {
    if MODE.load(Ordering::Relaxed) & UNREAD != 0 {
        read_settings();
    }
    let mode = MODE.load(Ordering::Relaxed);
    #[cfg(all(feature = "numa", target_os = "linux"))]
    if mode & NUMA != 0 {
        super::numa::move_to_current_node(block.as_ptr(), nbytes);
    }
    // SAFETY: the block is fresh, `nbytes` long, and its size is a multiple of 64.
    unsafe {
        if mode & ZEROS != 0 {
            block.write_bytes(0, nbytes);
        } else if mode & JUNK != 0 {
            for word in 0..nbytes / 4 {
                block.cast::<u32>().add(word).write(0x7FED_BEEF);
            }
        }
    }
    if mode & REPORTING != 0 {
        report::report(block.as_ptr().addr(), nbytes as i64, requested, false);
    }
}

fn read_settings() {
    static READ: OnceLock<()> = OnceLock::new();
    READ.get_or_init(|| {
        let settings = config::settings();
        set_mode(ZEROS, settings.zero_fill);
        set_mode(JUNK, settings.junk_fill && !settings.zero_fill);
        set_mode(UNREAD, false);
    });
}

pub(super) fn set_mode(bit: u8, set: bool) {
    if set {
        MODE.fetch_or(bit, Ordering::Relaxed);
    } else {
        MODE.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Chooses what fresh memory is filled with, to find reads of uninitialised memory.
pub fn set_fill(fill: Fill) {
    read_settings();
    set_mode(ZEROS, fill == Fill::Zeros);
    set_mode(JUNK, fill == Fill::Junk);
}

/// How many bytes of freed memory are kept, except for the lists of each thread.
pub(super) fn cache_limit() -> usize {
    match CACHE_LIMIT.load(Ordering::Relaxed) {
        usize::MAX => {
            let default = (system::physical_memory() / 8).min(4 << 30);
            let limit = config::settings().cpu_cache_bytes.unwrap_or(default);
            CACHE_LIMIT.store(limit, Ordering::Relaxed);
            limit
        }
        limit => limit,
    }
}

/// Sets how many bytes of freed memory are kept for reuse.
pub fn set_cache_limit(nbytes: usize) -> Result<()> {
    ensure!(nbytes < usize::MAX, Value, "the cache limit must be a size in bytes");
    CACHE_LIMIT.store(nbytes, Ordering::Relaxed);
    Ok(())
}

/// Gives the freed memory that is kept for reuse back to the system, except for the lists of other
/// threads.
pub fn empty_cache() {
    local::empty();
    large::empty();
}

#[cold]
#[track_caller]
pub(crate) fn out_of_memory(nbytes: usize) -> Error {
    stats::count_oom();
    if MODE.load(Ordering::Relaxed) & REPORTING != 0 {
        report::report(0, nbytes as i64, nbytes, true);
    }
    err!(
        Runtime,
        "[enforce fail at alloc_cpu] DefaultCPUAllocator: can't allocate memory: you tried to \
         allocate {nbytes} bytes. Error code 12 (Cannot allocate memory)"
    )
}
