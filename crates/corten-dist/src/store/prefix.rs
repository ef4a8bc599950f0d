//! A part of a store: its keys begin with a prefix.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::Store;
use crate::error::Result;

/// The keys of another store that begin with a prefix and a slash, without these.
pub struct PrefixStore {
    prefix: String,
    store: Arc<dyn Store>,
}

impl PrefixStore {
    /// The part of `store` under `prefix`.
    pub fn new(prefix: impl Into<String>, store: Arc<dyn Store>) -> Self {
        Self { prefix: prefix.into(), store }
    }

    /// The prefix, without the slash.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The store that this is a part of.
    pub fn underlying(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The store below all prefixes.
    pub fn underlying_non_prefix(&self) -> Arc<dyn Store> {
        let mut store = self.store.clone();
        loop {
            let next = store.as_any().downcast_ref::<Self>().map(|part| part.store.clone());
            match next {
                Some(next) => store = next,
                None => return store,
            }
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }

    fn keys(&self, keys: &[String]) -> Vec<String> {
        keys.iter().map(|key| self.key(key)).collect()
    }
}

impl Store for PrefixStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(&self.key(key), value)
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.store.get(&self.key(key))
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.store.add(&self.key(key), amount)
    }

    fn check(&self, keys: &[String]) -> Result<bool> {
        self.store.check(&self.keys(keys))
    }

    fn wait(&self, keys: &[String], timeout: Option<Duration>) -> Result<()> {
        self.store.wait(&self.keys(keys), timeout)
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.store.compare_set(&self.key(key), expected, desired)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        self.store.delete_key(&self.key(key))
    }

    fn num_keys(&self) -> Result<i64> {
        self.store.num_keys()
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        let start = self.key("");
        let keys = self.store.list_keys()?;
        Ok(keys.iter().filter_map(|key| key.strip_prefix(&start).map(str::to_owned)).collect())
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.append(&self.key(key), value)
    }

    fn multi_get(&self, keys: &[String]) -> Result<Vec<Vec<u8>>> {
        self.store.multi_get(&self.keys(keys))
    }

    fn multi_set(&self, keys: &[String], values: &[Vec<u8>]) -> Result<()> {
        self.store.multi_set(&self.keys(keys), values)
    }

    fn has_extended_api(&self) -> bool {
        self.store.has_extended_api()
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.queue_push(&self.key(key), value)
    }

    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        self.store.queue_pop(&self.key(key), block)
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        self.store.queue_len(&self.key(key))
    }

    fn timeout(&self) -> Duration {
        self.store.timeout()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.store.set_timeout(timeout);
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Self { prefix: self.prefix.clone(), store: self.store.duplicate()? }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
