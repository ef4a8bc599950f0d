//! Work that is shared out among threads.

use crate::blas::Run;
use std::sync::{Mutex, PoisonError};

/// AlignedColumns of a matrix that one thread takes at once. The same for every number of threads, so that the
/// digits do not depend on it.
pub(crate) const COLUMNS: usize = 64;

/// Calls `body` with every item, several at once where `run` does.
pub(crate) fn share<I: Send>(
    run: Run,
    items: impl IntoIterator<Item = I>,
    body: impl Fn(I) + Sync,
) {
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    run(items.len(), &|k| {
        let item = items[k].lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(item) = item {
            body(item);
        }
    });
}

/// Runs one part after the other.
pub(crate) fn alone(count: usize, part: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(part);
}
