//! A store in a file that all ranks can open: a log of changes, each written under a lock.

use std::any::Any;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::map::{compared, sum};
use super::{DEFAULT_STORE_TIMEOUT, Store, Timeout, check_lengths, wait_timeout};
use crate::error::{DistError, Result};
use crate::interrupt;

/// A store in a file.
///
/// A record is the lengths of key and value, eight bytes each in the order of little endian, and both.
/// A value's length of all ones takes the key away. The last handle of the last rank removes the file,
/// if it knows how many ranks there are.
pub struct FileStore {
    path: PathBuf,
    /// How many ranks there are; 0 where nobody says.
    ranks: i64,
    cache: Mutex<Cache>,
    timeout: Timeout,
}

/// What of the file was read.
#[derive(Default)]
struct Cache {
    values: HashMap<String, Vec<u8>>,
    position: u64,
}

const DELETED: u64 = u64::MAX;
/// How many handles are open, and how many ever were.
const USERS: &str = "users";
const OPENED: &str = "opened";
const KEYS: &str = "k/";
const PAUSE: Duration = Duration::from_millis(5);

impl FileStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// `Store` when neither works.
    pub fn new(path: impl AsRef<Path>, ranks: i64) -> Result<Self> {
        let store = Self {
            path: path.as_ref().to_owned(),
            ranks,
            cache: Mutex::default(),
            timeout: Timeout::new(DEFAULT_STORE_TIMEOUT),
        };
        store.count(OPENED, 1)?;
        store.count(USERS, 1)?;
        Ok(store)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, error: &io::Error) -> DistError {
        DistError::store(format!("FileStore {}: {error}", self.path.display()))
    }

    fn open(&self, locked_for_writing: bool) -> Result<File> {
        let open = || -> io::Result<File> {
            let mut options = OpenOptions::new();
            let file =
                options.read(true).write(true).create(true).truncate(false).open(&self.path)?;
            if locked_for_writing {
                file.lock()?
            } else {
                file.lock_shared()?
            }
            Ok(file)
        };
        open().map_err(|error| self.error(&error))
    }

    /// Reads what others have written; gives what `look` sees.
    fn read<R>(&self, look: impl FnOnce(&HashMap<String, Vec<u8>>) -> R) -> Result<R> {
        let mut cache = self.cache();
        let mut file = self.open(false)?;
        cache.catch_up(&mut file).map_err(|error| self.error(&error))?;
        Ok(look(&cache.values))
    }

    /// Writes what `change` makes of the value of a key: another, or nothing to write.
    fn change<R>(
        &self,
        key: &str,
        change: impl FnOnce(Option<&[u8]>) -> Result<(Option<Vec<u8>>, R)>,
    ) -> Result<R> {
        let mut cache = self.cache();
        let mut file = self.open(true)?;
        cache.catch_up(&mut file).map_err(|error| self.error(&error))?;
        let (value, result) = change(cache.values.get(key).map(Vec::as_slice))?;
        if let Some(value) = value {
            let written = cache.write(&mut file, key, Some(&value));
            written.map_err(|error| self.error(&error))?;
        }
        Ok(result)
    }

    /// Adds to a number; gives the sum.
    fn count(&self, key: &str, amount: i64) -> Result<i64> {
        self.change(key, |value| {
            let sum = sum(key, value, amount)?;
            Ok((Some(sum.to_string().into_bytes()), sum))
        })
    }

    /// What `look` finds, as soon as it finds something.
    fn wait_for<R>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(&HashMap<String, Vec<u8>>) -> Option<R>,
    ) -> Result<Option<R>> {
        let end = Instant::now().checked_add(timeout);
        loop {
            if let Some(found) = self.read(&mut look)? {
                return Ok(Some(found));
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
            interrupt::check()?;
            std::thread::sleep(PAUSE);
        }
    }
}

