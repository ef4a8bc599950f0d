//! Small operands in VNNI layout.

use crate::driver::skinny::SmallOperand;
use crate::pack::interleave::{Interleave, Interleaved, InterleavedElement};
use crate::pack::operand::ImplicitOperand;
use crate::simd::vector::Vector;
use crate::types::params::PACK_PADDING;
use crate::types::view::MatrixRef;
use crate::types::vnni::Vnni2;
use crate::types::workspace::Buffer;

impl SmallOperand<Vnni2> for MatrixRef<'_, Vnni2> {
    fn shape(&self) -> [usize; 2] {
        Self::shape(self)
    }

    fn contiguous<'r>(&'r self, _: &'r mut Buffer) -> (*const Vnni2, isize) {
        let [row, step] = self.strides();
        assert!(step == 1, "pairs must be contiguous");
        (self.first(), row)
    }
}

impl<G: Interleave> SmallOperand<InterleavedElement<G>> for Interleaved<'_, G> {
    fn shape(&self) -> [usize; 2] {
        self.size()
    }

    fn contiguous<'r>(&'r self, buffer: &'r mut Buffer) -> (*const InterleavedElement<G>, isize) {
        let [rows, depth] = self.size();
        let width = depth.next_multiple_of(G::Vector::LANES);
        let buffer = buffer.as_mut_slice::<InterleavedElement<G>>(rows * width + PACK_PADDING);
        self.pack(0..rows, 0..depth, buffer, width);
        (buffer.as_ptr(), width as isize)
    }
}
