//! Skinny products, of few rows: GEMV kernels stream the large operand once, in place.

use crate::driver::epilogue::StoreTile;
use crate::driver::plan::GemvForm;
use crate::kernel::select::SkinnyOperand;
use crate::kernel::skinny::{AXPY_MR, AXPY_UNROLL, AxpyArgs, DotArgs, SkinnyElement};
use crate::simd::vector::MAX_LANES;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::Params;
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::MatrixRef;
use crate::types::workspace::{Buffer, Workspace};

/// Columns whose dot products are stored at a time.
const DOT_NC: usize = 64;

/// With more rows than this, the hardware prefetcher does not fetch the next rows early enough.
const HW_PREFETCH_ROWS: usize = 2;

/// The small operand of a skinny product.
pub(crate) trait SmallOperand<E> {
    fn shape(&self) -> [usize; 2];

    /// The first element of the operand in rows of contiguous steps, in place or packed, and its
    /// leading dimension.
    fn contiguous<'r>(&'r self, buffer: &'r mut Buffer) -> (*const E, isize);
}

/// A small operand in memory.
pub(crate) struct SmallMatrix<'a, S: 'static> {
    pub source: MatrixRef<'a, S>,
    pub isa: Isa,
}

impl<S: SkinnyOperand> SmallOperand<S::Sum> for SmallMatrix<'_, S> {
    fn shape(&self) -> [usize; 2] {
        self.source.shape()
    }

    fn contiguous<'r>(&'r self, buffer: &'r mut Buffer) -> (*const S::Sum, isize) {
        S::contiguous(&self.source, self.isa, buffer)
    }
}

/// A product whose large operand is `b`.
pub(crate) struct Skinny<'a, S: SkinnyElement> {
    pub a: &'a dyn SmallOperand<S::Sum>,
    pub b: MatrixRef<'a, S>,
    pub isa: Isa,
    pub form: GemvForm,
    /// Stores tiles of sums.
    pub store: &'a StoreTile<'a, S::Sum>,
}

impl<S: SkinnyElement> Skinny<'_, S> {
    pub(crate) fn run(&self, workspace: &mut Workspace) {
        match self.form {
            GemvForm::Dot => self.dot(workspace),
            GemvForm::Axpy => self.axpy(workspace),
        }
    }

    fn dot(&self, workspace: &mut Workspace) {
        assert!(self.b.strides()[0] == 1);
        let ([rows, depth], cols) = (self.a.shape(), self.b.shape()[1]);
        let (a, lda) = self.a.contiguous(&mut workspace.a);
        let sums = workspace.c.as_mut_slice::<S::Sum>(rows * DOT_NC);
        let kernels = S::skinny_kernels(self.isa).dot;
        let far = size_of::<S>() * depth * cols > Params::get(self.isa).streamed_bytes;
        for chunk in (0..cols).step_by(DOT_NC) {
            let chunk = chunk..(chunk + DOT_NC).min(cols);
            for group in Partition::of(rows, kernels.len()).all() {
                let kernel = &kernels[group.len() - 1];
                let mut at = chunk.start;
                while at < chunk.end {
                    let whole = chunk.end - at >= kernel.cols;
                    let count = if whole { kernel.cols } else { 1 };
                    let dot = DotArgs {
                        depth,
                        a: a.wrapping_offset(group.start as isize * lda),
                        lda,
                        b: self.b.part(0..depth, at..at + count).first(),
                        ldb: self.b.strides()[1],
                        to: sums[group.start * DOT_NC + at - chunk.start..].as_mut_ptr(),
                        width: DOT_NC,
                        prefetch: far && group.start == 0,
                    };
                    // SAFETY: the rows and columns lie in their operands, and there
                    // is room for the sums of all rows; the kernel is of the
                    // instruction set in use.
                    unsafe { if whole { (kernel.blocked)(&dot) } else { (kernel.single)(&dot) } };
                    at += count;
                }
            }
            (self.store)(sums, DOT_NC, [0, chunk.start], [rows, chunk.len()]);
        }
    }

    fn axpy(&self, workspace: &mut Workspace) {
        assert!(self.b.strides()[1] == 1);
        let ([rows, depth], cols) = (self.a.shape(), self.b.shape()[1]);
        let kernels = S::skinny_kernels(self.isa).axpy;
        let groups = Partition::of(rows, kernels.len());
        let params = Params::get(self.isa);
        let bytes = if rows == 1 { params.axpy_row_bytes } else { params.axpy_bytes };
        let width = bytes / size_of::<S::Sum>() / groups.get(0).len();
        let width = (width / MAX_LANES - 1) * MAX_LANES;
        let (a, lda) = self.a.contiguous(&mut workspace.a);
        let sums = workspace.c.as_mut_slice::<S::Sum>(rows * width);
        for chunk in (0..cols).step_by(width) {
            let chunk = chunk..(chunk + width).min(cols);
            let mut at = 0;
            while at < depth {
                let count = if depth - at >= AXPY_UNROLL { AXPY_UNROLL } else { 1 };
                let b_rows = StridedRows {
                    first: self.b.part(at..at + count, chunk.clone()).first(),
                    stride: self.b.strides()[0],
                    count,
                    len: chunk.len(),
                };
                for group in groups.all() {
                    let mut factors = [S::Sum::ZERO; AXPY_MR * AXPY_UNROLL];
                    for (factors, row) in factors.chunks_exact_mut(AXPY_UNROLL).zip(group.clone()) {
                        let row = a.wrapping_offset(row as isize * lda).wrapping_add(at);
                        // SAFETY: the row has so many steps.
                        (0..count).for_each(|j| factors[j] = unsafe { *row.add(j) });
                    }
                    let to = sums[group.start * width..].as_mut_ptr();
                    let (first, prefetch) = (at == 0, group.start == 0 && rows > HW_PREFETCH_ROWS);
                    let args = AxpyArgs { rows: b_rows, factors, to, width, first, prefetch };
                    let kernels = &kernels[group.len() - 1];
                    // SAFETY: the rows lie in the operand, and there is room for the
                    // sums of all rows; the kernel is of the instruction set in use.
                    unsafe {
                        if count == 1 { (kernels.single)(&args) } else { (kernels.blocked)(&args) }
                    };
                }
                at += count;
            }
            (self.store)(sums, width, [0, chunk.start], [rows, chunk.len()]);
        }
    }
}
