//! Where tiles lie: 2x2 outputs, and the 4x4 pixels that they look at.

use super::super::geometry::Geometry;
use std::ops::Range;

/// The tiles of some samples.
#[derive(Clone, Copy)]
pub(super) struct Tiles<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) samples: usize,
}

/// Some rows of tiles of a sample, or all of some samples.
#[derive(Clone)]
pub(super) struct TileRows {
    pub(super) samples: Range<usize>,
    pub(super) rows: Range<usize>,
}

impl<'a> Tiles<'a> {
    /// Rows and columns of tiles of a sample.
    pub(super) fn of_sample(self) -> [usize; 2] {
        [self.geometry.output[1].div_ceil(2), self.geometry.output[2].div_ceil(2)]
    }

    /// All of them.
    pub(super) fn all(self) -> TileRows {
        TileRows { samples: 0..self.samples, rows: 0..self.of_sample()[0] }
    }

    /// Samples, and rows of tiles of each, of blocks of about so many tiles.
    pub(super) fn cut(self, tiles: usize) -> [usize; 2] {
        let [rows, cols] = self.of_sample();
        let most = (tiles / cols).max(1);
        match most / rows {
            0 => [1, rows.div_ceil(rows.div_ceil(most))],
            samples => [samples.min(self.samples), rows],
        }
    }

    /// The blocks of such a cut.
    pub(super) fn blocks(self, [samples, rows]: [usize; 2]) -> impl Iterator<Item = TileRows> {
        let (count, all) = (self.samples, self.of_sample()[0]);
        let part = |start: usize, len: usize, end: usize| start..(start + len).min(end);
        let firsts = (0..count).step_by(samples);
        firsts.flat_map(move |sample| {
            let samples = part(sample, samples, count);
            (0..all).step_by(rows).map(move |row| {
                let rows = part(row, rows, all);
                TileRows { samples: samples.clone(), rows }
            })
        })
    }

    /// How many tiles a block has.
    pub(super) fn count(self, block: &TileRows) -> usize {
        block.samples.len() * block.rows.len() * self.of_sample()[1]
    }

    /// The rows of images that a block looks at.
    pub(super) fn image_rows(self, block: &TileRows) -> Range<usize> {
        let Geometry { image, padding, .. } = *self.geometry;
        let end = (2 * block.rows.end + 2).saturating_sub(padding[1]);
        (2 * block.rows.start).saturating_sub(padding[1])..end.min(image[1])
    }

    /// The rows of outputs of a block.
    pub(super) fn output_rows(self, block: &TileRows) -> Range<usize> {
        2 * block.rows.start..(2 * block.rows.end).min(self.geometry.output[1])
    }

    /// The places of the tiles of a block.
    #[inline(always)]
    pub(super) fn places(self, block: &TileRows) -> TileIndices<'a> {
        TileIndices {
            geometry: self.geometry,
            rows: block.rows.clone(),
            cols: self.of_sample()[1],
            next: [block.samples.start, block.rows.start, 0],
            left: self.count(block),
        }
    }
}

/// The places of tiles, one after the other.
pub(super) struct TileIndices<'a> {
    geometry: &'a Geometry,
    rows: Range<usize>,
    cols: usize,
    next: [usize; 3],
    left: usize,
}

impl<'a> Iterator for TileIndices<'a> {
    type Item = TileIndex<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<TileIndex<'a>> {
        self.left = self.left.checked_sub(1)?;
        let [sample, row, col] = self.next;
        self.next[2] = col + 1;
        if col + 1 == self.cols {
            self.next = [sample, row + 1, 0];
            if row + 1 == self.rows.end {
                self.next = [sample + 1, self.rows.start, 0];
            }
        }
        Some(TileIndex { geometry: self.geometry, sample, y: 2 * row, x: 2 * col })
    }
}

/// The place of a tile: its sample, and its first output row and column.
#[derive(Clone, Copy)]
pub(super) struct TileIndex<'a> {
    geometry: &'a Geometry,
    pub(super) sample: usize,
    pub(super) y: usize,
    pub(super) x: usize,
}

impl TileIndex<'_> {
    /// The row and the column of its first pixel; none of the image has one of those before the first,
    /// which wrap around.
    #[inline(always)]
    pub(super) fn corner(self) -> [usize; 2] {
        let padding = self.geometry.padding;
        [self.y.wrapping_sub(padding[1]), self.x.wrapping_sub(padding[2])]
    }

    /// Its pixels, row by row, of rows that hold all of its image that it looks at; `border` where the
    /// image ends.
    #[inline(always)]
    pub(super) fn pixels<'a>(self, of: Strip<'a>, border: &'a [f32]) -> [&'a [f32]; 16] {
        let [y, x] = self.corner();
        let mut pixels = [border; 16];
        for (i, pixel) in pixels.iter_mut().enumerate() {
            let (y, x) = (y.wrapping_add(i / 4), x.wrapping_add(i % 4));
            if let Some(found) = of.pixel(self.sample, y, x) {
                *pixel = found;
            }
        }
        pixels
    }

    /// Its outputs, row by row, of rows that hold all of them; `border` where the tile is cut.
    #[inline(always)]
    pub(super) fn outputs<'a>(self, of: Strip<'a>, border: &'a [f32]) -> [&'a [f32]; 4] {
        let mut outputs = [border; 4];
        for (i, output) in outputs.iter_mut().enumerate() {
            if let Some(found) = of.pixel(self.sample, self.y + i / 2, self.x + i % 2) {
                *output = found;
            }
        }
        outputs
    }
}

/// Rows of images with the channels last, or some of the channels.
#[derive(Clone, Copy)]
pub(super) struct Strip<'a> {
    pub(super) elements: &'a [f32],
    /// The first of the channels, how many there are, and how far a pixel is from the next.
    pub(super) channels: [usize; 3],
    pub(super) width: usize,
    /// The first sample.
    pub(super) sample: usize,
    /// The first row of each, and how many there are.
    pub(super) rows: [usize; 2],
}

impl<'a> Strip<'a> {
    #[inline(always)]
    fn pixel(self, sample: usize, y: usize, x: usize) -> Option<&'a [f32]> {
        let ([first, rows], [channel, channels, pitch]) = (self.rows, self.channels);
        let row = y.wrapping_sub(first);
        if row >= rows || x >= self.width {
            return None;
        }
        let pixel = ((sample - self.sample) * rows + row) * self.width + x;
        Some(&self.elements[pixel * pitch + channel..][..channels])
    }
}
