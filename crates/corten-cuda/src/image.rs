//! Batches of images as kernels take them.

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
            let place = if axis < lead { axis + 2 - lead.min(2) } else { axis - lead + 5 - rank };
            image.sizes[place] = size;
            image.strides[place] = stride;
        }
        image
    }
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
