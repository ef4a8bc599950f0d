//! Small products in dot form, for which acquiring a workspace would take longer than the product.

use crate::kernel::skinny::{DotArgs, DotKernels, MAX_DOTS, SkinnyElement};
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::view::{MatrixRef, View};

/// A small product.
pub(crate) struct SmallGemm<'a, S: SkinnyElement> {
    a: MatrixRef<'a, S>,
    b: MatrixRef<'a, S>,
    kernel: &'static DotKernels<S::Sum, S>,
}

/// The most elements of the result of a small product.
const MAX_RESULT: usize = 64;

impl<'a, E: SkinnyElement<Sum = E> + Scalar> SmallGemm<'a, E> {
    /// The product, if it is a small one: its sums are those of
    /// [`Skinny`](crate::driver::skinny::Skinny).
    #[inline]
    pub(crate) fn of(
        a: MatrixRef<'a, E>,
        b: MatrixRef<'a, E>,
        isa: Isa,
        accumulate: Accumulate<E>,
    ) -> Option<Self> {
        let (rows, cols) = (a.shape()[0], b.shape()[1]);
        let scaled = matches!(accumulate, Accumulate::Beta(beta) if beta != E::ONE);
        if scaled || rows * cols > MAX_RESULT || a.strides()[1] != 1 || b.strides()[0] != 1 {
            return None;
        }
        let kernel = E::skinny_kernels(isa).dot.get(rows.checked_sub(1)?)?;
        Some(Self { a, b, kernel })
    }

    /// # Safety
    /// `c` must be writable, and biases readable, over the shape of the product; the accumulation is
    /// that for which this was made.
    pub(crate) unsafe fn run(&self, c: View<*mut E>, accumulate: Accumulate<E>) {
        let (depth, cols) = (self.a.shape()[1], self.b.shape()[1]);
        let mut sums = [E::ZERO; MAX_DOTS];
        let mut at = 0;
        while at < cols {
            let whole = cols - at >= self.kernel.cols;
            let count = if whole { self.kernel.cols } else { 1 };
            let dot = DotArgs {
                depth,
                a: self.a.first(),
                lda: self.a.strides()[0],
                b: self.b.part(0..depth, at..at + count).first(),
                ldb: self.b.strides()[1],
                to: sums.as_mut_ptr(),
                width: count,
                prefetch: false,
            };
            // SAFETY: the rows and columns lie in their operands, and there is room for the
            // sums of any kernel, which is of the instruction set in use.
            unsafe { if whole { (self.kernel.blocked)(&dot) } else { (self.kernel.single)(&dot) } };
            for row in 0..self.a.shape()[0] {
                // Without the division that chunks would begin with.
                let sums = &sums[row * count..][..count];
                // SAFETY: the caller's; the elements lie in the product.
                unsafe { accumulate.store_row(sums, [row, at], c) };
            }
            at += count;
        }
    }
}
