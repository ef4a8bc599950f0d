//! A device and an operator from outside the tree, without a change in it.
//!
//! The device, `privateuseone`, has memory of its own: an allocator that counts what it gave out.
//! Its kernels are one elementwise loop of its own, the copies between it and the host, and a
//! fallback that runs every other operator on the host. The operator, `outside::cube`, has a
//! kernel for every device and a derivative.

mod allocator;
mod device;
mod operator;

use corten::Result;
use std::sync::{Mutex, PoisonError};

pub use allocator::{blocks_in_use, bytes_in_use};
pub use device::register_device;
pub use operator::{cube, register_operator};

/// Registers once; after an error the next call tries again.
fn once(done: &Mutex<bool>, register: fn() -> Result<()>) -> Result<()> {
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    if !*done {
        register()?;
        *done = true;
    }
    Ok(())
}
