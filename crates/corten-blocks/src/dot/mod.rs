//! Products of rows of blocks with activations in 8 bits, without dequantising the weights.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::{Activations, Format, LengthError};

/// Products of the rows of a matrix of blocks with one row of activations. Lengths were checked.
pub(crate) type Gemv = fn(Format, &[u8], &Activations, &mut [f32]);

impl Format {
    /// The products of the rows of a matrix with a row of activations: `out[i] = rows[i] · x`. Rows follow each other
    /// without gaps. Integers are multiplied exactly; sums of groups are added up in `f32`.
    ///
    /// ```
    /// use corten_blocks::{Activations, Format};
    ///
    /// let weights: Vec<f32> = (0..64).map(|i| i as f32).collect();
    /// let mut rows = vec![0; 2 * Format::Q8_0.block_bytes()];
    /// Format::Q8_0.quantize(&weights, &mut rows)?;
    /// let mut out = [0.0; 2];
    /// Format::Q8_0.gemv(&rows, &Activations::of(&[1.0; 32]), &mut out)?;
    /// assert!((out[0] - 496.0).abs() < 5.0 && (out[1] - 1520.0).abs() < 5.0);
    /// # Ok::<(), corten_blocks::LengthError>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthError`] where the activations are no whole blocks, or the matrix does not have as many rows of them as
    /// results are asked for.
    pub fn gemv(self, rows: &[u8], x: &Activations, out: &mut [f32]) -> Result<(), LengthError> {
        let each = self.row_bytes(x.len());
        if each.and_then(|each| each.checked_mul(out.len())) != Some(rows.len()) {
            return Err(self.length_error(x.len().saturating_mul(out.len()), rows.len()));
        }
        if x.is_empty() {
            out.fill(0.0);
            return Ok(());
        }
        best()(self, rows, x, out);
        Ok(())
    }
}

/// The fastest kernels that the processor has.
fn best() -> Gemv {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::find() {
        return found;
    }
    portable::gemv
}

#[cfg(test)]
mod tests;
