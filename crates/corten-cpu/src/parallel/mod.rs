//! Ranges that are split over threads by the pool of `pool.rs`; in a build without threads they are not
//! split (`serial.rs`).

#[cfg(any(all(feature = "threads", not(target_family = "wasm")), feature = "linalg"))]
mod alone;
pub(crate) mod chunks;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod pool;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
mod processors;
pub(crate) mod scratch;
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
mod serial;

#[cfg(any(all(feature = "threads", not(target_family = "wasm")), feature = "linalg"))]
pub(crate) use alone::alone;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
pub use pool::{num_threads, run, set_num_threads};
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
pub use serial::{num_threads, run, set_num_threads};

use corten_ops::parallel::Pool;
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Makes the pool of this module the one behind `corten_ops::parallel`.
pub fn install() {
    corten_ops::parallel::install(Pool { run, num_threads, set_num_threads, in_parallel_region });
}

/// Whether the calling thread is already running a part of a range.
pub fn in_parallel_region() -> bool {
    INSIDE.with(Cell::get)
}
