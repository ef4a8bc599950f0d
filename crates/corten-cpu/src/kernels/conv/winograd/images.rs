//! Images in either layout, whose rows tiles read with the channels last.

use super::dynamic_range_guard::Measure;
use super::tiles::Strip;
use crate::gemm::{Mat, MatMut};
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::rows::loops::Vectorised;
use corten_core::{Result, try_vec};
use std::ops::Range;

/// Dense images of so many channels.
#[derive(Clone, Copy)]
pub(super) struct Images<'a> {
    pub(super) elements: &'a [f32],
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels_last: bool,
}

impl<'a> Images<'a> {
    /// The elements that a buffer needs for rows of samples, of so many channels.
    pub(super) fn room(&self, samples: usize, rows: usize, channels: usize) -> usize {
        if self.channels_last { 0 } else { samples * rows * self.width * channels }
    }

    /// Rows of samples with some of the channels, which come last: in the buffer if they do not in the
    /// images.
    ///
    /// # Errors
    /// `Internal` when the buffer is too small.
    pub(super) fn strip<'b>(
        &self,
        samples: Range<usize>,
        rows: Range<usize>,
        channels: Range<usize>,
        buffer: &'b mut [f32],
    ) -> Result<Strip<'b>>
    where
        'a: 'b,
    {
        let Self { elements, width, .. } = *self;
        let (first, sample) = (channels.start, samples.start);
        if self.channels_last {
            let channels = [first, channels.len(), self.channels];
            return Ok(Strip { elements, channels, width, sample: 0, rows: [0, self.height] });
        }
        let (plane, count) = (self.height * width, rows.len() * width);
        for (at, sample) in samples.enumerate() {
            let from = (sample * self.channels + first) * plane + rows.start * width;
            let from = Mat::strided(&elements[from..], [count, channels.len()], [1, plane])?;
            let to = &mut buffer[at * count * channels.len()..];
            MatMut::row_major(to, count, channels.len())?.copy_of(from)?;
        }
        let channels = [0, channels.len(), channels.len()];
        Ok(Strip { elements: buffer, channels, width, sample, rows: [rows.start, rows.len()] })
    }

    /// The sums of the magnitudes of every pixel, where channels are a multiple of the longest vector.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn sizes(&self) -> Result<Vec<f32>> {
        let Self { channels, channels_last, .. } = *self;
        let mut sizes = try_vec(0.0, self.elements.len() / channels)?;
        let run = if channels_last { 1 } else { self.height * self.width };
        for_each_run(&mut sizes, run, grain_of(run * channels), |range, sizes| {
            let images = &self.elements[range.start * run * channels..range.end * run * channels];
            f32::run(Measure { images, channels, run, to: sizes });
            Ok(())
        })?;
        Ok(sizes)
    }
}
