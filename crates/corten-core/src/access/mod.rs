//! Access to the contents of storages.
//!
//! A kernel takes what its operands need at once: every storage once, in the strongest mode asked
//! for, in the order of addresses. Several may read or one may write. A conflict with an access
//! that the same thread already holds is an error, since waiting would never end; a conflict with
//! another thread waits.

mod guard;
mod set;
mod word;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use smallvec::SmallVec;

pub use guard::{Reader, Writer};
pub use set::{AccessSet, Holds};
pub use word::AccessWord;

use crate::{IntrusivePtr, Result, StorageImpl, bail};
use word::Busy;

/// What an operand is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The contents are read.
    Read,
    /// The contents are written, and perhaps read.
    Write,
}

thread_local! {
    static THREAD_NUMBER: Cell<u32> = const { Cell::new(0) };
    /// The storages that this thread reads. Asked only when there is contention.
    static READING: RefCell<SmallVec<[usize; 8]>> = const { RefCell::new(SmallVec::new_const()) };
}

/// A number of this thread, unique in the process and never 0.
#[inline]
fn thread_number() -> u32 {
    let number = THREAD_NUMBER.get();
    if number != 0 { number } else { new_thread_number() }
}

#[cold]
fn new_thread_number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    THREAD_NUMBER.set(number);
    number
}

/// One held storage. Must be dropped by the thread that made it.
#[derive(Debug)]
pub(crate) struct Hold {
    storage: IntrusivePtr<StorageImpl>,
    mode: Access,
    thread: PhantomData<*mut ()>,
}

impl Hold {
    pub(crate) fn new(storage: &IntrusivePtr<StorageImpl>, mode: Access) -> Result<Self> {
        let mut attempts = 0;
        while let Err(busy) = try_enter(storage, mode) {
            check_same_thread(storage, mode, busy)?;
            wait(attempts);
            attempts += 1;
        }
        if mode == Access::Read {
            READING.with_borrow_mut(|reading| reading.push(storage.as_ptr().addr()));
        }
        Ok(Self { storage: storage.clone(), mode, thread: PhantomData })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        match self.mode {
            Access::Write => self.storage.access().end_write(),
            Access::Read => {
                let key = self.storage.as_ptr().addr();
                READING.with_borrow_mut(|reading| {
                    if let Some(place) = reading.iter().rposition(|held| *held == key) {
                        reading.swap_remove(place);
                    }
                });
                self.storage.access().end_read();
            }
        }
    }
}

fn try_enter(storage: &StorageImpl, mode: Access) -> std::result::Result<(), Busy> {
    match mode {
        Access::Read => storage.access().try_read(),
        Access::Write => storage.access().try_write(thread_number()),
    }
}

#[cold]
fn check_same_thread(storage: &StorageImpl, mode: Access, busy: Busy) -> Result<()> {
    let key = std::ptr::from_ref(storage).addr();
    let held = match busy {
        Busy::Writer(thread) if thread == thread_number() => "writing",
        Busy::Readers if READING.with_borrow(|reading| reading.contains(&key)) => "reading",
        _ => return Ok(()),
    };
    let wanted = if mode == Access::Read { "read" } else { "write" };
    bail!(
        Runtime,
        "conflicting access to a storage of {} bytes: cannot {wanted} it while this thread is \
         {held} it",
        storage.nbytes()
    )
}

/// Spins for about a microsecond, then yields, then sleeps: the other thread is in a kernel.
#[cold]
fn wait(attempts: u32) {
    match attempts {
        0..64 => std::hint::spin_loop(),
        64..128 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}
