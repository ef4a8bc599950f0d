//! Skinny int8 products where the columns of the large operand are contiguous: GEMV in axpy form.

use crate::driver::epilogue::Epilogue;
use crate::driver::skinny::SmallOperand;
use crate::kernel::vnni4_axpy::{UNROLL, VNNI, Vnni4AxpyArgs, axpy_kernel};
use crate::simd::vector::Vector;
use crate::simd::vnni4::COLUMNS_PER_VECTOR;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::Params;
use crate::types::view::MatrixRef;
use crate::types::vnni::Vnni4;
use crate::types::workspace::Workspace;
use std::arch::x86_64::__m512;

/// With more rows than this, the hardware prefetcher does not fetch the next rows early enough.
const HW_PREFETCH_ROWS: usize = 2;

/// The least columns that are streamed of a row at a time, for the memory bandwidth to be used.
const MIN_COLUMNS: usize = 512;

/// A product whose large operand is `b`.
pub(crate) struct AxpyVnni4<'a> {
    pub a: &'a dyn SmallOperand<Vnni4>,
    pub b: MatrixRef<'a, u8>,
    pub epilogue: &'a Epilogue<'a, Vnni4>,
}

impl AxpyVnni4<'_> {
    /// # Safety
    /// The processor must have AVX-512 VNNI.
    pub(crate) unsafe fn run<V: Vector<Elem = Vnni4> + From<__m512>, const FLIP_SIGNS: bool>(
        &self,
        workspace: &mut Workspace,
    ) {
        assert!(self.b.strides()[1] == 1);
        let ([rows, _], [depth, cols]) = (self.a.shape(), self.b.shape());
        let (a, lda) = self.a.contiguous(&mut workspace.a);
        let width =
            (Params::get(Isa::Avx512Vnni).axpy_bytes / size_of::<Vnni4>() / rows).max(MIN_COLUMNS);
        let width = width.min(cols).next_multiple_of(COLUMNS_PER_VECTOR);
        let sums = workspace.c.as_mut_slice::<Vnni4>(rows * width);
        for chunk in (0..cols).step_by(width) {
            let chunk = chunk..(chunk + width).min(cols);
            sums.fill(Vnni4::ZERO);
            for at in (0..depth).step_by(UNROLL) {
                let count = (depth - at).min(UNROLL);
                let args = Vnni4AxpyArgs {
                    first: self.b.part(at..at + count, chunk.clone()).first(),
                    stride: self.b.strides()[0],
                    count,
                    len: chunk.len(),
                    a: a.wrapping_add(at / VNNI),
                    lda,
                    rows,
                    to: sums.as_mut_ptr(),
                    width,
                    prefetch: rows > HW_PREFETCH_ROWS,
                };
                // SAFETY: the rows lie in the operand, those of `a` have a group for
                // every four of them, and there is room for whole vectors of sums of all
                // rows; the caller owes the instruction set.
                unsafe {
                    match count > VNNI {
                        true => axpy_kernel::<V, 2, FLIP_SIGNS>(&args),
                        false => axpy_kernel::<V, 1, FLIP_SIGNS>(&args),
                    }
                }
            }
            self.epilogue.store(sums, width, [0, chunk.start], [rows, chunk.len()]);
        }
    }
}
