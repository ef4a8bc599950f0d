//! Whether pixels that lie side by side are of like size: where they are added to each other before
//! they are multiplied, as in [`super::winograd`], errors of outputs are relative to all of them.

use super::geometry::Geometry;
use crate::chunks::{for_each_run, grain_of};
use crate::row_loops::{Job, MOST_LANES, Vectorised, load, store};
use crate::vec::Lanes;
use corten_core::Result;

/// How much larger than what an output looks at the pixels of its tile may be. Errors grow as much.
const UNEVEN: f32 = 16.0;

/// Whether in images with the channels last no tile of 4x4 pixels is much larger than the 3x3 pixels
/// that one of its 2x2 outputs looks at. The size of a pixel is the sum of its magnitudes.
///
/// # Errors
/// None of its own.
pub(super) fn is_even(images: &[f32], geometry: &Geometry) -> Result<bool> {
    let pixels = geometry.pixels();
    let mut sizes = vec![0.0; images.len() / geometry.channels];
    for_each_run(&mut sizes, 1, grain_of(geometry.channels), |range, sizes| {
        let images = &images[range.start * geometry.channels..];
        f32::run(Sizes { images, channels: geometry.channels, to: sizes });
        Ok(())
    })?;
    Ok(sizes.chunks_exact(pixels).all(|sizes| Tiles { sizes, geometry }.are_even()))
}

/// Fills in the sizes of pixels, whose channels are a multiple of the longest vector.
struct Sizes<'a> {
    images: &'a [f32],
    channels: usize,
    to: &'a mut [f32],
}

impl Job<f32> for Sizes<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        for (pixel, size) in self.images.chunks_exact(self.channels).zip(self.to) {
            let mut sums = V::lit(0.0);
            for at in (0..self.channels).step_by(V::LANES) {
                sums = sums + load::<V>(pixel, at, V::LANES).abs();
            }
            let mut lanes = [0.0; MOST_LANES];
            store(sums, &mut lanes, 0, V::LANES);
            *size = lanes.iter().sum();
        }
    }
}

/// The tiles of an image, given the sizes of its pixels.
struct Tiles<'a> {
    sizes: &'a [f32],
    geometry: &'a Geometry,
}

impl Tiles<'_> {
    fn are_even(&self) -> bool {
        let [_, height, width] = self.geometry.output;
        let mut places = (0..height).step_by(2).flat_map(|y| {
            let columns = (0..width).step_by(2);
            columns.map(move |x| (y, x))
        });
        places.all(|(y, x)| self.is_even(y, x))
    }

    /// The tile of the outputs from `(y, x)` on.
    fn is_even(&self, y: usize, x: usize) -> bool {
        let [_, height, width] = self.geometry.output;
        // What the left and the right outputs see of each row.
        let seen: [[f32; 2]; 4] = std::array::from_fn(|i| {
            let [a, b, c, d] = std::array::from_fn(|j| self.size(y + i, x + j));
            [a.max(b).max(c), b.max(c).max(d)]
        });
        let largest = seen.as_flattened().iter().fold(0.0_f32, |most, &size| most.max(size));
        let own = |i: usize, j: usize| seen[i][j].max(seen[i + 1][j]).max(seen[i + 2][j]);
        (0..(height - y).min(2))
            .all(|i| (0..(width - x).min(2)).all(|j| largest <= UNEVEN * own(i, j)))
    }

    /// The size of a pixel, counted from the first one of the padding on.
    fn size(&self, y: usize, x: usize) -> f32 {
        let Geometry { image: [_, height, width], padding, .. } = *self.geometry;
        let (y, x) = (y.wrapping_sub(padding[1]), x.wrapping_sub(padding[2]));
        if y < height && x < width { self.sizes[y * width + x] } else { 0.0 }
    }
}
