//! The only reader of environment variables.

use std::sync::OnceLock;

/// Settings of this crate, read once when first asked for.
///
/// ```
/// use corten_core::config;
///
/// assert!(!config::settings().junk_fill);
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// `CORTEN_PANIC_ON_ERROR=1`: stop where an error arises instead of returning it.
    pub panic_on_error: bool,
    /// `CORTEN_CPU_CACHE_MB`: upper bound of the CPU memory kept for reuse, in bytes.
    pub cpu_cache_bytes: Option<usize>,
    /// `CORTEN_ZERO_FILL=1`: new CPU memory is filled with zeros.
    pub zero_fill: bool,
    /// `CORTEN_JUNK_FILL=1`: new CPU memory is filled with a pattern that reads as NaN.
    pub junk_fill: bool,
    /// `CORTEN_SEED`: the seed of default generators, which the operating system's random numbers give otherwise.
    pub seed: Option<u64>,
}

/// The settings of this process.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        panic_on_error: flag("CORTEN_PANIC_ON_ERROR"),
        cpu_cache_bytes: var("CORTEN_CPU_CACHE_MB")
            .and_then(|text| text.trim().parse::<usize>().ok())
            .and_then(|mib| mib.checked_mul(1 << 20)),
        zero_fill: flag("CORTEN_ZERO_FILL"),
        junk_fill: flag("CORTEN_JUNK_FILL"),
        seed: var("CORTEN_SEED").and_then(|text| text.trim().parse().ok()),
    })
}

/// The value of an environment variable, or `None` if it is unset or not Unicode.
///
/// Other crates read their settings through this function, once, into a static of their own.
#[allow(clippy::disallowed_methods)]
pub fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether an environment variable is set to something other than empty, `0` or `false`.
pub fn flag(name: &str) -> bool {
    var(name).is_some_and(|value| !matches!(value.trim(), "" | "0" | "false" | "FALSE" | "False"))
}
