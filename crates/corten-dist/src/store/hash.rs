//! A store in the memory of this process.

use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::map::{Map, queue_is_empty};
use super::{DEFAULT_STORE_TIMEOUT, Store, Timeout, check_lengths};
use crate::error::{DistError, Result};
use crate::interrupt::wait_until;

/// A store for the threads of one process.
#[derive(Debug)]
pub struct HashStore {
    shared: Arc<Shared>,
    timeout: Timeout,
}

#[derive(Debug, Default)]
struct Shared {
    map: Mutex<Map>,
    changed: Condvar,
}

impl HashStore {
    /// An empty store.
    pub fn new() -> Self {
        Self { shared: Arc::default(), timeout: Timeout::new(DEFAULT_STORE_TIMEOUT) }
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.shared.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table and wakes who waits.
    fn change<R>(&self, change: impl FnOnce(&mut Map) -> R) -> R {
        let result = change(&mut self.map());
        self.shared.changed.notify_all();
        result
    }

    /// What `ready` finds, as soon as it finds something.
    fn wait_for<R>(
        &self,
        timeout: Duration,
        ready: impl FnMut(&mut Map) -> Option<R>,
    ) -> Result<R> {
        let end = Instant::now().checked_add(timeout);
        let found = wait_until(&self.shared.changed, self.map(), end, ready)?.1;
        found.ok_or_else(|| DistError::store("Wait timeout"))
    }
}

impl Default for HashStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for HashStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|map| map.set(key, value));
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.wait_for(self.timeout(), |map| map.get(key).cloned())
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.change(|map| map.add(key, amount))
    }

    fn check(&self, keys: &[String]) -> Result<bool> {
        Ok(self.map().has_all(keys))
    }

    fn wait(&self, keys: &[String], timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        self.wait_for(timeout, |map| map.has_all(keys).then_some(()))
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        Ok(self.change(|map| map.compare_set(key, expected, desired)))
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        Ok(self.change(|map| map.delete(key)))
    }

    fn num_keys(&self) -> Result<i64> {
        Ok(self.map().len())
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        Ok(self.map().keys())
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|map| map.append(key, value));
        Ok(())
    }

    fn multi_get(&self, keys: &[String]) -> Result<Vec<Vec<u8>>> {
        self.wait_for(self.timeout(), |map| map.get_all(keys))
    }

    fn multi_set(&self, keys: &[String], values: &[Vec<u8>]) -> Result<()> {
        check_lengths(keys, values)?;
        self.change(|map| keys.iter().zip(values).for_each(|(key, value)| map.set(key, value)));
        Ok(())
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(|map| map.push(key, value));
        Ok(())
    }

    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        if !block {
            return self.map().pop(key).ok_or_else(queue_is_empty);
        }
        self.wait_for(self.timeout(), |map| map.pop(key))
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        Ok(self.map().queue_len(key))
    }

    fn timeout(&self) -> Duration {
        self.timeout.get()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let timeout = Timeout::new(self.timeout());
        Ok(Arc::new(Self { shared: self.shared.clone(), timeout }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
