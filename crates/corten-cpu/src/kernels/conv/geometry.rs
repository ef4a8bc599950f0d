//! Which input elements a convolution multiplies: unfolding images into matrices of patches, and
//! its adjoint.

use corten_core::Element;
use std::ops::{AddAssign, Range};

/// Sizes of a convolution in up to three dimensions, per group and sample.
///
/// A matrix of patches has a row per (channel of the group, kernel position) and a column per
/// output position. Where channels come last in memory, its rows are ordered (kernel position,
/// channel) and it is stored by columns, so that a patch is copied in runs of channels. It is also
/// stored by columns where the kernel is wider than the output: the runs are rows of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) groups: usize,
    /// Channels of the image, in all groups.
    pub(crate) channels: usize,
    /// Output channels, in all groups.
    pub(crate) features: usize,
    /// Spatial sizes: of the image, of the kernel, of the output.
    pub(crate) image: [usize; 3],
    pub(crate) kernel: [usize; 3],
    pub(crate) output: [usize; 3],
    pub(crate) stride: [usize; 3],
    pub(crate) padding: [usize; 3],
    pub(crate) dilation: [usize; 3],
    pub(crate) channels_last: bool,
    /// Whether patches are copied in rows of the kernel, where channels do not come last.
    pub(crate) kernel_rows: bool,
}

impl Geometry {
    pub(crate) fn group_channels(&self) -> usize {
        self.channels / self.groups
    }

    pub(crate) fn group_features(&self) -> usize {
        self.features / self.groups
    }

    /// Pixels of the image.
    pub(crate) fn pixels(&self) -> usize {
        self.image.into_iter().fold(1, usize::saturating_mul)
    }

    /// Output positions.
    pub(crate) fn positions(&self) -> usize {
        self.output.into_iter().fold(1, usize::saturating_mul)
    }

    pub(crate) fn kernel_size(&self) -> usize {
        self.kernel.into_iter().fold(1, usize::saturating_mul)
    }

    /// Rows of a matrix of patches.
    pub(crate) fn patch(&self) -> usize {
        self.group_channels() * self.kernel_size()
    }

    /// Strides of an output sample as a matrix (features, positions).
    pub(crate) fn output_strides(&self) -> [usize; 2] {
        if self.channels_last { [1, self.features] } else { [self.positions(), 1] }
    }

    /// Strides of a matrix of patches for `width` positions.
    pub(crate) fn patch_strides(&self, width: usize) -> [usize; 2] {
        let by_columns = self.channels_last || self.kernel_rows;
        if by_columns { [1, self.patch()] } else { [width, 1] }
    }

    /// Whether the patches of a group are the image itself. With an output padding there are more
    /// positions than pixels, or fewer.
    pub(crate) fn is_pointwise(&self) -> bool {
        let Self { kernel, stride, padding, image, output, .. } = *self;
        kernel == [1; 3] && stride == [1; 3] && padding == [0; 3] && image == output
    }

    /// Whether patches are unfolded before a product, rather than made as it asks for them, where
    /// channels do not come last.
    pub(crate) fn is_unfolded(&self) -> bool {
        self.kernel_rows || self.is_mostly_border()
    }

    /// Whether an image with its border is far larger than without it, so that no copy of it should
    /// be made.
    pub(super) fn is_mostly_border(&self) -> bool {
        let axes = self.image.iter().zip(self.padding);
        let bordered = axes.fold(1usize, |size, (&image, padding)| {
            size.saturating_mul(padding.saturating_mul(2).saturating_add(image))
        });
        bordered > self.pixels().saturating_mul(8).saturating_add(1 << 16)
    }

