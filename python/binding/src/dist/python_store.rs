//! Stores that are written in Python, for Rust.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use corten_dist::{DistError, Result, Store};

use super::errors::{caught, may_call_python};
use super::values::{bytes, texts};
use crate::py::gil::{Shared, attach};
use crate::py::names::Name;
use crate::py::{Obj, Py, name};

/// A store that is an instance of a class of Python's.
pub(super) struct PythonStore(Shared);

impl PythonStore {
    pub(super) fn new(object: Obj) -> Self {
        Self(Shared::new(object))
    }

    fn call<T>(
        &self,
        name: &Name,
        args: &[&dyn Fn() -> Py<Obj>],
        result: impl FnOnce(&Obj) -> Py<T>,
    ) -> Result<T> {
        if !may_call_python() {
            return Err(DistError::store("the interpreter that has the store is about to end"));
        }
        attach(|| {
            let called = || {
                let args = args.iter().map(|arg| arg()).collect::<Py<Vec<_>>>()?;
                let args: Vec<&Obj> = args.iter().collect();
                result(&self.0.get().call_method(name, &args)?)
            };
            called().map_err(caught)
        })
    }
}

fn list(keys: &[String]) -> Py<Obj> {
    Obj::list(keys.iter().map(|key| Obj::str_from(key)))
}

fn delta(timeout: Duration) -> Py<Obj> {
    let class = crate::py::convert::import(name!("datetime"))?.attr(name!("timedelta"))?;
    let seconds = Obj::float(timeout.as_secs_f64())?;
    class.call_with(&[], &[(name!("seconds"), &seconds)])
}

impl Store for PythonStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let args: [&dyn Fn() -> Py<Obj>; 2] = [&|| Obj::str_from(key), &|| Obj::bytes(value)];
        self.call(name!("set"), &args, |_| Ok(()))
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.call(name!("get"), &[&|| Obj::str_from(key)], bytes)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        let args: [&dyn Fn() -> Py<Obj>; 2] = [&|| Obj::str_from(key), &|| Obj::int(amount)];
        self.call(name!("add"), &args, Obj::to_i64)
    }

    fn check(&self, keys: &[String]) -> Result<bool> {
        self.call(name!("check"), &[&|| list(keys)], Obj::is_true)
    }

    fn wait(&self, keys: &[String], timeout: Option<Duration>) -> Result<()> {
        match timeout {
            None => self.call(name!("wait"), &[&|| list(keys)], |_| Ok(())),
            Some(timeout) => {
                let args: [&dyn Fn() -> Py<Obj>; 2] = [&|| list(keys), &|| delta(timeout)];
                self.call(name!("wait"), &args, |_| Ok(()))
            }
        }
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        let args: [&dyn Fn() -> Py<Obj>; 3] =
            [&|| Obj::str_from(key), &|| Obj::bytes(expected), &|| Obj::bytes(desired)];
        self.call(name!("compare_set"), &args, bytes)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        self.call(name!("delete_key"), &[&|| Obj::str_from(key)], Obj::is_true)
    }

    fn num_keys(&self) -> Result<i64> {
        self.call(name!("num_keys"), &[], Obj::to_i64)
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        self.call(name!("list_keys"), &[], texts)
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        let args: [&dyn Fn() -> Py<Obj>; 2] = [&|| Obj::str_from(key), &|| Obj::bytes(value)];
        self.call(name!("append"), &args, |_| Ok(()))
    }

    fn has_extended_api(&self) -> bool {
        false
    }

    fn timeout(&self) -> Duration {
        let seconds = self.call(name!("_seconds"), &[], Obj::to_f64);
        seconds.map_or(corten_dist::store::DEFAULT_STORE_TIMEOUT, |seconds| {
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        })
    }

    fn set_timeout(&self, timeout: Duration) {
        // Nobody can be told of a class that has no time.
        let _ = self.call(name!("set_timeout"), &[&|| delta(timeout)], |_| Ok(()));
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        self.call(name!("clone"), &[], super::stores::store_from)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
