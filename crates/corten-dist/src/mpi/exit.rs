//! Ending MPI when the process exits.

use super::ffi;
use super::queue::{Queue, Reply};

/// Has MPI end when the process exits, before the library is torn down. Called on the thread that
/// started MPI.
pub(super) fn finish_at_exit(queue: &'static Queue) {
    ffi::at_exit(Box::new(move || {
        let done = Reply::new();
        queue.finish(done.clone());
        done.wait_uninterrupted();
    }));
}