    /// The convolution that leads from gradients of the output to those of the image, if there is
    /// one: with a stride of one it is a convolution with the kernel turned around.
    pub(crate) fn adjoint(&self) -> Option<Self> {
        if self.stride != [1; 3] || (!self.channels_last && self.is_unfolded()) {
            return None;
        }
        let mut padding = [0; 3];
        for (axis, padding) in padding.iter_mut().enumerate() {
            let reach = (self.kernel[axis] - 1) * self.dilation[axis];
            *padding = reach.checked_sub(self.padding[axis])?;
        }
        let (channels, features) = (self.features, self.channels);
        let (image, output) = (self.output, self.image);
        Some(Self { channels, features, image, output, padding, ..self.clone() })
    }

    /// A kernel as large as the images makes one position of every image: the images are then the
    /// pixels of a pointwise convolution, and one product of matrices serves them all.
    pub(crate) fn with_whole_images(self, samples: usize) -> Self {
        let whole = self.groups == 1
            && self.output == [1; 3]
            && self.kernel == self.image
            && self.padding == [0; 3];
        if !whole {
            return self;
        }
        Self {
            channels: self.patch(),
            image: [1, 1, samples],
            kernel: [1; 3],
            output: [1, 1, samples],
            stride: [1; 3],
            dilation: [1; 3],
            channels_last: true,
            kernel_rows: false,
            ..self
        }
    }

    /// Writes the patches of some output positions of one sample and group, where channels do not come
    /// last.
    pub(crate) fn unfold<T: Element + Default>(
        &self,
        image: &[T],
        group: usize,
        positions: Range<usize>,
        patches: &mut [T],
    ) {
        self.each_row(group, positions, |row| {
            let target = &mut patches[row.patch..][..row.len];
            target[..row.skip].fill(T::default());
            target[row.skip + row.count..].fill(T::default());
            let target = &mut target[row.skip..][..row.count];
            if row.step == 1 {
                target.copy_from_slice(&image[row.image..][..row.count]);
            } else if row.count > 0 {
                let source = image[row.image..].iter().step_by(row.step);
                target.iter_mut().zip(source).for_each(|(target, &value)| *target = value);
            }
        });
    }

    /// Adds patches to the image that they were taken from.
    pub(crate) fn fold_add<T: Element + AddAssign>(
        &self,
        patches: &[T],
        group: usize,
        positions: Range<usize>,
        image: &mut [T],
    ) {
        if self.channels_last {
            self.each_run(group, positions, |patch, from| {
                if let Some(from) = from {
                    let target = &mut image[from..][..patch.len()];
                    target.iter_mut().zip(&patches[patch]).for_each(|(sum, &value)| *sum += value);
                }
            });
            return;
        }
        self.each_row(group, positions, |row| {
            let source = &patches[row.patch + row.skip..][..row.count];
            if row.count > 0 {
                let target = image[row.image..].iter_mut().step_by(row.step);
                target.zip(source).for_each(|(sum, &value)| *sum += value);
            }
        });
    }

    /// Calls `f(range in the patches, place in the image)` for every run of channels.
    fn each_run(
        &self,
        group: usize,
        positions: Range<usize>,
        mut f: impl FnMut(Range<usize>, Option<usize>),
    ) {
        let run = self.group_channels();
        let [_, height, width] = self.output;
        let mut patch = 0;
        for position in positions {
            let place = [position / (height * width), position / width % height, position % width];
            for z in 0..self.kernel[0] {
                let z = self.source(0, place[0], z);
                for y in 0..self.kernel[1] {
                    let row =
                        z.zip(self.source(1, place[1], y)).map(|(z, y)| z * self.image[1] + y);
                    for x in 0..self.kernel[2] {
                        let pixel = row.zip(self.source(2, place[2], x));
                        let pixel = pixel.map(|(row, x)| row * self.image[2] + x);
                        let from = pixel.map(|pixel| pixel * self.channels + group * run);
                        f(patch..patch + run, from);
                        patch += run;
                    }
                }
            }
        }
    }

