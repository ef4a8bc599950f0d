//! Blocks of the size classes: lists per thread and central lists behind them.

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stats::{self, Counters};
use super::{classes, cpu, system};

/// A free block holds the address of the next one.
type FreeBlock = NonNull<u8>;

/// A stack of free blocks of one class.
struct List {
    head: *mut u8,
    len: u32,
}

// SAFETY: a list owns its blocks.
unsafe impl Send for List {}

impl List {
    const EMPTY: Self = Self { head: ptr::null_mut(), len: 0 };

    #[inline(always)]
    fn pop(&mut self) -> Option<FreeBlock> {
        let block = NonNull::new(self.head)?;
        // SAFETY: a block in a list belongs to the list and starts with the next address.
        self.head = unsafe { block.cast::<*mut u8>().read() };
        self.len -= 1;
        Some(block)
    }

    #[inline(always)]
    fn push(&mut self, block: FreeBlock) {
        // SAFETY: the block is free, aligned to 64 bytes and at least 64 bytes long.
        unsafe { block.cast::<*mut u8>().write(self.head) };
        self.head = block.as_ptr();
        self.len += 1;
    }

    /// Splits off the upper `count` blocks.
    fn split(&mut self, count: u32) -> Self {
        let mut upper = Self::EMPTY;
        while upper.len < count
            && let Some(block) = self.pop()
        {
            upper.push(block);
        }
        upper
    }
}

/// The lists of one thread.
struct Local {
    lists: [List; classes::COUNT],
    counters: Option<&'static Counters>,
}

thread_local! {
    static LOCAL: LocalCell = const { LocalCell(UnsafeCell::new(Local {
        lists: [List::EMPTY; classes::COUNT],
        counters: None,
    })) };
}

struct LocalCell(UnsafeCell<Local>);

impl LocalCell {
    /// Runs `work` on the lists. `work` must not allocate or free tensors' memory.
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut Local) -> R) -> R {
        // SAFETY: the cell belongs to this thread, and `work` never comes back here: it only moves
        // blocks between lists, the central lists and the global allocator.
        work(unsafe { &mut *self.0.get() })
    }
}

impl Drop for LocalCell {
    fn drop(&mut self) {
        let local = self.0.get_mut();
        for (class, list) in local.lists.iter_mut().enumerate() {
            give_to_central(class, std::mem::replace(list, List::EMPTY));
        }
        if let Some(counters) = local.counters.take() {
            stats::delist(counters);
        }
    }
}

/// A block of a class, or `None` if the system has none.
#[inline(always)]
pub(super) fn allocate(class: usize) -> Option<FreeBlock> {
    let fast = LOCAL.try_with(|cell| {
        cell.with(|local| {
            let counters = local.counters?;
            let block = local.lists[class].pop()?;
            counters.count_allocation(classes::size(class));
            Some(block)
        })
    });
    match fast {
        Ok(Some(block)) => Some(block),
        _ => allocate_slow(class),
    }
}

#[cold]
fn allocate_slow(class: usize) -> Option<FreeBlock> {
    let nbytes = classes::size(class);
    let mut taken = take_from_central(class);
    let block = match taken.pop() {
        Some(block) => block,
        None => {
            let block = system::allocate_small(nbytes)?;
            stats::count_segment(nbytes);
            block
        }
    };
    let mut rest = Some(taken);
    let counted = LOCAL.try_with(|cell| {
        cell.with(|local| {
            let counters = *local.counters.get_or_insert_with(stats::enlist);
            counters.count_allocation(nbytes);
            // Whatever came from the central list stays here for the next allocations.
            if let Some(taken) = rest.take() {
                local.lists[class] = taken;
            }
        })
    });
    if counted.is_err() {
        stats::count_shared_allocation(nbytes);
        rest.into_iter().for_each(|taken| give_to_central(class, taken));
    }
    Some(block)
}

