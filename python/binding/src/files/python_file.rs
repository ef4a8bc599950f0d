//! Files of Python as files of Rust, and as sources of pickles.

use crate::py::gil::{Shared, attach};
use crate::py::{Obj, Py, Raised, name};
use corten::io::pickle::Source;
use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

/// At most so many bytes are asked for at once: files make room for them before they look how many there are.
const PIECE: usize = 1 << 24;

/// The exception that a file raised, while an error of Rust stands for it.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Option<Shared>>>);

impl Pending {
    fn keep(&self, raised: Raised) -> io::Error {
        let exception = raised.take().map(Shared::new);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = exception;
        io::Error::other("the file raised an exception")
    }

    /// The exception if there is one, else the error.
    pub(super) fn or(&self, error: corten_core::Error) -> Raised {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(|| error.into(), |exception| Raised::raise(&exception.get()))
    }
}

/// A file that Python opened.
pub(super) struct PythonFile {
    file: Shared,
    pending: Pending,
}

impl PythonFile {
    pub(super) fn new(file: Obj, pending: Pending) -> Self {
        Self { file: Shared::new(file), pending }
    }

    fn told<T>(&self, work: impl FnOnce(&Obj) -> Py<T>) -> io::Result<T> {
        attach(|| work(&self.file.get()).map_err(|raised| self.pending.keep(raised)))
    }
}

impl Read for PythonFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.told(|file| {
            let data = read(file, bytes.len().min(PIECE))?;
            let data = data.as_bytes()?;
            let count = data.len().min(bytes.len());
            bytes[..count].copy_from_slice(&data[..count]);
            Ok(count)
        })
    }
}

impl Seek for PythonFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.told(|file| {
            let (offset, whence) = match to {
                SeekFrom::Start(at) => (i64::try_from(at).unwrap_or(i64::MAX), 0),
                SeekFrom::Current(by) => (by, 1),
                SeekFrom::End(by) => (by, 2),
            };
            file.call_method(name!("seek"), &[&Obj::int(offset)?, &Obj::int(whence)?])?;
            // Some files say nothing when they are moved.
            let at = file.call_method(name!("tell"), &[])?.to_i64()?;
            Ok(u64::try_from(at).unwrap_or(0))
        })
    }
}

fn read(file: &Obj, count: usize) -> Py<Obj> {
    file.call_method(name!("read"), &[&Obj::int(count as i64)?])
}

/// Pickles in a file that Python opened: nothing behind them is read.
pub(super) struct FileSource<'a>(pub(super) &'a Obj);

impl Source<Raised> for FileSource<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Py<usize> {
        let data = self.take(bytes.len())?;
        bytes[..data.len()].copy_from_slice(&data);
        Ok(data.len())
    }

    fn take(&mut self, count: usize) -> Py<Cow<'_, [u8]>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let data = read(self.0, (count - taken.len()).min(PIECE))?;
            let data = data.as_bytes()?;
            if data.is_empty() {
                break;
            }
            taken.extend_from_slice(&data[..data.len().min(count - taken.len())]);
        }
        Ok(Cow::Owned(taken))
    }

    fn line(&mut self) -> Py<Cow<'_, [u8]>> {
        let line = self.0.call_method(name!("readline"), &[])?;
        Ok(Cow::Owned(line.as_bytes()?.to_vec()))
    }
}
