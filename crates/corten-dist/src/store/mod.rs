//! Stores: keys and values that all ranks see, through which they find each other.

mod barrier;
mod file;
mod hash;
mod map;
mod prefix;
mod tcp;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use barrier::barrier;
pub use file::FileStore;
pub use hash::HashStore;
pub use prefix::PrefixStore;
pub use tcp::{TcpStore, TcpStoreOptions};

use crate::error::{DistError, Result};

/// The time that stores wait for a key unless told otherwise.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(300);

/// Keys and values that several ranks share. Everything may be called from any thread.
///
/// ```
/// use corten_dist::{HashStore, Store};
///
/// let store = HashStore::new();
/// store.set("key", b"value")?;
/// assert_eq!(store.get("key")?, b"value");
/// assert_eq!(store.add("count", 2)?, 2);
/// # Ok::<(), corten_dist::DistError>(())
/// ```
///
/// Errors are `Store` when a key does not come in time, `Network` when a server cannot be reached.
pub trait Store: Send + Sync {
    /// Gives a key a value.
    ///
    /// # Errors
    /// See the trait.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// The value of a key, as soon as there is one.
    ///
    /// # Errors
    /// `Store` when there is none in time.
    fn get(&self, key: &str) -> Result<Vec<u8>>;

    /// Adds to the number that a key has in decimal digits, 0 if it has none, and gives the sum.
    ///
    /// # Errors
    /// `Value` when the key's value is no number.
    fn add(&self, key: &str, amount: i64) -> Result<i64>;

    /// Whether all keys have values.
    ///
    /// # Errors
    /// See the trait.
    fn check(&self, keys: &[String]) -> Result<bool>;

    /// Waits until all keys have values, for `timeout` or the store's own.
    ///
    /// # Errors
    /// `Store` when one has none in time.
    fn wait(&self, keys: &[String], timeout: Option<Duration>) -> Result<()>;

    /// Gives a key the value `desired` if it has `expected`, or if it has none and `expected` is empty;
    /// gives what it has afterwards, and `expected` if that is nothing.
    ///
    /// # Errors
    /// See the trait.
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>>;

    /// Takes a key away; whether there was one.
    ///
    /// # Errors
    /// See the trait.
    fn delete_key(&self, key: &str) -> Result<bool>;

    /// How many keys there are.
    ///
    /// # Errors
    /// See the trait.
    fn num_keys(&self) -> Result<i64>;

    /// All keys.
    ///
    /// # Errors
    /// See the trait.
    fn list_keys(&self) -> Result<Vec<String>>;

    /// Puts something behind the value of a key.
    ///
    /// # Errors
    /// See the trait.
    fn append(&self, key: &str, value: &[u8]) -> Result<()>;

    /// The values of several keys, as soon as all have one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn multi_get(&self, keys: &[String]) -> Result<Vec<Vec<u8>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Gives several keys values.
    ///
    /// # Errors
    /// `Value` when there are not as many values as keys.
    fn multi_set(&self, keys: &[String], values: &[Vec<u8>]) -> Result<()> {
        check_lengths(keys, values)?;
        keys.iter().zip(values).try_for_each(|(key, value)| self.set(key, value))
    }

    /// Whether `append`, `multi_get` and `multi_set` are one step each.
    fn has_extended_api(&self) -> bool {
        true
    }

    /// Puts a value at the end of a queue. Queues have names of their own beside the keys.
    ///
    /// # Errors
    /// `NotImplemented` for stores without queues.
    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        let _ = (key, value);
        Err(no_queues())
    }

    /// Takes the first value of a queue; with `block`, as soon as there is one.
    ///
    /// # Errors
    /// `QueueEmpty` without `block`, `Store` when none comes in time.
    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        let _ = (key, block);
        Err(no_queues())
    }

    /// How many values a queue has.
    ///
    /// # Errors
    /// As [`queue_push`](Self::queue_push).
    fn queue_len(&self, key: &str) -> Result<i64> {
        let _ = key;
        Err(no_queues())
    }

    /// How long the store waits.
    fn timeout(&self) -> Duration;

    /// Sets how long the store waits.
    fn set_timeout(&self, timeout: Duration);

    /// Another handle to the same keys: with a connection of its own, so that it does not wait for
    /// what this one waits for.
    ///
    /// # Errors
    /// `Network` when the server cannot be reached.
    fn duplicate(&self) -> Result<std::sync::Arc<dyn Store>>;

    /// The store as what it is.
    fn as_any(&self) -> &dyn std::any::Any;
}

fn no_queues() -> DistError {
    let kind = crate::DistErrorKind::Core(corten_core::ErrorKind::NotImplemented);
    DistError::new(kind, "queue support is not implemented.")
}

fn check_lengths(keys: &[String], values: &[Vec<u8>]) -> Result<()> {
    if keys.len() == values.len() {
        return Ok(());
    }
    Err(DistError::value(format!(
        "multi_set expects as many values as keys, got {} keys and {} values",
        keys.len(),
        values.len()
    )))
}

/// The error of a wait that was too long.
fn wait_timeout(keys: &[String], timeout: Duration) -> DistError {
    let keys: Vec<String> = keys.iter().map(|key| format!("/{key}")).collect();
    let message =
        format!("wait timeout after {}ms, keys: {}", timeout.as_millis(), keys.join(", "));
    DistError::store(message)
}

/// A time that threads set and read.
#[derive(Debug)]
struct Timeout(AtomicU64);

impl Timeout {
    fn new(timeout: Duration) -> Self {
        let timeout_cell = Self(AtomicU64::new(0));
        timeout_cell.set(timeout);
        timeout_cell
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }
}
