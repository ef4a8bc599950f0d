//! Blocks above 1 MiB: mapped from the system, kept when freed, the oldest given back first.

use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{cpu, local, stats, system};

/// Free blocks by size and age, and the sizes of the live ones.
struct Table {
    /// (size, age) to address: the first size that is large enough fits best.
    free: BTreeMap<(usize, u64), usize>,
    /// Age to size: the first entry has been free longest.
    ages: BTreeMap<u64, usize>,
    live: Option<HashMap<usize, usize>>,
    free_bytes: usize,
    clock: u64,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    free: BTreeMap::new(),
    ages: BTreeMap::new(),
    live: None,
    free_bytes: 0,
    clock: 0,
});

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of the table.
pub(super) fn lock_for_fork(guards: &mut Vec<Box<dyn std::any::Any>>) {
    guards.push(Box::new(table()));
}

/// Sizes are rounded to eighths of a power of two, so that requests that differ a little share
/// blocks. Untouched pages cost nothing.
fn round(nbytes: usize) -> Option<usize> {
    let step = (nbytes.checked_next_power_of_two()? / 16).max(4096);
    nbytes.checked_next_multiple_of(step)
}

impl Table {
    /// The smallest free block that fits without wasting more than a quarter; of several of that
    /// size the one freed last, which is the likeliest to be in a cache still.
    fn take(&mut self, nbytes: usize) -> Option<usize> {
        let &(size, _) = self.free.range((nbytes, 0)..).next()?.0;
        if size > nbytes + nbytes / 4 {
            return None;
        }
        let (&(_, age), &address) = self.free.range((size, 0)..=(size, u64::MAX)).next_back()?;
        self.remove(size, age);
        self.live.get_or_insert_default().insert(address, size);
        Some(address)
    }

    fn remove(&mut self, size: usize, age: u64) -> Option<usize> {
        self.ages.remove(&age);
        self.free_bytes -= size;
        self.free.remove(&(size, age))
    }

    fn keep(&mut self, address: usize, size: usize) {
        self.clock += 1;
        self.free.insert((size, self.clock), address);
        self.ages.insert(self.clock, size);
        self.free_bytes += size;
    }

    /// Takes out the oldest free blocks until at most `limit` bytes are kept.
    fn surplus(&mut self, limit: usize) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        while self.free_bytes > limit
            && let Some((&age, &size)) = self.ages.first_key_value()
        {
            out.extend(self.remove(size, age).map(|address| (address, size)));
        }
        out
    }
}

/// A block of at least `nbytes` bytes and its size, or `None` if the system has none.
#[cold]
pub(super) fn allocate(nbytes: usize) -> Option<NonNull<u8>> {
    let size = round(nbytes)?;
    let kept = table().take(size);
    if let Some(address) = kept {
        let size = size_of_live(address);
        stats::count_shared_allocation(size);
        return NonNull::new(std::ptr::with_exposed_provenance_mut(address));
    }
    let block = system::allocate_large(size).or_else(|| {
        empty();
        local::empty();
        system::allocate_large(size)
    })?;
    table().live.get_or_insert_default().insert(block.as_ptr().expose_provenance(), size);
    stats::count_shared_allocation(size);
    stats::count_segment(size);
    Some(block)
}

/// The size of a block in use.
pub(super) fn size_of_live(address: usize) -> usize {
    table().live.as_ref().and_then(|live| live.get(&address)).copied().unwrap_or(0)
}

/// Takes a block back and returns its size.
///
/// # Safety
/// `block` must come from [`allocate`], each time used once.
#[cold]
pub(super) unsafe fn free(block: NonNull<u8>) {
    let address = block.as_ptr().expose_provenance();
    let surplus = {
        let mut table = table();
        let Some(size) = table.live.as_mut().and_then(|live| live.remove(&address)) else { return };
        stats::count_shared_free(size);
        table.keep(address, size);
        table.surplus(cpu::cache_limit().saturating_sub(local::central_bytes()))
    };
    give_back(surplus);
}

/// Gives all free blocks back to the system.
pub(super) fn empty() {
    let surplus = table().surplus(0);
    give_back(surplus);
}

fn give_back(blocks: Vec<(usize, usize)>) {
    for (address, size) in blocks {
        if let Some(block) = NonNull::new(std::ptr::with_exposed_provenance_mut(address)) {
            // SAFETY: the block came from `allocate_large` with this size and was free.
            unsafe { system::free_large(block, size) };
            stats::uncount_segment(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_freed_last_is_taken_first() {
        let mut table = Table {
            free: BTreeMap::new(),
            ages: BTreeMap::new(),
            live: None,
            free_bytes: 0,
            clock: 0,
        };
        for (address, size) in [(1, 4096), (2, 8192), (3, 4096), (4, 5120)] {
            table.keep(address, size);
        }
        let taken = [4000, 4096, 4096, 4096].map(|nbytes| table.take(nbytes));
        assert_eq!(taken, [Some(3), Some(1), Some(4), None]);
        assert_eq!((table.free_bytes, table.ages.len()), (8192, 1));
        assert_eq!(table.surplus(0), [(2, 8192)]);
    }
}