    /// Calls `f` for every row of the kernel at every position: a part of a patch that comes from
    /// one row of the image.
    fn each_kernel_row(&self, group: usize, positions: Range<usize>, mut f: impl FnMut(Row)) {
        let ([_, height, width], [kd, kh, kw]) = (self.output, self.kernel);
        let (step, pixels) = (self.dilation[2], self.pixels());
        let mut patch = 0;
        for position in positions {
            let place = [position / (height * width), position / width % height, position % width];
            // The elements of a row that meet the image.
            let first = place[2] * self.stride[2];
            let skip = self.padding[2].saturating_sub(first).div_ceil(step).min(kw);
            let end = (self.image[2] + self.padding[2]).saturating_sub(first).div_ceil(step);
            let inside = end.clamp(skip, kw) - skip;
            for channel in 0..self.group_channels() {
                let plane = (group * self.group_channels() + channel) * pixels;
                for row in 0..kd * kh {
                    let z = self.source(0, place[0], row / kh);
                    let row = z.zip(self.source(1, place[1], row % kh)).filter(|_| inside > 0);
                    let image = row.map(|(z, y)| {
                        let x = first + skip * step - self.padding[2];
                        plane + (z * self.image[1] + y) * self.image[2] + x
                    });
                    let count = if image.is_some() { inside } else { 0 };
                    f(Row { patch, len: kw, skip, count, image: image.unwrap_or(0), step });
                    patch += kw;
                }
            }
        }
    }

    /// Calls `f` for every part of the patches that comes from one row of the image.
    fn each_row(&self, group: usize, positions: Range<usize>, f: impl FnMut(Row)) {
        match self.kernel_rows {
            true => self.each_kernel_row(group, positions, f),
            false => self.each_position_row(group, positions, f),
        }
    }

    /// Calls `f` for every part of a row of patches that comes from one row of the image.
    fn each_position_row(&self, group: usize, positions: Range<usize>, mut f: impl FnMut(Row)) {
        let [_, height, width] = self.output;
        let total = positions.len();
        let first = positions.start % width;
        let row = positions.start / width;
        let first_row = [row / height, row % height];
        for channel in 0..self.group_channels() {
            let plane = (group * self.group_channels() + channel) * self.pixels();
            for kernel in 0..self.kernel_size() {
                let [_, kh, kw] = self.kernel;
                let [z, y, x] = [kernel / (kh * kw), kernel / kw % kh, kernel % kw];
                let inside = self.inside(2, x);
                let line = (channel * self.kernel_size() + kernel) * total;
                let (mut done, mut first, mut place) = (0, first, first_row);
                while done < total {
                    let len = (width - first).min(total - done);
                    let row = self.source(0, place[0], z).zip(self.source(1, place[1], y));
                    let start = inside.start.clamp(first, first + len);
                    let end = inside.end.clamp(start, first + len);
                    let count = if row.is_some() { end - start } else { 0 };
                    let (z, y) = row.unwrap_or((0, 0));
                    let image = if count > 0 {
                        let x = start * self.stride[2] + x * self.dilation[2] - self.padding[2];
                        plane + (z * self.image[1] + y) * self.image[2] + x
                    } else {
                        0
                    };
                    f(Row {
                        patch: line + done,
                        len,
                        skip: start - first,
                        count,
                        image,
                        step: self.stride[2],
                    });
                    (done, first) = (done + len, 0);
                    place[1] += 1;
                    if place[1] == height {
                        place = [place[0] + 1, 0];
                    }
                }
            }
        }
    }

    /// The image coordinate that a kernel element meets at an output coordinate, if inside.
    #[inline(always)]
    pub(crate) fn source(&self, axis: usize, output: usize, kernel: usize) -> Option<usize> {
        self.source_at(axis, output, kernel * self.dilation[axis])
    }

    /// The image coordinate `offset` behind the first one that an output coordinate looks at, if
    /// inside.
    #[inline(always)]
    pub(crate) fn source_at(&self, axis: usize, output: usize, offset: usize) -> Option<usize> {
        let place = (output * self.stride[axis] + offset).checked_sub(self.padding[axis])?;
        (place < self.image[axis]).then_some(place)
    }

