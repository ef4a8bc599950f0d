//! Products of rows of blocks with activations in 8 bits, without dequantising the weights.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::{Activations, Format, LengthError};

/// Products of the rows of a matrix of blocks with one row of activations. Lengths were checked.
pub(crate) type Gemv = fn(Format, &[u8], &Activations, &mut [f32]);
/// Products of the rows of a matrix of blocks with several rows of activations. Lengths were checked.
pub(crate) type Gemm = fn(Format, &[u8], usize, &[Activations], &mut [f32], usize);

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
        (best().gemv)(self, rows, x, out);
        Ok(())
    }

    /// The products of the rows of a matrix with rows of activations: `out[i * stride + j] = rows[j] · x[i]` for the
    /// `columns` rows of the matrix, which is unpacked once for all activations.
    ///
    /// ```
    /// use corten_blocks::{Activations, Format};
    ///
    /// let mut rows = vec![0; 3 * Format::Q8_0.block_bytes()];
    /// Format::Q8_0.quantize(&[0.5; 96], &mut rows)?;
    /// let x = vec![Activations::of(&[1.0; 32]), Activations::of(&[2.0; 32])];
    /// let mut out = [0.0; 6];
    /// Format::Q8_0.gemm(&rows, 3, &x, &mut out, 3)?;
    /// assert!((out[0] - 16.0).abs() < 0.1 && (out[5] - 32.0).abs() < 0.2);
    /// # Ok::<(), corten_blocks::LengthError>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthError`] where the activations are no whole blocks or of different lengths, the matrix does not have
    /// `columns` rows of them, or the results do not fit.
    pub fn gemm(
        self,
        rows: &[u8],
        columns: usize,
        x: &[Activations],
        out: &mut [f32],
        stride: usize,
    ) -> Result<(), LengthError> {
        let Some(first) = x.first() else { return Ok(()) };
        let each = self.row_bytes(first.len()).and_then(|each| each.checked_mul(columns));
        let needed = (x.len() - 1).checked_mul(stride).and_then(|start| start.checked_add(columns));
        let are_alike = x.iter().all(|row| row.len() == first.len());
        let fits =
            needed.is_some_and(|needed| needed <= out.len()) && columns <= stride.max(columns);
        if each != Some(rows.len()) || !are_alike || !fits {
            return Err(self.length_error(first.len().saturating_mul(columns), rows.len()));
        }
        if first.is_empty() || columns == 0 {
            for start in (0..x.len()).map(|row| row * stride) {
                out[start..start + columns].fill(0.0);
            }
            return Ok(());
        }
        if x.len() < FEW {
            for (x, out) in x.iter().zip(out.chunks_mut(stride.max(1))) {
                (best().gemv)(self, rows, x, &mut out[..columns]);
            }
            return Ok(());
        }
        (best().gemm)(self, rows, columns, x, out, stride);
        Ok(())
    }
}

/// For fewer rows of activations than this, unpacking the weights does not pay.
const FEW: usize = 10;

/// The kernels of an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    #[cfg_attr(not(test), expect(dead_code, reason = "told by tests"))]
    pub(crate) name: &'static str,
    pub(crate) gemv: Gemv,
    pub(crate) gemm: Gemm,
}

/// The fastest kernels that the processor has.
fn best() -> Kernels {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::find() {
        return found;
    }
    portable::KERNELS
}

#[cfg(test)]
mod tests;
