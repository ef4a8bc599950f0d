//! Ranges of a build without threads.

use corten_core::Result;
use std::ops::Range;

/// Calls `body` over the whole range.
///
/// # Errors
/// Those of `body`.
pub fn run(
    range: Range<i64>,
    _grain: i64,
    body: &(dyn Fn(Range<i64>) -> Result<()> + Sync),
) -> Result<()> {
    if range.is_empty() { Ok(()) } else { body(range) }
}

/// One, the calling thread.
pub fn num_threads() -> usize {
    1
}

/// Changes nothing: there is one thread.
pub fn set_num_threads(_threads: usize) {}
