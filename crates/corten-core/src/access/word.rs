//! The access word of a storage: pure logic, model-checked by `tests/loom.rs`.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Bits 0..32: readers. Bits 32..64: the writing thread's number, 0 if there is no writer.
#[derive(Debug)]
pub struct AccessWord(AtomicU64);

const READER: u64 = 1;

const fn writer(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn readers(word: u64) -> u32 {
    word as u32
}

/// Why an access word could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The thread with this number writes.
    Writer(u32),
    /// Somebody reads.
    Readers,
}

impl AccessWord {
    /// Nobody reads or writes.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Enters as a reader, unless somebody writes.
    #[inline]
    pub(crate) fn try_read(&self) -> Result<(), Busy> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if writer(word) != 0 {
                return Err(Busy::Writer(writer(word)));
            }
            let next = word + READER;
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(current) => word = current,
            }
        }
    }

    /// Enters as the writer, unless somebody reads or writes.
    #[inline]
    pub(crate) fn try_write(&self, thread: u32) -> Result<(), Busy> {
        let next = u64::from(thread) << 32;
        let swap = self.0.compare_exchange(0, next, Ordering::Acquire, Ordering::Relaxed);
        match swap {
            Ok(_) => Ok(()),
            Err(word) if readers(word) > 0 => Err(Busy::Readers),
            Err(word) => Err(Busy::Writer(writer(word))),
        }
    }

    /// Leaves as a reader.
    #[inline]
    pub(crate) fn end_read(&self) {
        self.0.fetch_sub(READER, Ordering::Release);
    }

    /// Leaves as the writer. While somebody writes nobody else changes the word, so this needs no
    /// locked instruction.
    #[inline]
    pub(crate) fn end_write(&self) {
        self.0.store(0, Ordering::Release);
    }
}