impl Cache {
    /// Reads the records that came since. A file that another has begun again is read from the start.
    fn catch_up(&mut self, file: &mut File) -> io::Result<()> {
        let length = file.metadata()?.len();
        if length < self.position {
            *self = Self::default();
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut rest = bytes.as_slice();
        while let Some((key, value, after)) = record(rest) {
            self.position += (rest.len() - after.len()) as u64;
            rest = after;
            match value {
                Some(value) => self.values.insert(key, value),
                None => self.values.remove(&key),
            };
        }
        Ok(())
    }

    fn write(&mut self, file: &mut File, key: &str, value: Option<&[u8]>) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(16 + key.len() + value.map_or(0, <[u8]>::len));
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(value.map_or(DELETED, |value| value.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(value.unwrap_or_default());
        // A record that somebody was killed in the middle of is written over.
        file.set_len(self.position)?;
        file.seek(SeekFrom::Start(self.position))?;
        file.write_all(&bytes)?;
        self.position += bytes.len() as u64;
        match value {
            Some(value) => self.values.insert(key.to_owned(), value.to_vec()),
            None => self.values.remove(key),
        };
        Ok(())
    }
}

/// A key with its value, or without one where it was taken away; and the bytes after the record.
type Record<'a> = (String, Option<Vec<u8>>, &'a [u8]);

/// The first record, and what comes after it; nothing where it is not whole.
fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let (key_length, rest) = bytes.split_first_chunk::<8>()?;
    let (value_length, rest) = rest.split_first_chunk::<8>()?;
    let key_length = usize::try_from(u64::from_le_bytes(*key_length)).ok()?;
    let value_length = u64::from_le_bytes(*value_length);
    let (key, rest) = rest.split_at_checked(key_length)?;
    let key = String::from_utf8_lossy(key).into_owned();
    if value_length == DELETED {
        return Some((key, None, rest));
    }
    let (value, rest) = rest.split_at_checked(usize::try_from(value_length).ok()?)?;
    Some((key, Some(value.to_vec()), rest))
}

fn own(key: &str) -> String {
    format!("{KEYS}{key}")
}

impl Store for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(&own(key), |_| Ok((Some(value.to_vec()), ())))
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        let (name, timeout) = (own(key), self.timeout());
        let found = self.wait_for(timeout, |values| values.get(&name).cloned())?;
        found.ok_or_else(|| {
            let millis = timeout.as_millis();
            DistError::store(format!("Timeout waiting for key: {key} after {millis} ms"))
        })
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.count(&own(key), amount)
    }

    fn check(&self, keys: &[String]) -> Result<bool> {
        self.read(|values| keys.iter().all(|key| values.contains_key(&own(key))))
    }

    fn wait(&self, keys: &[String], timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        let found = self.wait_for(timeout, |values| {
            keys.iter().all(|key| values.contains_key(&own(key))).then_some(())
        })?;
        found.ok_or_else(|| wait_timeout(keys, timeout))
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.change(&own(key), |value| {
            let (result, changes) = compared(value, expected, desired);
            Ok((changes.then(|| desired.to_vec()), result))
        })
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        let name = own(key);
        let mut cache = self.cache();
        let mut file = self.open(true)?;
        let mut delete = |cache: &mut Cache| -> io::Result<bool> {
            cache.catch_up(&mut file)?;
            let found = cache.values.contains_key(&name);
            if found {
                cache.write(&mut file, &name, None)?;
            }
            Ok(found)
        };
        delete(&mut cache).map_err(|error| self.error(&error))
    }

    fn num_keys(&self) -> Result<i64> {
        // PyTorch counts the key that counts the handles.
        self.read(|values| 1 + values.keys().filter(|key| key.starts_with(KEYS)).count() as i64)
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        self.read(|values| {
            values.keys().filter_map(|key| key.strip_prefix(KEYS).map(str::to_owned)).collect()
        })
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change(&own(key), |old| Ok((Some([old.unwrap_or_default(), value].concat()), ())))
    }

    fn multi_set(&self, keys: &[String], values: &[Vec<u8>]) -> Result<()> {
        check_lengths(keys, values)?;
        keys.iter().zip(values).try_for_each(|(key, value)| self.set(key, value))
    }

    fn has_extended_api(&self) -> bool {
        false
    }

    fn timeout(&self) -> Duration {
        self.timeout.get()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let store = Self::new(&self.path, self.ranks)?;
        store.set_timeout(self.timeout());
        Ok(Arc::new(store))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        let left = self.count(USERS, -1);
        // Who does not know how many ranks there are must not take the file from under one to come.
        if self.ranks <= 0 || !matches!(left, Ok(left) if left <= 0) {
            return;
        }
        let opened = self.count(OPENED, 0);
        if matches!(opened, Ok(opened) if opened >= self.ranks) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
