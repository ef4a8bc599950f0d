//! Time and process, where the machine has them: WebAssembly outside of a system has neither.

use std::time::Duration;

/// The time since this function was first called; zero where there is no clock.
pub fn elapsed() -> Duration {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    Duration::ZERO
}

/// The time since the beginning of 1970; zero where there is no clock.
pub fn unix_time() -> Duration {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    Duration::ZERO
}

/// The number of this process; 0 where there are no processes.
pub fn process_id() -> u32 {
    #[cfg(not(target_family = "wasm"))]
    return std::process::id();
    #[cfg(target_family = "wasm")]
    0
}
