//! What a store holds: one table, which HashStore keeps and the server of TCPStore keeps.

use std::collections::{HashMap, VecDeque};

use crate::error::{DistError, Result};

/// Values by key, and queues by name.
#[derive(Debug, Default)]
pub(super) struct Map {
    values: HashMap<String, Vec<u8>>,
    queues: HashMap<String, VecDeque<Vec<u8>>>,
}

impl Map {
    pub(super) fn set(&mut self, key: &str, value: &[u8]) {
        self.values.insert(key.to_owned(), value.to_vec());
    }

    pub(super) fn get(&self, key: &str) -> Option<&Vec<u8>> {
        self.values.get(key)
    }

    pub(super) fn has_all(&self, keys: &[String]) -> bool {
        keys.iter().all(|key| self.values.contains_key(key) || self.queues.contains_key(key))
    }

    /// All values, if all are there.
    pub(super) fn get_all(&self, keys: &[String]) -> Option<Vec<Vec<u8>>> {
        keys.iter().map(|key| self.values.get(key).cloned()).collect()
    }

    pub(super) fn add(&mut self, key: &str, amount: i64) -> Result<i64> {
        let sum = sum(key, self.values.get(key).map(Vec::as_slice), amount)?;
        self.set(key, sum.to_string().as_bytes());
        Ok(sum)
    }

    pub(super) fn compare_set(&mut self, key: &str, expected: &[u8], desired: &[u8]) -> Vec<u8> {
        let (result, changes) =
            compared(self.values.get(key).map(Vec::as_slice), expected, desired);
        if changes {
            self.set(key, desired);
        }
        result
    }

    pub(super) fn delete(&mut self, key: &str) -> bool {
        self.values.remove(key).is_some()
    }

    pub(super) fn append(&mut self, key: &str, value: &[u8]) {
        self.values.entry(key.to_owned()).or_default().extend_from_slice(value);
    }

    pub(super) fn len(&self) -> i64 {
        self.values.len() as i64
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.values.keys().cloned().collect()
    }

    pub(super) fn push(&mut self, key: &str, value: &[u8]) {
        self.queues.entry(key.to_owned()).or_default().push_back(value.to_vec());
    }

    /// Takes the first of a queue; empty queues are forgotten.
    pub(super) fn pop(&mut self, key: &str) -> Option<Vec<u8>> {
        let queue = self.queues.get_mut(key)?;
        let value = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(key);
        }
        value
    }

    pub(super) fn queue_len(&self, key: &str) -> i64 {
        self.queues.get(key).map_or(0, VecDeque::len) as i64
    }
}

/// The sum of the number that a key has and another.
pub(super) fn sum(key: &str, value: Option<&[u8]>, amount: i64) -> Result<i64> {
    let Some(value) = value else { return Ok(amount) };
    let number = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let Some(number) = number else {
        return Err(DistError::value(format!(
            "add: the value of key {key:?} is not a number: {:?}",
            String::from_utf8_lossy(value)
        )));
    };
    number.checked_add(amount).ok_or_else(|| {
        DistError::value(format!("add: {number} + {amount} of key {key:?} is out of range"))
    })
}

/// What `compare_set` gives for a key of that value, and whether it writes.
pub(super) fn compared(value: Option<&[u8]>, expected: &[u8], desired: &[u8]) -> (Vec<u8>, bool) {
    match value {
        Some(value) if value == expected => (desired.to_vec(), true),
        Some(value) => (value.to_vec(), false),
        None if expected.is_empty() => (desired.to_vec(), true),
        None => (expected.to_vec(), false),
    }
}

/// The error of a queue without values.
pub(super) fn queue_is_empty() -> DistError {
    DistError::new(crate::DistErrorKind::QueueEmpty, "queue is empty")
}