/// Takes a block back.
///
/// # Safety
/// `block` must come from [`allocate`] with the same class, each time used once.
#[inline(always)]
pub(super) unsafe fn free(block: FreeBlock, class: usize) {
    let kept = LOCAL.try_with(|cell| {
        cell.with(|local| {
            let list = &mut local.lists[class];
            let Some(counters) = local.counters else { return false };
            counters.count_free(classes::size(class));
            list.push(block);
            list.len <= classes::limit(class)
        })
    });
    match kept {
        Ok(true) => {}
        Ok(false) => free_slow(block, class),
        Err(_) => free_without_thread(block, class),
    }
}

/// Handles a full list, or the first free of a thread.
#[cold]
fn free_slow(block: FreeBlock, class: usize) {
    let surplus = LOCAL.try_with(|cell| {
        cell.with(|local| {
            let list = &mut local.lists[class];
            if local.counters.is_none() {
                let counters = local.counters.insert(stats::enlist());
                counters.count_free(classes::size(class));
                list.push(block);
                return List::EMPTY;
            }
            list.split(list.len / 2)
        })
    });
    match surplus {
        Ok(surplus) => give_to_central(class, surplus),
        Err(_) => free_without_thread(block, class),
    }
}

/// Frees a block when the thread's lists are gone already.
#[cold]
fn free_without_thread(block: FreeBlock, class: usize) {
    stats::count_shared_free(classes::size(class));
    let mut single = List::EMPTY;
    single.push(block);
    give_to_central(class, single);
}

static CENTRAL: [Mutex<List>; classes::COUNT] = [const { Mutex::new(List::EMPTY) }; classes::COUNT];
/// Bytes in the central lists.
static CENTRAL_BYTES: AtomicUsize = AtomicUsize::new(0);

fn central(class: usize) -> MutexGuard<'static, List> {
    CENTRAL[class].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of every central list.
pub(super) fn lock_for_fork(guards: &mut Vec<Box<dyn std::any::Any>>) {
    for class in 0..classes::COUNT {
        guards.push(Box::new(central(class)));
    }
}

/// Bytes in the central lists.
pub(super) fn central_bytes() -> usize {
    CENTRAL_BYTES.load(Ordering::Relaxed)
}

fn take_from_central(class: usize) -> List {
    let taken = central(class).split(classes::limit(class) / 2);
    CENTRAL_BYTES.fetch_sub(taken.len as usize * classes::size(class), Ordering::Relaxed);
    taken
}

fn give_to_central(class: usize, mut surplus: List) {
    if surplus.len == 0 {
        return;
    }
    let nbytes = classes::size(class);
    stats::refresh_peaks();
    {
        let mut list = central(class);
        while CENTRAL_BYTES.load(Ordering::Relaxed) + nbytes <= cpu::cache_limit() / 2
            && let Some(block) = surplus.pop()
        {
            list.push(block);
            CENTRAL_BYTES.fetch_add(nbytes, Ordering::Relaxed);
        }
    }
    give_to_system(class, surplus);
}

fn give_to_system(class: usize, mut list: List) {
    let nbytes = classes::size(class);
    while let Some(block) = list.pop() {
        // SAFETY: blocks of a class come from `allocate_small` with the class's size.
        unsafe { system::free_small(block, nbytes) };
        stats::uncount_segment(nbytes);
    }
}

/// Gives the free blocks of this thread and of the central lists back to the system.
pub(super) fn empty() {
    for class in 0..classes::COUNT {
        let own = LOCAL.try_with(|cell| {
            cell.with(|local| std::mem::replace(&mut local.lists[class], List::EMPTY))
        });
        if let Ok(own) = own {
            give_to_system(class, own);
        }
        let all = std::mem::replace(&mut *central(class), List::EMPTY);
        CENTRAL_BYTES.fetch_sub(all.len as usize * classes::size(class), Ordering::Relaxed);
        give_to_system(class, all);
    }
}
