//! Convolutions of images whose channels come last, without patches: what a row of the kernel looks
//! at is a piece of a row of the image, and the pieces of neighbouring positions are parts of the rows
//! of a matrix that lies in the image. So there is one product for every row of the output.

use super::geometry::Geometry;
use super::products::Product;
use crate::chunks::{for_each_chunk, grain_of};
use crate::gemm::{Base, Factor, Mat, MatMut, Pieces, gemm_of_factors};
use crate::row_loops::MOST_LANES;
use crate::scratch::with_buffer;
use corten_core::Result;

/// Bytes of a kernel that stays in a second-level cache: it is read for every row of the output.
const KERNEL: usize = 256 << 10;

/// The least elements of a piece, between which a product moves on, and the least rows of a product.
const PIECE: usize = 8;
const PIECES: usize = 16;

/// The most rows of an output for which rows of the image are copied at a time: neighbours look at
/// the same ones.
const ROWS: usize = 8;

/// Whether the convolution, of one group, of elements of so many bytes is done here.
pub(super) fn fits(geometry: &Geometry, size: usize) -> bool {
    let Geometry { kernel, image, output, padding, features, .. } = *geometry;
    let flat = (kernel[0], image[0], output[0], padding[0]) == (1, 1, 1, 0);
    flat && geometry.channels_last
        && geometry.groups == 1
        && geometry.dilation[2] == 1
        && features.is_multiple_of(MOST_LANES)
        && geometry.channels * kernel[2] >= PIECE
        && output[2] >= PIECES
        && geometry.patch() * features * size <= KERNEL
        && rows_at_once(output[1]) * 2 > ROWS
        && !geometry.is_mostly_border()
}

/// The rows of an output that are done at a time; all parts have as many.
fn rows_at_once(rows: usize) -> usize {
    (1..=ROWS).rev().find(|&part| rows.is_multiple_of(part)).unwrap_or(1)
}

/// `output = weight * images (+ bias)`. The weight has a line per (kernel position, channel), of
/// which features lie side by side.
///
/// # Errors
/// None of its own.
pub(super) fn correlate<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    images: &[T],
    weight: &[T],
    bias: Option<&[T]>,
) -> Result<()> {
    let Geometry { features, kernel, stride, dilation, .. } = *geometry;
    let [positions, run] = [geometry.output[2], geometry.channels * kernel[2]];
    let rows = rows_at_once(geometry.output[1]);
    let (parts, chunk) = (geometry.output[1] / rows, rows * positions * features);
    let bordered = Bordered::of(geometry, rows);
    let size = geometry.pixels() * geometry.channels;
    for_each_chunk(output, chunk, grain_of(chunk * geometry.patch() / 8), |index, output| {
        let (sample, first) = (index / parts, index % parts * rows);
        let image = &images[sample * size..][..size];
        bordered.with_rows(image, first * stride[1], |image, pitch| {
            for (row, output) in output.chunks_exact_mut(positions * features).enumerate() {
                let from = &image[row * stride[1] * pitch..];
                let rows = [positions, stride[2] * geometry.channels];
                let a = Pieces::new(from, rows, [kernel[1], dilation[1] * pitch], run)?;
                let depth = a.shape()[1];
                let b = Mat::row_major(weight, depth, features)?;
                let base = bias.map_or(Base::Nothing, Base::PerColumn);
                let c = MatMut::row_major(output, positions, features)?;
                gemm_of_factors(c.into(), depth, [Factor::Pieces(a), Factor::Matrix(b)], base)?;
            }
            Ok(())
        })
    })
}

/// Some rows of an image with its border.
struct Bordered<'a> {
    geometry: &'a Geometry,
    /// How many rows, and the elements of each.
    rows: usize,
    pitch: usize,
}

impl<'a> Bordered<'a> {
    /// Those that so many rows of the output look at.
    fn of(geometry: &'a Geometry, rows: usize) -> Self {
        let reach = (geometry.kernel[1] - 1) * geometry.dilation[1] + 1;
        Self {
            geometry,
            rows: (rows - 1) * geometry.stride[1] + reach,
            pitch: (geometry.image[2] + 2 * geometry.padding[2]) * geometry.channels,
        }
    }

    /// Calls `body` with the rows from `first` on, counted with the border, and what lies between
    /// them.
    fn with_rows<T: Product>(
        &self,
        image: &[T],
        first: usize,
        body: impl FnOnce(&[T], usize) -> Result<()>,
    ) -> Result<()> {
        let Geometry { image: [_, height, width], padding, channels, .. } = *self.geometry;
        if padding == [0; 3] {
            return body(&image[first * self.pitch..], self.pitch);
        }
        let (line, border) = (width * channels, padding[2] * channels);
        with_buffer(self.rows * self.pitch, |buffer| {
            for (to, y) in buffer.chunks_exact_mut(self.pitch).zip(first..) {
                match y.checked_sub(padding[1]).filter(|&y| y < height) {
                    Some(y) => {
                        to[..border].fill(T::default());
                        to[border..][..line].copy_from_slice(&image[y * line..][..line]);
                        to[border + line..].fill(T::default());
                    }
                    None => to.fill(T::default()),
                }
            }
            body(buffer, self.pitch)
        })
    }
}
