//! A barrier over a store.

use std::time::Duration;

use super::Store;
use crate::error::Result;

/// Comes back when `size` callers have called it with this key; `timeout` is the store's own unless
/// given. A key serves once.
///
/// # Errors
/// `Store` when not all come in time.
pub fn barrier(store: &dyn Store, key: &str, size: i64, timeout: Option<Duration>) -> Result<()> {
    let arrived = store.add(&format!("{key}/arrived"), 1)?;
    let done = format!("{key}/done");
    if arrived == size {
        return store.set(&done, b"1");
    }
    store.wait(&[done], timeout)
}
