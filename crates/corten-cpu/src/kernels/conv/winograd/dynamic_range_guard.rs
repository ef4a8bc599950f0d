//! Whether pixels that lie side by side are of like size: where they are added to each other before
//! they are multiplied, errors of outputs are relative to all of them.

use super::images::Images;
use super::tiles::{TileIndex, TileIndices, TileRows, Tiles};
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::rows::loops::{MOST_LANES, RowKernel, load, store};
use crate::vec::Lanes;
use corten_core::{Result, try_vec};

/// How much larger than what an output looks at the pixels of its tile may be. Errors grow as much.
const UNEVEN: f32 = 16.0;

/// The sizes of the pixels of images.
pub(super) struct Magnitudes {
    sizes: Vec<f32>,
    height: usize,
    width: usize,
}

impl Magnitudes {
    /// Channels are a multiple of the longest vector.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn of(images: &Images<'_>) -> Result<Self> {
        Ok(Self { sizes: images.sizes()?, height: images.height, width: images.width })
    }

    /// The sizes of the pixels of a tile.
    fn of_pixels(&self, place: TileIndex<'_>) -> [f32; 16] {
        self.square::<4, 16>(place.sample, place.corner())
    }

    /// The sizes of the outputs of a tile.
    fn of_outputs(&self, place: TileIndex<'_>) -> [f32; 4] {
        self.square::<2, 4>(place.sample, [place.y, place.x])
    }

    /// `SIDE` rows of as many sizes from a place on, 0 outside of the image.
    fn square<const SIDE: usize, const COUNT: usize>(
        &self,
        sample: usize,
        [y, x]: [usize; 2],
    ) -> [f32; COUNT] {
        let Self { ref sizes, height, width } = *self;
        let image = &sizes[sample * height * width..][..height * width];
        let mut square = [0.0; COUNT];
        let is_inside = y.saturating_add(SIDE) <= height && x.saturating_add(SIDE) <= width;
        for (i, row) in square.chunks_exact_mut(SIDE).enumerate() {
            if is_inside {
                row.copy_from_slice(&image[(y + i) * width + x..][..SIDE]);
                continue;
            }
            for (j, size) in row.iter_mut().enumerate() {
                let (y, x) = (y.wrapping_add(i), x.wrapping_add(j));
                if y < height && x < width {
                    *size = image[y * width + x];
                }
            }
        }
        square
    }

    /// Whether no tile of these pixels is much larger than the 3x3 of them that one of its outputs
    /// looks at.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn are_even(&self, tiles: Tiles<'_>) -> Result<bool> {
        let [_, height, width] = tiles.geometry.output;
        let even = of_samples(tiles, |mut places| {
            places.all(|place| {
                let cut = [(height - place.y).min(2), (width - place.x).min(2)];
                is_even(self.of_pixels(place), cut)
            })
        })?;
        Ok(even.into_iter().all(|even| even))
    }

    /// Whether products of tiles of these pixels and of outputs are not much larger than those that an
    /// element of the weight sums, over all tiles.
    ///
    /// # Errors
    /// None of its own.
    pub(super) fn are_even_with(&self, outputs: &Self, tiles: Tiles<'_>) -> Result<bool> {
        let sums = of_samples(tiles, |places| {
            let (mut all, mut seen) = (0.0, [0.0_f32; 9]);
            for place in places {
                let (pixels, outputs) = (self.of_pixels(place), outputs.of_outputs(place));
                all += largest(&pixels) * largest(&outputs);
                for (tap, seen) in seen.iter_mut().enumerate() {
                    let at = tap / 3 * 4 + tap % 3;
                    let pixels = [0, 1, 4, 5].map(|step| pixels[at + step]);
                    *seen += outputs.iter().zip(pixels).map(|(a, b)| a * b).sum::<f32>();
                }
            }
            (all, seen)
        })?;
        let all: f32 = sums.iter().map(|(all, _)| all).sum();
        let seen = |tap: usize| sums.iter().map(|(_, seen)| seen[tap]).sum::<f32>();
        Ok((0..9).all(|tap| all <= UNEVEN * seen(tap)))
    }
}

/// What `f` finds of the tiles of every sample.
fn of_samples<'a, T: Clone + Default + Send>(
    tiles: Tiles<'a>,
    f: impl Fn(TileIndices<'a>) -> T + Sync,
) -> Result<Vec<T>> {
    let block = |samples| TileRows { samples, ..tiles.all() };
    let count = tiles.count(&block(0..1));
    let mut found = try_vec(T::default(), tiles.samples)?;
    for_each_run(&mut found, 1, grain_of(16 * count), |samples, found| {
        for (sample, found) in samples.zip(found) {
            *found = f(tiles.places(&block(sample..sample + 1)));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether a tile is not much larger than what each of its outputs looks at; there are so many rows
/// and columns of them.
fn is_even(pixels: [f32; 16], [rows, cols]: [usize; 2]) -> bool {
    // What the left and the right outputs see of each row.
    let seen: [[f32; 2]; 4] = std::array::from_fn(|i| {
        let [a, b, c, d] = std::array::from_fn(|j| pixels[4 * i + j]);
        [a.max(b).max(c), b.max(c).max(d)]
    });
    let all = largest(seen.as_flattened());
    let own = |i: usize, j: usize| seen[i][j].max(seen[i + 1][j]).max(seen[i + 2][j]);
    (0..rows).all(|i| (0..cols).all(|j| all <= UNEVEN * own(i, j)))
}

fn largest(sizes: &[f32]) -> f32 {
    sizes.iter().fold(0.0, |most, &size| most.max(size))
}

/// Sums the magnitudes of pixels: of channels that lie side by side, or in runs of so many pixels.
pub(super) struct Measure<'a> {
    pub(super) images: &'a [f32],
    pub(super) channels: usize,
    /// 1 where channels come last.
    pub(super) run: usize,
    pub(super) to: &'a mut [f32],
}

impl RowKernel<f32> for Measure<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { images, channels, run, to } = self;
        if run == 1 {
            for (pixel, size) in images.chunks_exact(channels).zip(to) {
                let mut sums = V::lit(0.0);
                for at in (0..channels).step_by(V::LANES) {
                    sums = sums + load::<V>(pixel, at, V::LANES).abs();
                }
                let mut lanes = [0.0; MOST_LANES];
                store(sums, &mut lanes, 0, V::LANES);
                *size = lanes.iter().sum();
            }
            return;
        }
        for (image, sizes) in images.chunks_exact(run * channels).zip(to.chunks_exact_mut(run)) {
            for row in image.chunks_exact(run) {
                for at in (0..run).step_by(V::LANES) {
                    let count = V::LANES.min(run - at);
                    let sum = load::<V>(sizes, at, count) + load::<V>(row, at, count).abs();
                    store(sum, sizes, at, count);
                }
            }
        }
    }
}
