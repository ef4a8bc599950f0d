//! What the model-checked modules need of the machine. The loom tests compile those modules with
//! loom's types, and full fences for both barriers, in place of these.

use std::sync::atomic::{AtomicBool, compiler_fence, fence};

pub(crate) use std::sync::atomic;

use atomic::Ordering;

/// Set when the operating system cannot interrupt other threads on our behalf.
static SYMMETRIC: AtomicBool = AtomicBool::new(!cfg!(all(target_os = "linux", not(miri))));

// Note [Asymmetric barrier]: the access protocol needs a store followed by a load to stay in order
// in the frequent path (publish an access, then check the bias) against the same in a rare path
// (revoke the bias, then look at the published accesses). A full fence on both sides costs the
// frequent path 6 ns per storage. With membarrier(2) the rare path makes every running thread
// execute a fence instead, a few microseconds, and the frequent path only has to keep the compiler
// from reordering. Where the call is missing, both sides use full fences.

/// Lets other threads go on while this one waits for them.
pub(crate) fn yield_now() {
    #[cfg(all(feature = "threads", not(target_family = "wasm")))]
    std::thread::yield_now();
    #[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
    std::hint::spin_loop();
}

/// Lets other threads go on for longer.
pub(crate) fn sleep() {
    #[cfg(all(feature = "threads", not(target_family = "wasm")))]
    std::thread::sleep(std::time::Duration::from_micros(50));
    #[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
    std::hint::spin_loop();
}

/// The frequent side of the asymmetric barrier.
#[inline(always)]
pub(crate) fn light_barrier() {
    if SYMMETRIC.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
}

/// The rare side of the asymmetric barrier.
#[cold]
pub(crate) fn heavy_barrier() {
    fence(Ordering::SeqCst);
    if !SYMMETRIC.load(Ordering::SeqCst) {
        membarrier(PRIVATE_EXPEDITED);
        fence(Ordering::SeqCst);
    }
}

/// Finds out, before the first light barrier, whether the heavy one works.
#[cold]
pub(crate) fn prepare_barriers() {
    if !SYMMETRIC.load(Ordering::SeqCst) && !membarrier(REGISTER_PRIVATE_EXPEDITED) {
        SYMMETRIC.store(true, Ordering::SeqCst);
    }
}

const PRIVATE_EXPEDITED: std::ffi::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: std::ffi::c_int = 1 << 4;

#[cfg(all(target_os = "linux", not(miri)))]
fn membarrier(command: std::ffi::c_int) -> bool {
    // SAFETY: the call takes three integers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn membarrier(_: std::ffi::c_int) -> bool {
    false
}
