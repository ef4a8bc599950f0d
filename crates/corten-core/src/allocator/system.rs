//! Memory from below: the global allocator for blocks of a class, mappings for large ones.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use super::cpu::ALIGNMENT;

/// A huge page.
#[cfg(all(unix, not(miri), feature = "mmap"))]
pub(super) const HUGE_PAGE: usize = 2 << 20;

fn layout(nbytes: usize, alignment: usize) -> Option<Layout> {
    Layout::from_size_align(nbytes, alignment).ok()
}

/// A block of at most a few pages, aligned to 64 bytes.
pub(super) fn allocate_small(nbytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout(nbytes, ALIGNMENT)?) })
}

/// Gives a block back.
///
/// # Safety
/// `block` must come from [`allocate_small`] with the same size, each time used once.
pub(super) unsafe fn free_small(block: NonNull<u8>, nbytes: usize) {
    if let Some(layout) = layout(nbytes, ALIGNMENT) {
        // SAFETY: the caller vouches for block and size.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

/// A block of the C library's, aligned to 64 bytes and no longer than asked for.
#[cfg(target_os = "linux")]
pub(super) fn allocate_exactly(nbytes: usize) -> Option<NonNull<u8>> {
    let mut block = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two and a multiple of a pointer's size.
    let failed = unsafe { libc::posix_memalign(&mut block, ALIGNMENT, nbytes) } != 0;
    NonNull::new(block.cast()).filter(|_| !failed)
}

/// The size of a block of [`allocate_exactly`].
#[cfg(target_os = "linux")]
pub(super) fn size_of_exact(block: NonNull<u8>) -> usize {
    // SAFETY: the block is live and of the C library.
    unsafe { libc::malloc_usable_size(block.as_ptr().cast()) }
}

/// Gives a block back.
///
/// # Safety
/// `block` must come from [`allocate_exactly`], each time used once.
#[cfg(target_os = "linux")]
pub(super) unsafe fn free_exact(block: NonNull<u8>) {
    // SAFETY: the caller vouches for the block.
    unsafe { libc::free(block.as_ptr().cast()) };
}

/// There are no sanitizers elsewhere.
#[cfg(not(target_os = "linux"))]
pub(super) fn allocate_exactly(_: usize) -> Option<NonNull<u8>> {
    None
}

/// The size of a block of [`allocate_exactly`].
#[cfg(not(target_os = "linux"))]
pub(super) fn size_of_exact(_: NonNull<u8>) -> usize {
    0
}

/// Gives a block back.
///
/// # Safety
/// None: there is none.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn free_exact(_: NonNull<u8>) {}

/// A large block, aligned to a huge page; `nbytes` is a multiple of 4096.
#[cfg(all(unix, not(miri), feature = "mmap"))]
pub(super) fn allocate_large(nbytes: usize) -> Option<NonNull<u8>> {
    let padded = nbytes.checked_add(HUGE_PAGE)?;
    // SAFETY: a fresh private mapping at an address of the system's choice.
    let mapping = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            padded,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapping == libc::MAP_FAILED {
        return None;
    }
    let start: *mut u8 = mapping.cast();
    let before = start.align_offset(HUGE_PAGE);
    let after = HUGE_PAGE - before;
    // SAFETY: only the parts of the fresh mapping outside of the aligned block are unmapped, and
    // advice changes nothing that a program can see.
    unsafe {
        if before > 0 {
            libc::munmap(mapping, before);
        }
        let block = start.add(before);
        if after > 0 {
            libc::munmap(block.add(nbytes).cast(), after);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(block.cast(), nbytes, libc::MADV_HUGEPAGE);
        NonNull::new(block)
    }
}

/// Gives a large block back.
///
/// # Safety
/// `block` must come from [`allocate_large`] with the same size, each time used once.
#[cfg(all(unix, not(miri), feature = "mmap"))]
pub(super) unsafe fn free_large(block: NonNull<u8>, nbytes: usize) {
    // SAFETY: the caller vouches for block and size.
    unsafe { libc::munmap(block.as_ptr().cast(), nbytes) };
}

/// A large block from the global allocator, where there are no mappings.
#[cfg(not(all(unix, not(miri), feature = "mmap")))]
pub(super) fn allocate_large(nbytes: usize) -> Option<NonNull<u8>> {
    allocate_small(nbytes)
}

/// Gives a large block back.
///
/// # Safety
/// As for [`free_small`].
#[cfg(not(all(unix, not(miri), feature = "mmap")))]
pub(super) unsafe fn free_large(block: NonNull<u8>, nbytes: usize) {
    // SAFETY: passed on to the caller.
    unsafe { free_small(block, nbytes) };
}

/// The memory of the machine in bytes.
pub(super) fn physical_memory() -> usize {
    #[cfg(all(unix, not(miri)))]
    {
        // SAFETY: `sysconf` only reads.
        let (pages, page) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        if pages > 0 && page > 0 {
            return (pages as usize).saturating_mul(page as usize);
        }
    }
    usize::try_from(8_u64 << 30).unwrap_or(usize::MAX / 2)
}