    /// The output coordinates at which a kernel element meets the image.
    pub(crate) fn inside(&self, axis: usize, kernel: usize) -> Range<usize> {
        let (stride, offset) = (self.stride[axis], kernel * self.dilation[axis]);
        let start = self.padding[axis].saturating_sub(offset).div_ceil(stride);
        let end = (self.image[axis] + self.padding[axis]).saturating_sub(offset).div_ceil(stride);
        let end = end.min(self.output[axis]);
        start.min(end)..end
    }
}

/// A piece of a row, or a column, of patches.
struct Row {
    /// Where it starts in the patches, and its length.
    patch: usize,
    len: usize,
    /// Elements in front that come from padding, and then those from the image.
    skip: usize,
    count: usize,
    /// Where the first of them lies in the image, and their distance.
    image: usize,
    step: usize,
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::patches::Patches;
    use super::*;
    use corten_gemm::{ImplicitOperand, PACK_PADDING};

    pub(in super::super) fn geometry(channels_last: bool, kernel_rows: bool) -> Geometry {
        Geometry {
            groups: 2,
            channels: 4,
            features: 2,
            image: [1, 5, 6],
            kernel: [1, 3, 2],
            output: [1, 3, 4],
            stride: [1, 2, 2],
            padding: [0, 1, 1],
            dilation: [1, 1, 2],
            channels_last,
            kernel_rows,
        }
    }

    /// The naive twin of `unfold`.
    pub(in super::super) fn patch_element(
        g: &Geometry,
        image: &[i64],
        group: usize,
        c: usize,
        k: usize,
        l: usize,
    ) -> i64 {
        let [_, kh, kw] = g.kernel;
        let (y, x) = (k / kw % kh, k % kw);
        let (oy, ox) = (l / g.output[2], l % g.output[2]);
        let iy = (oy * g.stride[1] + y * g.dilation[1]) as i64 - g.padding[1] as i64;
        let ix = (ox * g.stride[2] + x * g.dilation[2]) as i64 - g.padding[2] as i64;
        if iy < 0 || ix < 0 || iy >= g.image[1] as i64 || ix >= g.image[2] as i64 {
            return 0;
        }
        let (pixel, channel) =
            (iy as usize * g.image[2] + ix as usize, group * g.group_channels() + c);
        match g.channels_last {
            true => image[pixel * g.channels + channel],
            false => image[channel * g.pixels() + pixel],
        }
    }

    #[test]
    fn patches_are_those_of_the_definition_and_folding_is_the_adjoint() {
        for (channels_last, kernel_rows) in [(false, false), (true, false), (false, true)] {
            let g = geometry(channels_last, kernel_rows);
            let image: Vec<i64> = (1..=(g.channels * g.pixels()) as i64).collect();
            for (group, range) in [(0, 0..12), (1, 2..11), (1, 5..6)] {
                let width = range.len();
                let mut patches = vec![-1i64; g.patch() * width + PACK_PADDING];
                if channels_last {
                    let made = Patches { geometry: &g, images: &image, group, first: [0, 0] };
                    made.pack(range.clone(), 0..g.patch(), &mut patches, g.patch());
                } else {
                    g.unfold(&image, group, range.clone(), &mut patches);
                }
                let strides = g.patch_strides(width);
                let mut counts = vec![0i64; image.len()];
                g.fold_add(&vec![1i64; g.patch() * width], group, range.clone(), &mut counts);
                let mut sum = 0;
                for c in 0..g.group_channels() {
                    for k in 0..g.kernel_size() {
                        let row = if channels_last {
                            k * g.group_channels() + c
                        } else {
                            c * g.kernel_size() + k
                        };
                        for (column, l) in range.clone().enumerate() {
                            let found = patches[row * strides[0] + column * strides[1]];
                            assert_eq!(found, patch_element(&g, &image, group, c, k, l));
                            sum += found;
                        }
                    }
                }
                let folded: i64 =
                    counts.iter().zip(&image).map(|(count, value)| count * value).sum();
                assert_eq!(folded, sum);
            }
        }
    }
}
