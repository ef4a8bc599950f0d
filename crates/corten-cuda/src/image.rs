//! Batches of images as kernels take them.

use crate::kernel::Argument;
use corten_core::DType;
use corten_ops::Tensor;

/// `Image` of `image.cuh`: sizes and strides of [samples, channels, depth, height, width].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) sizes: [i64; 5],
    pub(crate) strides: [i64; 5],
}

impl Image {
    /// A tensor of `rank` spatial dimensions, with or without channels and samples before them.
    pub(crate) fn of(tensor: &Tensor, rank: usize) -> Self {
        let mut image = Self { sizes: [1; 5], strides: [0; 5] };
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        let lead = sizes.len() - rank;
        for (axis, (&size, &stride)) in sizes.iter().zip(strides.iter()).enumerate() {
            let place = if axis < lead { axis + 2 - lead } else { axis - lead + 5 - rank };
            image.sizes[place] = size;
            image.strides[place] = stride;
        }
        image
    }

    /// The elements from the first to the last one in memory.
    fn extent(&self) -> i64 {
        let last = |(&size, &stride): (&i64, &i64)| (size - 1).saturating_mul(stride.abs());
        self.sizes.iter().zip(&self.strides).map(last).fold(1, i64::saturating_add)
    }
}

/// The integers that kernels compute coordinates and offsets with: 32 bits where those of the images, and the
/// given numbers, fit with room for sums of a few.
pub(crate) fn index_type(images: &[Image], numbers: &[i64]) -> Argument {
    const LIMIT: i64 = 1 << 29;
    let elements =
        |image: &Image| image.sizes.iter().fold(1_i64, |n, &size| n.saturating_mul(size));
    let small = images.iter().all(|image| elements(image).max(image.extent()) < LIMIT)
        && numbers.iter().all(|number| number.abs() < LIMIT);
    Argument::Storage(if small { DType::Int32 } else { DType::Int64 })
}

/// Numbers of the spatial dimensions as those of three: `filler` for those in front.
pub(crate) fn three(list: &[i64], rank: usize, filler: i64) -> [i64; 3] {
    let mut axes = [filler; 3];
    for axis in 0..rank {
        let own = list.get(if list.len() == 1 { 0 } else { axis });
        axes[3 - rank + axis] = own.copied().unwrap_or(filler);
    }
    axes
}
