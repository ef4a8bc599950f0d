//! Sizes and strides of tensors that are walked together, as kernels take them.

use crate::pointwise::{MAX_DIMS, geometry_words};
use corten_core::{Dims, Result, ensure};

/// Sizes with the strides in bytes of some operands, slowest dimension first.
pub(crate) struct StridedLoop {
    sizes: Dims,
    strides: Vec<Dims>,
}

impl StridedLoop {
    /// Operands given by their strides in bytes.
    pub(crate) fn new(sizes: &[i64], strides: Vec<Dims>) -> Self {
        let mut walk = Self { sizes: sizes.iter().copied().collect(), strides };
        walk.merge();
        walk
    }

    /// Merges neighbouring dimensions that every operand walks as one, and drops those of size 1.
    fn merge(&mut self) {
        let mut kept: Vec<usize> = Vec::new();
        let mut sizes: Vec<i64> = Vec::new();
        for dim in 0..self.sizes.len() {
            if self.sizes[dim] == 1 {
                continue;
            }
            let follows = kept.last().is_some_and(|&last| {
                self.strides.iter().all(|own| own[last] == own[dim] * self.sizes[dim])
            });
            match (follows, sizes.last_mut(), kept.last_mut()) {
                (true, Some(size), Some(last)) => {
                    *size *= self.sizes[dim];
                    *last = dim;
                }
                _ => {
                    kept.push(dim);
                    sizes.push(self.sizes[dim]);
                }
            }
        }
        for own in &mut self.strides {
            *own = kept.iter().map(|&dim| own[dim]).collect();
        }
        self.sizes = sizes.into_iter().collect();
    }

    /// The number of steps.
    pub(crate) fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// `Geometry<N>` of `pointwise.cuh` for N operands.
    ///
    /// # Errors
    /// `Runtime` for more dimensions, elements or bytes than kernels take.
    pub(crate) fn geometry(&self) -> Result<Vec<u32>> {
        let (dims, count) = (self.sizes.len(), self.strides.len());
        let limit = i64::from(i32::MAX);
        let strides_fit = self.strides.iter().flatten().all(|stride| stride.abs() <= limit);
        ensure!(
            dims <= MAX_DIMS && self.numel() <= limit && strides_fit,
            Runtime,
            "this CUDA kernel takes at most {MAX_DIMS} dimensions, 2^31 - 1 elements and strides of 2^31 - 1 \
             bytes"
        );
        let stride = |k: usize, dim: usize| self.strides[k][dim];
        Ok(geometry_words(count, (0..dims).rev(), |dim| self.sizes[dim], stride))
    }
}

/// The strides of a tensor in bytes.
pub(crate) fn byte_strides(tensor: &corten_ops::Tensor) -> Dims {
    let size = tensor.itemsize() as i64;
    tensor.strides().iter().map(|stride| stride * size).collect()
}
