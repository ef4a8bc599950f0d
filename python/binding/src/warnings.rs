//! Warnings of the Rust layers become Python warnings.
//!
//! A warning raised while the interpreter lock is given up waits until it is taken back. A warning
//! filter that turns warnings into errors makes the call fail where it would have returned.

use crate::py::errors::{Py, warn};
use crate::py::gil;
use std::cell::{Cell, RefCell};

thread_local! {
    static PENDING: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static RAISED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a warning has become an exception since this was last asked.
#[inline(always)]
pub(crate) fn take_raised() -> bool {
    RAISED.get() && RAISED.replace(false)
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
