//! The samples of components, at the size of the image.

use super::frame::{Component, Frame};
use super::idct;
use crate::parallel::chunks::{for_each_chunk, grain_of};
use corten_core::{Result, bail, ensure, try_vec};

/// Samples in rows.
pub(super) struct Plane {
    pub(super) width: usize,
    pub(super) samples: Vec<u8>,
}

impl Plane {
    /// The samples of a component at the size of the image, which may be wider and higher.
    ///
    /// # Errors
    /// `Runtime` for a component without a quantization table, or of a size that is no part.
    pub(super) fn of(frame: &Frame, component: &Component) -> Result<Self> {
        let most = frame.components.iter().fold([1, 1], |most: [usize; 2], component| {
            [0, 1].map(|i| most[i].max(component.sampling[i]))
        });
        ensure!(
            [0, 1].iter().all(|&i| most[i].is_multiple_of(component.sampling[i])),
            Runtime,
            "Fractional sampling not implemented yet"
        );
        let plane = transformed(component)?;
        let (size, times) = (component.size, [0, 1].map(|i| most[i] / component.sampling[i]));
        match times {
            [1, 1] => Ok(plane),
            [2, 1] if size[0] > 2 => plane.wider(size),
            [2, 2] if size[0] > 2 => plane.larger(size),
            [1, 2] => plane.higher(size),
            times => plane.repeated(size, times),
        }
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.samples[row * self.width..][..self.width]
    }

    fn filled(
        width: usize,
        height: usize,
        fill: impl Fn(usize, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<Self> {
        let mut samples = try_vec(0u8, width * height)?;
        for_each_chunk(&mut samples, width, grain_of(width * 4), fill)?;
        Ok(Self { width, samples })
    }

    /// Every sample several times.
    fn repeated(&self, size: [usize; 2], [across, down]: [usize; 2]) -> Result<Self> {
        Self::filled(size[0] * across, size[1] * down, |row, out| {
            let own = self.row(row / down);
            for (out, &sample) in out.chunks_exact_mut(across).zip(own) {
                out.fill(sample);
            }
            Ok(())
        })
    }

    /// Twice as wide: three quarters of the nearer sample and one of the other.
    fn wider(&self, size: [usize; 2]) -> Result<Self> {
        Self::filled(size[0] * 2, size[1], |row, out| {
            let own = &self.row(row)[..size[0]];
            stretch(
                own.len(),
                out,
                |i| u32::from(own[i]) * 4,
                |near, far| [(near * 3 + far + 4) >> 4, (near * 3 + far + 8) >> 4],
            );
            Ok(())
        })
    }

    /// Twice as high, likewise.
    fn higher(&self, size: [usize; 2]) -> Result<Self> {
        Self::filled(size[0], size[1] * 2, |row, out| {
            let (near, far) = self.nearer(row, size[1]);
            let bias = 1 + (row % 2) as u32;
            for (out, (&near, &far)) in out.iter_mut().zip(near.iter().zip(far)) {
                *out = ((u32::from(near) * 3 + u32::from(far) + bias) >> 2) as u8;
            }
            Ok(())
        })
    }

    /// Twice as wide and high, likewise.
    fn larger(&self, size: [usize; 2]) -> Result<Self> {
        Self::filled(size[0] * 2, size[1] * 2, |row, out| {
            let (near, far) = self.nearer(row, size[1]);
            let column = |i: usize| u32::from(near[i]) * 3 + u32::from(far[i]);
            stretch(size[0], out, column, |near, far| {
                [(near * 3 + far + 8) >> 4, (near * 3 + far + 7) >> 4]
            });
            Ok(())
        })
    }

    /// The row that a row of twice as many lies in, and its neighbour on that side.
    fn nearer(&self, row: usize, height: usize) -> (&[u8], &[u8]) {
        let own = row / 2;
        let other =
            if row.is_multiple_of(2) { own.saturating_sub(1) } else { (own + 1).min(height - 1) };
        (self.row(own), self.row(other))
    }
}

/// A row of twice the length: `mixed(near, far)` gives the samples left and right of a sum. At the
/// ends the sum is its own neighbour.
#[inline(always)]
fn stretch(
    length: usize,
    out: &mut [u8],
    sum: impl Fn(usize) -> u32,
    mixed: impl Fn(u32, u32) -> [u32; 2],
) {
    for (i, out) in out.chunks_exact_mut(2).enumerate().take(length) {
        let near = sum(i);
        let left = if i == 0 { near } else { sum(i - 1) };
        let right = if i + 1 == length { near } else { sum(i + 1) };
        out[0] = mixed(near, left)[0] as u8;
        out[1] = mixed(near, right)[1] as u8;
    }
}

/// The samples of all blocks of a component.
fn transformed(component: &Component) -> Result<Plane> {
    let Some(steps) = &component.steps else {
        bail!(Runtime, "Quantization table was not defined");
    };
    let [across, down] = component.blocks;
    let width = across * 8;
    let mut samples = try_vec(0u8, width * down * 8)?;
    for_each_chunk(&mut samples, width * 8, grain_of(width * 64), |row, out| {
        let blocks = &component.coefficients[row * across * 64..][..across * 64];
        for (column, block) in blocks.chunks_exact(64).enumerate() {
            let Some(block) = block.first_chunk::<64>() else { continue };
            let found = idct::samples(block, steps);
            for (line, found) in out.chunks_exact_mut(width).zip(found.chunks_exact(8)) {
                line[column * 8..][..8].copy_from_slice(found);
            }
        }
        Ok(())
    })?;
    Ok(Plane { width, samples })
}
