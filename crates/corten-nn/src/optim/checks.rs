//! Checks of settings, in PyTorch's words.

use corten_core::{Result, ensure};

/// Refuses betas outside [0, 1).
pub(super) fn check_betas(betas: (f64, f64)) -> Result<()> {
    for (index, beta) in [betas.0, betas.1].into_iter().enumerate() {
        let fits = (0.0..1.0).contains(&beta);
        ensure!(fits, Value, "Invalid beta parameter at index {index}: {beta}");
    }
    Ok(())
}

/// Refuses values below 0.
pub(super) fn check_not_negative(what: &str, value: f64) -> Result<()> {
    ensure!(value >= 0.0, Value, "Invalid {what} value: {value}");
    Ok(())
}
