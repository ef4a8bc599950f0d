//! Errors of collectives and stores, which many threads may look at.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use corten_core::{Error, ErrorKind};

/// The result of what may fail between processes.
pub type Result<T> = std::result::Result<T, DistError>;

/// Which class of exceptions an error is in Python.
///
/// ```
/// use corten_dist::{DistError, DistErrorKind};
///
/// assert_eq!(DistError::network("the peer is gone").kind(), DistErrorKind::Network);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DistErrorKind {
    /// `torch.distributed.DistError`, a `RuntimeError`.
    Dist,
    /// `torch.distributed.DistBackendError`: a collective failed, or a rank did not come.
    Backend,
    /// `torch.distributed.DistNetworkError`: a connection could not be made, or broke.
    Network,
    /// `torch.distributed.DistStoreError`: a store failed, or a key did not come in time.
    Store,
    /// `torch.distributed.QueueEmptyError`: a queue of a store has nothing.
    QueueEmpty,
    /// An exception of the interpreter or of tensors: wrong arguments, mostly.
    Core(ErrorKind),
    /// An error of another language, unchanged.
    Foreign,
}

/// An error that can be given to everybody who waits for the same work: clones share it.
#[derive(Clone)]
pub struct DistError(Arc<Inner>);

struct Inner {
    kind: DistErrorKind,
    message: String,
    payload: Option<Box<dyn Any + Send + Sync>>,
}

impl DistError {
    /// An error of `kind` saying `message`.
    pub fn new(kind: DistErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), payload: None }))
    }

    /// Wraps an error of another language; `message` is for those who do not know it.
    pub fn foreign(payload: Box<dyn Any + Send + Sync>, message: impl Into<String>) -> Self {
        let (kind, message) = (DistErrorKind::Foreign, message.into());
        Self(Arc::new(Inner { kind, message, payload: Some(payload) }))
    }

    /// A collective failed.
    pub fn backend(message: impl Into<String>) -> Self {
        Self::new(DistErrorKind::Backend, message)
    }

    /// A connection failed.
    pub fn network(message: impl Into<String>) -> Self {
        Self::new(DistErrorKind::Network, message)
    }

    /// A store failed.
    pub fn store(message: impl Into<String>) -> Self {
        Self::new(DistErrorKind::Store, message)
    }

    /// A wrong value: `ValueError`.
    pub fn value(message: impl Into<String>) -> Self {
        Self::new(DistErrorKind::Core(ErrorKind::Value), message)
    }

    /// Anything else: `RuntimeError`.
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(DistErrorKind::Core(ErrorKind::Runtime), message)
    }

    /// Which class of exceptions this is.
    pub fn kind(&self) -> DistErrorKind {
        self.0.kind
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error of another language, if this wraps one.
    pub fn payload(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.0.payload.as_deref()
    }

    /// The same error with more in its message. A foreign one stays what it is.
    #[must_use]
    pub fn with_note(&self, note: &str) -> Self {
        if self.0.payload.is_some() || note.is_empty() {
            return self.clone();
        }
        Self::new(self.0.kind, format!("{} {note}", self.0.message))
    }
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for DistError {}

impl From<Error> for DistError {
    fn from(error: Error) -> Self {
        let (kind, message) = (error.kind(), error.message().to_owned());
        match error.into_external() {
            Ok(payload) => Self::foreign(payload, message),
            Err(_) => Self::new(DistErrorKind::Core(kind), message),
        }
    }
}

impl From<DistError> for Error {
    /// Errors of this crate travel through tensors' code as external ones, which keep their class.
    fn from(error: DistError) -> Self {
        match error.kind() {
            DistErrorKind::Core(kind) => Self::new(kind, error.message().to_owned()),
            _ => Self::external(Box::new(error)),
        }
    }
}
