//! Convolutions of images whose channels come last, without patches: what a row of the kernel looks
//! at is a piece of a row of the image, and the pieces of neighbouring positions are parts of the rows
//! of a matrix that lies in the image. So there is one product for every row of the output.
//!
//! With large kernels that pays also where channels come first: the rows of the image that are
//! copied, and those of the output that have been computed, are turned.

use super::geometry::Geometry;
use super::products::Product;
use crate::gemm::{Base, Factor, Mat, MatMut, Pieces, for_each_block, gemm_of_factors};
use crate::parallel::chunks::grain_of;
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::MOST_LANES;
use corten_core::Result;

/// Bytes of a kernel that stays in a second-level cache: it is read for every row of the output.
const KERNEL: usize = 256 << 10;

/// The least elements of a piece, between which a product moves on, and the least rows of a product.
const PIECE: usize = 8;
const PIECES: usize = 16;

/// The least columns of a kernel for which images whose channels come first are turned.
const LARGE: usize = 7;

/// The most rows of an output for which rows of the image are copied at a time: neighbours look at
/// the same ones.
const ROWS: usize = 8;

/// Whether the convolution, of one group, of elements of so many bytes is done here.
pub(super) fn fits(geometry: &Geometry, size: usize) -> bool {
    let Geometry { kernel, image, output, padding, features, .. } = *geometry;
    let flat = (kernel[0], image[0], output[0], padding[0]) == (1, 1, 1, 0);
    flat && (geometry.channels_last || kernel[2] >= LARGE)
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
    let Geometry { features, stride, .. } = *geometry;
    let (all, positions) = (geometry.positions(), geometry.output[2]);
    let samples = output.len() / (features * all).max(1);
    let rows = rows_at_once(geometry.output[1]);
    let bordered = Bordered::of(geometry, rows);
    let size = geometry.pixels() * geometry.channels;
    let (shape, part) = ([features, all], rows * positions);
    let strides = if geometry.channels_last { [1, features] } else { [all, 1] };
    let grain = grain_of(part * features * geometry.patch() / 8);
    for_each_block(output, samples, shape, strides, part, grain, |sample, range, block| {
        let image = &images[sample * size..][..size];
        let room = if geometry.channels_last { 0 } else { part * features };
        bordered.with_rows(image, range.start / positions * stride[1], room, |lines, room| {
            if geometry.channels_last {
                return lines.multiply(rows, block.t(), weight, bias);
            }
            let turned = MatMut::row_major(room, part, features)?;
            lines.multiply(rows, turned, weight, bias)?;
            block.copy_of(Mat::row_major(room, part, features)?.t())
        })
    })
}

/// Some rows of an image with its border, one after the other.
struct PaddedRows<'a, T> {
    geometry: &'a Geometry,
    data: &'a [T],
    pitch: usize,
}

impl<T: Product> PaddedRows<'_, T> {
    /// So many rows of the output, which look at these ones.
    fn multiply(
        &self,
        rows: usize,
        mut output: MatMut<'_, T>,
        weight: &[T],
        bias: Option<&[T]>,
    ) -> Result<()> {
        let (geometry, pitch) = (self.geometry, self.pitch);
        let Geometry { channels, features, kernel, stride, dilation, .. } = *geometry;
        let (positions, depth) = (geometry.output[2], geometry.patch());
        for row in 0..rows {
            let from = &self.data[row * stride[1] * pitch..];
            let pieces = [kernel[1], dilation[1] * pitch];
            let a = [positions, stride[2] * channels];
            let a = Pieces::new(from, a, pieces, channels * kernel[2])?;
            let b = Mat::row_major(weight, depth, features)?;
            let base = bias.map_or(Base::Nothing, Base::PerColumn);
            let c = output.row_range(row * positions..(row + 1) * positions);
            gemm_of_factors(c.into(), depth, [Factor::Pieces(a), Factor::Matrix(b)], base)?;
        }
        Ok(())
    }
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

    /// Calls `body` with the rows from `first` on, counted with the border, and room for so many
    /// elements more.
    fn with_rows<T: Product>(
        &self,
        image: &[T],
        first: usize,
        room: usize,
        body: impl FnOnce(PaddedRows<'_, T>, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let Self { geometry, pitch, .. } = *self;
        let Geometry { image: [_, height, width], padding, channels, .. } = *geometry;
        if padding == [0; 3] && geometry.channels_last {
            let lines = PaddedRows { geometry, data: &image[first * pitch..], pitch };
            return with_buffer(room, |room| body(lines, room));
        }
        let (line, border) = (width * channels, padding[2] * channels);
        with_buffer(self.rows * pitch + room, |buffer| {
            let (buffer, room) = buffer.split_at_mut(self.rows * pitch);
            for (to, y) in buffer.chunks_exact_mut(pitch).zip(first..) {
                match y.checked_sub(padding[1]).filter(|&y| y < height) {
                    Some(y) => {
                        to[..border].fill(T::default());
                        self.copy_row(&mut to[border..][..line], image, y)?;
                        to[border + line..].fill(T::default());
                    }
                    None => to.fill(T::default()),
                }
            }
            body(PaddedRows { geometry, data: buffer, pitch }, room)
        })
    }

    /// Copies a row of an image.
    fn copy_row<T: Product>(&self, to: &mut [T], image: &[T], y: usize) -> Result<()> {
        let Geometry { image: [_, height, width], channels, .. } = *self.geometry;
        if self.geometry.channels_last {
            to.copy_from_slice(&image[y * to.len()..][..to.len()]);
            return Ok(());
        }
        let row = Mat::strided(&image[y * width..], [width, channels], [1, height * width])?;
        MatMut::row_major(to, width, channels)?.copy_of(row)
    }
}
