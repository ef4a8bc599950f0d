//! What the system knows of the process: what runs when it exits, and its host.

use std::sync::OnceLock;

/// What is to run, and where.
struct AtExit {
    run: Box<dyn Fn() + Send + Sync>,
    process: u32,
    /// The thread that registered it, for which it would wait.
    thread: libc::pthread_t,
}

static AT_EXIT: OnceLock<AtExit> = OnceLock::new();

/// Runs `run` when the process exits, unless that is a fork of this one or exits on this thread. Only the
/// first call counts.
pub(in crate::mpi) fn at_exit(run: Box<dyn Fn() + Send + Sync>) {
    // SAFETY: the function has no preconditions.
    let thread = unsafe { libc::pthread_self() };
    if AT_EXIT.set(AtExit { run, process: std::process::id(), thread }).is_ok() {
        // SAFETY: the function does not unwind, and is there as long as the process. Where there is no room for
        // it, MPI is not ended.
        let _ = unsafe { libc::atexit(call) };
    }
}

extern "C" fn call() {
    let Some(at_exit) = AT_EXIT.get() else { return };
    // SAFETY: as above.
    let is_same_thread = unsafe { libc::pthread_self() } == at_exit.thread;
    if std::process::id() == at_exit.process && !is_same_thread {
        (at_exit.run)();
    }
}

/// The name of this host.
pub(in crate::mpi) fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has so many bytes, of which the last one stays zero.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    if code == 0 { String::from_utf8_lossy(&name[..len]).into_owned() } else { "localhost".into() }
}
