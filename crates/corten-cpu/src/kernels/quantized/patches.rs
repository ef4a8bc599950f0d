//! The patches of images of bytes, as rows of a product.

use super::weight::Layout;
use crate::parallel::chunks::for_each_chunk;
use corten_core::{Result, ensure, err, try_vec};
use corten_gemm::ByteRows;
use std::ops::Range;

/// Sizes of a convolution in three dimensions.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub(super) samples: usize,
    pub(super) channels: usize,
    pub(super) image: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) dilation: [usize; 3],
    /// Pixels before the first one.
    pub(super) before: [usize; 3],
    /// The distance of two pixels in the image with its border, above 1 for transposed convolutions.
    pub(super) spread: [usize; 3],
}

impl Sizes {
    /// The layout of a weight of so many outputs and channels of a group.
    pub(super) fn layout(
        &self,
        [outputs, channels]: [usize; 2],
        groups: usize,
        mergeable: bool,
    ) -> Layout {
        let (positions, width) = (self.kernel.iter().product(), self.kernel[2]);
        let joined = if self.dilation[2] == 1 { width } else { 1 };
        Layout::of([outputs, channels, positions], groups, [width, joined], mergeable)
    }

    /// The sizes of the image with its border.
    pub(super) fn bordered(&self) -> [usize; 3] {
        let reach = |axis: usize| {
            (self.output[axis] - 1) * self.stride[axis]
                + (self.kernel[axis] - 1) * self.dilation[axis]
                + 1
        };
        [reach(0), reach(1), reach(2)]
    }

    /// Rows of the product.
    pub(super) fn rows(&self) -> usize {
        self.samples * self.output.iter().product::<usize>()
    }

    /// Whether the patches are the pixels of the image in their order.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3]
            && self.stride == [1; 3]
            && self.output == self.image
            && !self.is_bordered()
    }

    /// Whether the image is not read as it is.
    pub(super) fn is_bordered(&self) -> bool {
        let bordered = self.bordered();
        self.before != [0; 3]
            || self.spread != [1; 3]
            || (0..3).any(|axis| bordered[axis] > self.image[axis])
    }

    /// The images, channels last, within a border of zeros.
    ///
    /// # Errors
    /// `Runtime` where there is no memory for them.
    pub(super) fn with_border(&self, images: &[u8], zero: u8) -> Result<Vec<u8>> {
        let [depth, height, width] = self.bordered();
        let row = width * self.channels;
        let bytes = [self.samples, depth, height, row]
            .into_iter()
            .try_fold(1usize, usize::checked_mul)
            .ok_or_else(|| err!(Runtime, "the border of a convolution is too large"))?;
        let mut bordered = try_vec(zero, bytes)?;
        ensure!(row > 0, Runtime, "a convolution of no channels");
        for_each_chunk(&mut bordered, row, (1 << 16) / row + 1, |index, to| {
            let [sample, z, y] = [index / height / depth, index / height % depth, index % height];
            let (Some(z), Some(y)) = (self.pixel(0, z), self.pixel(1, y)) else { return Ok(()) };
            let first = ((sample * self.image[0] + z) * self.image[1] + y) * self.image[2];
            let from = &images[first * self.channels..][..self.image[2] * self.channels];
            self.copy_row(from, to);
            Ok(())
        })?;
        Ok(bordered)
    }

    /// The index in the image of an index in the image with its border.
    fn pixel(&self, axis: usize, at: usize) -> Option<usize> {
        let inside = at.checked_sub(self.before[axis])?;
        let found =
            inside.is_multiple_of(self.spread[axis]).then_some(inside / self.spread[axis])?;
        (found < self.image[axis]).then_some(found)
    }

    /// The pixels at which the rows of a kernel begin, in an image of such sizes.
    pub(super) fn kernel_rows(
        &self,
        [_, height, width]: [usize; 3],
    ) -> impl Iterator<Item = usize> {
        let ([planes, rows, _], [far, near, _]) = (self.kernel, self.dilation);
        (0..planes * rows).map(move |i| ((i / rows) * far * height + (i % rows) * near) * width)
    }

    /// The first pixel of the patch of a row of the product, in images of such sizes.
    pub(super) fn first_pixel(&self, row: usize, whole: [usize; 3]) -> usize {
        let [depth, height, width] = self.output;
        let (x, row) = (row % width, row / width);
        let (y, row) = (row % height, row / height);
        let (z, sample) = (row % depth, row / depth);
        let [z, y, x] = [z * self.stride[0], y * self.stride[1], x * self.stride[2]];
        ((sample * whole[0] + z) * whole[1] + y) * whole[2] + x
    }

    fn copy_row(&self, from: &[u8], to: &mut [u8]) {
        let start = (self.before[2] * self.channels).min(to.len());
        if self.spread[2] == 1 {
            let len = from.len().min(to.len() - start);
            return to[start..start + len].copy_from_slice(&from[..len]);
        }
        let spread = self.spread[2] * self.channels;
        for (to, from) in to[start..].chunks_mut(spread).zip(from.chunks(self.channels)) {
            to[..self.channels].copy_from_slice(from);
        }
    }
}

/// The patches of a group, or of merged groups.
pub(super) struct Patches<'a> {
    pub(super) images: &'a [u8],
    sizes: &'a Sizes,
    /// The sizes of an image.
    whole: [usize; 3],
    /// The first channel.
    channel: usize,
    segment: usize,
    padded_segment: usize,
    /// The distance of each segment from the first one.
    offsets: Vec<usize>,
}

impl<'a> Patches<'a> {
    /// The patches for a product, of images with the border that they need.
    pub(super) fn new(
        images: &'a [u8],
        sizes: &'a Sizes,
        whole: [usize; 3],
        layout: &Layout,
        product: usize,
    ) -> Self {
        let along = (0..sizes.kernel[2]).step_by(layout.joined);
        let offsets = sizes.kernel_rows(whole).flat_map(|row| {
            along.clone().map(move |x| (row + x * sizes.dilation[2]) * sizes.channels)
        });
        let offsets = offsets.collect();
        Self {
            images,
            sizes,
            whole,
            channel: product * layout.channels * layout.merged,
            segment: layout.segment(),
            padded_segment: layout.padded_segment(),
            offsets,
        }
    }

    /// Where the patch of a row begins.
    fn first(&self, row: usize) -> usize {
        self.sizes.first_pixel(row, self.whole) * self.sizes.channels + self.channel
    }
}

impl ByteRows for Patches<'_> {
    fn copy(&self, row: usize, bytes: Range<usize>, to: &mut [u8]) {
        let first = self.first(row);
        let mut at = bytes.start;
        while at < bytes.end {
            let (segment, within) = (at / self.padded_segment, at % self.padded_segment);
            let len = (self.padded_segment - within).min(bytes.end - at);
            let kept = self.segment.saturating_sub(within).min(len);
            let to = &mut to[at - bytes.start..][..len];
            let from = first + self.offsets[segment] + within;
            to[..kept].copy_from_slice(&self.images[from..][..kept]);
            to[kept..].fill(0);
            at += len;
        }
    }

    fn in_place(&self) -> Option<(&[u8], usize)> {
        let channels = self.sizes.channels;
        let whole = self.sizes.is_pointwise()
            && self.channel == 0
            && self.segment == channels
            && channels.is_multiple_of(4);
        whole.then_some((self.images, channels))
    }
}
