//! Parts of a walk: narrowing, selecting, and splitting until 32-bit offsets suffice.

use super::TensorIterator;
use smallvec::SmallVec;

impl TensorIterator {
    /// Whether the number of steps and every operand's extent in bytes fit 32 bits.
    pub fn can_use_32bit_indexing(&self) -> bool {
        let limit = i64::from(i32::MAX);
        self.numel <= limit
            && self.operands.iter().all(|operand| {
                let extents = self.shape.iter().zip(&operand.strides);
                extents.map(|(&size, &stride)| (size - 1) * stride.abs()).sum::<i64>() < limit
            })
    }

    /// The walk in parts whose offsets fit 32 bits, in order. This iterator must be kept while
    /// they run, with its access taken.
    ///
    /// A reduction may be split along a reduced dimension: then only the last part has
    /// [`is_final_output`](Self::is_final_output), and all but the first
    /// [`should_accumulate`](Self::should_accumulate).
    pub fn parts_32bit(&self) -> SmallVec<[Self; 1]> {
        let mut parts = SmallVec::new();
        let mut todo = vec![self.part()];
        while let Some(mut part) = todo.pop() {
            if part.can_use_32bit_indexing() {
                parts.push(part);
            } else {
                let first = part.split(part.dim_to_split());
                todo.push(part);
                todo.push(first);
            }
        }
        parts
    }

    /// The dimension with the greatest extent of any operand.
    pub fn dim_to_split(&self) -> usize {
        let (mut best, mut extent) = (0, -1);
        for dim in (0..self.shape.len()).rev() {
            for operand in &self.operands {
                let along = (self.shape[dim] - 1) * operand.strides[dim].abs();
                if along > extent {
                    (best, extent) = (dim, along);
                }
            }
        }
        best
    }

    /// Cuts the walk in two along `dim`: returns the first half and keeps the second.
    pub fn split(&mut self, dim: usize) -> Self {
        let mut first = self.part();
        let overlaps = self.is_dim_reduced(dim);
        let half = self.shape[dim] / 2;
        first.narrow(dim, 0, half);
        first.is_final &= !overlaps;
        self.narrow(dim, half, self.shape[dim] - half);
        self.accumulates |= overlaps;
        first
    }

    /// Whether an output repeats along `dim`.
    pub fn is_dim_reduced(&self, dim: usize) -> bool {
        self.operands[..self.outputs]
            .iter()
            .any(|operand| operand.strides[dim] == 0 && self.shape[dim] > 1)
    }

    /// The number of leading dimensions that are reduced.
    pub fn num_reduce_dims(&self) -> usize {
        (0..self.shape.len())
            .filter(|&dim| self.operands.first().is_some_and(|op| op.strides[dim] == 0))
            .count()
    }

    /// The number of elements of an output, counting repeated ones once.
    pub fn num_output_elements(&self) -> i64 {
        let sizes = self.shape.iter().zip(&self.operands[0].strides);
        sizes.map(|(&size, &stride)| if stride != 0 || size == 0 { size } else { 1 }).product()
    }

    /// Restricts the walk to `size` steps along `dim`, from `start` on.
    pub fn narrow(&mut self, dim: usize, start: i64, size: i64) {
        self.shape[dim] = size;
        self.numel = self.shape.iter().product();
        for operand in &mut self.operands {
            operand.byte_offset += operand.strides[dim] * start;
        }
        if size == 1 && !self.is_reduction {
            self.coalesce_dimensions();
        }
    }
}
