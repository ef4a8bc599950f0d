//! Anomaly mode: where did the operator run whose gradient is wrong?

use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

static ENABLED: AtomicBool = AtomicBool::new(false);
static CHECK_NAN: AtomicBool = AtomicBool::new(true);
static TRACER: RwLock<fn() -> String> = RwLock::new(rust_backtrace);

fn rust_backtrace() -> String {
    Backtrace::force_capture().to_string()
}

/// Turns anomaly detection on or off: errors and NaNs in a backward pass are reported together
/// with the place where the forward operator ran.
pub fn set_detect_anomaly(enabled: bool, check_nan: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
    CHECK_NAN.store(check_nan, Ordering::Relaxed);
}

/// Whether anomaly detection is on.
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Whether anomaly detection, when on, looks for NaNs.
pub fn checks_nan() -> bool {
    CHECK_NAN.load(Ordering::Relaxed)
}

/// Replaces what describes the place of a forward call. A front end in another language gives
/// its own stack.
pub fn set_tracer(tracer: fn() -> String) {
    *TRACER.write().unwrap_or_else(std::sync::PoisonError::into_inner) = tracer;
}

/// The present place, when anomaly detection is on.
pub(crate) fn capture() -> Option<Arc<str>> {
    if !is_enabled() {
        return None;
    }
    let tracer = *TRACER.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    Some(tracer().into())
}
