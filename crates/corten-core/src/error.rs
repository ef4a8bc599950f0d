//! The one error type, its kinds and the macros that raise it, and warnings.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::panic::Location;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of every fallible function of Corten.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: a kind (the Python exception class), a message and the operator that raised it.
///
/// One pointer wide, so that `Result<TensorBase>` stays in two registers.
///
/// ```
/// use corten_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Index, "index 5 is out of bounds").with_operator("select");
/// assert_eq!(error.message(), "index 5 is out of bounds");
/// assert_eq!(error.operator(), Some("select"));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    operator: Option<Cow<'static, str>>,
    external: Option<Box<dyn Any + Send + Sync>>,
    origin: &'static Location<'static>,
    code: i32,
}

/// What went wrong, in the terms of Python's exception classes.
///
/// ```
/// use corten_core::{ErrorKind, err};
///
/// assert_eq!(err!(Value, "not a number").kind(), ErrorKind::Value);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// `RuntimeError`.
    Runtime,
    /// `IndexError`.
    Index,
    /// `ValueError`.
    Value,
    /// `TypeError`.
    Type,
    /// `NotImplementedError`.
    NotImplemented,
    /// `OutOfMemoryError`, a `RuntimeError`.
    OutOfMemory,
    /// `AcceleratorError`, a `RuntimeError` with the number of the device's error.
    Accelerator,
    /// `BufferError`.
    Buffer,
    /// `LinAlgError`, a `RuntimeError`.
    LinAlg,
    /// `AssertionError`, which PyTorch's operators written in Python raise.
    Assertion,
    /// `_DeviceError`: PyTorch raises `AssertionError`, `RuntimeError` or `NotImplementedError` for a device
    /// that is absent, depending on how it was built; this is all of them.
    NoDevice,
    /// A contradiction inside Corten: a defect, never the caller's fault.
    Internal,
    /// An error of another language that travels through Corten unchanged.
    External,
}

impl Error {
    /// An error of `kind` saying `message`.
    #[cold]
    #[track_caller]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let origin = Location::caller();
        let message = message.into();
        if crate::config::settings().panic_on_error {
            panic!("{kind:?} at {origin}: {message}");
        }
        Self(Box::new(Inner { kind, message, operator: None, external: None, origin, code: 0 }))
    }

    /// Wraps an error of another language, for instance a Python exception raised in a hook.
    #[cold]
    #[track_caller]
    pub fn external(payload: Box<dyn Any + Send + Sync>) -> Self {
        Self(Box::new(Inner {
            kind: ErrorKind::External,
            message: Cow::Borrowed("an error raised by foreign code"),
            operator: None,
            external: Some(payload),
            origin: Location::caller(),
            code: 0,
        }))
    }

    /// An error that a device reports by number.
    #[cold]
    #[track_caller]
    pub fn accelerator(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        let mut made = Self::new(ErrorKind::Accelerator, message);
        made.0.code = code;
        made
    }

    /// The number of the device's error; 0 for other errors.
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// Gives the foreign error back, or `self` if this is not one.
    pub fn into_external(mut self) -> Result<Box<dyn Any + Send + Sync>, Self> {
        self.0.external.take().ok_or(self)
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message, in PyTorch's words where programs match on them.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The operator in which the error arose, if it is known.
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }

    /// The source line that raised the error.
    pub fn origin(&self) -> &'static Location<'static> {
        self.0.origin
    }

    /// Records the operator, unless an inner one is already recorded.
    #[must_use]
    pub fn with_operator(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.0.operator.get_or_insert_with(|| name.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}Error: {}", self.kind(), self.message())?;
        if let Some(operator) = self.operator() {
            write!(f, " (in {operator})")?;
        }
        write!(f, " [{}]", self.origin())
    }
}

impl std::error::Error for Error {}

/// Builds an [`Error`]: `err!(Type, "expected {a} but got {b}")`.
#[macro_export]
macro_rules! err {
    ($kind:ident, $($message:tt)+) => {
        $crate::Error::new($crate::ErrorKind::$kind, ::std::format!($($message)+))
    };
}

/// Returns an error from the current function: `bail!(Value, "…")`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($message:tt)+) => {
        return ::std::result::Result::Err($crate::err!($kind, $($message)+).into())
    };
}

/// Returns an error unless the condition holds: `ensure!(d < n, Index, "…")`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $kind:ident, $($message:tt)+) => {
        if !$condition {
            $crate::bail!($kind, $($message)+);
        }
    };
}

/// Returns an [`ErrorKind::Internal`] error: a contradiction that is a defect of Corten.
#[macro_export]
macro_rules! bug {
    ($($message:tt)+) => {
        $crate::bail!(Internal, $($message)+)
    };
}

/// What is done with a warning.
pub type WarningHandler = fn(&str);

static WARNING_HANDLER: RwLock<WarningHandler> = RwLock::new(warn_to_stderr);

/// Reports something questionable that is not an error.
pub fn warn(message: impl Into<String>) {
    // The handler is copied out first: it may run foreign code that warns again.
    let handler = *WARNING_HANDLER.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    handler(&message.into());
}

static WARN_ALWAYS: AtomicBool = AtomicBool::new(false);

/// As [`warn`], but only once for each `said`, unless [`set_warn_always`] asks for repetition.
pub fn warn_once(said: &AtomicBool, message: impl Into<String>) {
    if is_first_warning(said) {
        warn(message);
    }
}

/// Whether a warning that is given once should be given now.
pub fn is_first_warning(said: &AtomicBool) -> bool {
    !said.swap(true, Ordering::Relaxed) || WARN_ALWAYS.load(Ordering::Relaxed)
}

/// Lets warnings that come once per process come every time.
pub fn set_warn_always(always: bool) {
    WARN_ALWAYS.store(always, Ordering::Relaxed);
}

/// Replaces the warning handler (default: one line on standard error) and returns the old one.
pub fn set_warning_handler(handler: WarningHandler) -> WarningHandler {
    let mut slot = WARNING_HANDLER.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    std::mem::replace(&mut *slot, handler)
}

fn warn_to_stderr(message: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "Warning: {message}");
}
