//! Whether steps of a walk touch each other's memory.

use super::TensorIterator;
use smallvec::SmallVec;

// Note [Overlapping operands]
// As in PyTorch an operator may write to a tensor whose elements overlap in ways that are hard to
// find out (`as_strided`), and may read what it writes through other strides. The result depends
// on the order of the steps, but there must be an order: two threads that write, or read and
// write, the same bytes would be undefined behaviour. Such walks run on one thread, row by row.

impl TensorIterator {
    /// Whether two steps of the walk may write the same byte of output `i`. May answer yes where
    /// strides interleave without meeting.
    pub fn overlaps_itself(&self, i: usize) -> bool {
        let mut dims: SmallVec<[(i64, i64); 6]> = self
            .shape()
            .iter()
            .zip(self.strides(i))
            .filter(|(size, _)| **size > 1)
            .map(|(&size, &stride)| (stride.abs(), size))
            .collect();
        dims.sort_unstable();
        let mut extent = self.dtype(i).itemsize() as i64;
        dims.iter().any(|&(stride, size)| {
            let meets = stride < extent;
            extent += stride.saturating_mul(size - 1);
            meets
        })
    }

    /// Whether parts of the walk may run at the same time; see Note [Overlapping operands].
    pub fn parts_are_independent(&self) -> bool {
        (0..self.noutputs()).filter(|&output| !self.operands[output].fresh).all(|output| {
            !self.overlaps_itself(output)
                && (0..self.ntensors()).all(|other| other == output || self.agree(output, other))
        })
    }

    /// Whether two operands share no byte, or each step only its own.
    fn agree(&self, output: usize, other: usize) -> bool {
        let (a, b) = (self.range(output), self.range(other));
        let same = a == b
            && self.dtype(output).itemsize() == self.dtype(other).itemsize()
            && self.strides(output) == self.strides(other);
        same || a.1 <= b.0 || b.1 <= a.0
    }

    /// The first byte of an operand and one past the last, as addresses.
    fn range(&self, i: usize) -> (i128, i128) {
        let first = self.address(i).addr() as i128;
        let (mut low, mut high) = (first, first + self.dtype(i).itemsize() as i128);
        for (&size, &stride) in self.shape().iter().zip(self.strides(i)) {
            let reach = i128::from(stride) * i128::from(size - 1);
            low += reach.min(0);
            high += reach.max(0);
        }
        (low, high)
    }
}
