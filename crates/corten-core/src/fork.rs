//! Forking. The child has only the forking thread; what the other threads held stays held forever
//! unless it is put right here: locks are taken before the fork and given back on both sides, and
//! accesses that other threads had published are withdrawn in the child. A build without threads has
//! nothing to put right.
#![cfg_attr(
    not(all(unix, not(miri), feature = "threads")),
    allow(dead_code, reason = "the handlers are not registered")
)]

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

use crate::{access, allocator, storage};

thread_local! {
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Makes later forks safe. Called by slow paths; does its work once.
pub(crate) fn prepare_for_forks() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        #[cfg(all(unix, not(miri), feature = "threads"))]
        // SAFETY: the handlers are functions without arguments that live as long as the program.
        unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
        }
    });
}

unsafe extern "C" fn before() {
    let mut guards = Vec::new();
    allocator::lock_for_fork(&mut guards);
    access::lock_for_fork(&mut guards);
    storage::lock_for_fork(&mut guards);
    let _ = HELD.try_with(|held| held.replace(guards));
}

unsafe extern "C" fn after_in_parent() {
    let _ = HELD.try_with(|held| held.take());
}

unsafe extern "C" fn after_in_child() {
    let _ = HELD.try_with(|held| held.take());
    access::withdraw_other_threads();
}
