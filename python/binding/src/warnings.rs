//! Warnings of the Rust layers become Python warnings.
//!
//! A warning raised while the interpreter lock is given up waits until it is taken back. A warning
//! filter that turns warnings into errors makes the call fail where it would have returned.

use crate::py::errors::{Py, Raised, warn};
use crate::py::gil;
use corten_core::Error;
use std::cell::{Cell, RefCell};

thread_local! {
    static PENDING: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static RAISED: Cell<bool> = const { Cell::new(false) };
    static HELD: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Whether a warning, or a question of a shape policy, has become an exception since this was last asked.
#[inline(always)]
pub(crate) fn take_raised() -> bool {
    RAISED.get() && {
        restore();
        RAISED.replace(false)
    }
}

#[cold]
fn restore() {
    if let Some(error) = HELD.with(|held| held.borrow_mut().take()) {
        let _raised = Raised::from(error);
    }
}

/// The call fails by another exception.
#[inline(always)]
pub(crate) fn forget_raised() {
    if RAISED.replace(false) {
        HELD.with(|held| *held.borrow_mut() = None);
    }
}

/// Whether the call in progress raises an exception when it ends.
pub(crate) fn is_raised() -> bool {
    RAISED.get()
}

/// Lets the call in progress raise an exception when it ends: code that cannot fail goes on until then.
pub(crate) fn hold(error: Error) {
    HELD.with(|held| *held.borrow_mut() = Some(error));
    RAISED.set(true);
}

/// Installs the handler.
pub(crate) fn init() {
    corten_core::set_warning_handler(handle);
}

fn handle(message: &str) {
    PENDING.with(|pending| pending.borrow_mut().push(message.to_owned()));
    if gil::is_attached() {
        emit_pending();
    }
}

/// Issues what has waited; an exception made of a warning stays set.
pub(crate) fn emit_pending() {
    let waiting = PENDING.with(|pending| std::mem::take(&mut *pending.borrow_mut()));
    for message in waiting {
        let outcome: Py<()> = warn(&message);
        if outcome.is_err() {
            RAISED.set(true);
            return;
        }
    }
}
