//! Products of int8 with AVX-512 VNNI, whose instruction multiplies unsigned by signed bytes. Where both
//! operands are signed or both unsigned, the sign bits of `b` are flipped, which adds 128 to it or
//! subtracts it. A compensation of 128 times the row sums of `a` undoes that, as in oneDNN ("Int8
//! Inference") and FBGEMM.

use crate::driver::epilogue::Epilogue;
use crate::driver::int8_axpy::AxpyVnni4;
use crate::driver::macro_kernel::gemm_blocked;
use crate::driver::plan::GemvForm;
use crate::driver::skinny::Skinny;
use crate::kernel::select::vnni4_kernels;
use crate::kernel::skinny::SkinnyElement;
use crate::pack::interleave::{Interleaved, Vnni4Layout};
use crate::pack::operand::{ImplicitOperand, Operand};
use crate::simd::vector::{MAX_LANES, Vector};
use crate::simd::x86::{Avx512Vnni4Signed, Avx512Vnni4Unsigned};
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::PACK_PADDING;
use crate::types::params::Params;
use crate::types::partition::chunks;
use crate::types::strided_rows::StridedRows;
use crate::types::view::{MatrixRef, View};
use crate::types::vnni::{Vnni4, Vnni4Operand};
use crate::types::workspace::{Buffer, Workspace};
use std::arch::x86_64::*;
use std::num::Wrapping;
use std::ops::Range;

/// Rows, and groups of a row, that are summed at a time.
const ROWS: usize = MAX_LANES;
const STEPS: usize = 64;

/// The most rows of a product whose large operand is read byte by byte.
const MAX_BYTEWISE_ROWS: usize = 4;

/// The operands, and whether they are signed.
pub(crate) struct Int8Gemm<'a> {
    pub a: MatrixRef<'a, u8>,
    pub b: MatrixRef<'a, u8>,
    pub signs: [bool; 2],
}

impl Int8Gemm<'_> {
    /// Whether VNNI pays: where columns are not whole groups and few products use each, interleaving
    /// takes longer than converting in place.
    pub(crate) fn pay(&self, form: Option<GemvForm>) -> bool {
        let skinny = form == Some(GemvForm::Dot) && self.a.shape()[0] <= MAX_BYTEWISE_ROWS;
        !skinny || as_vnni4(self.b.t()).is_some()
    }

    /// # Safety
    /// As for [`crate::driver::int8::gemm_into`]; the processor must have AVX-512 VNNI.
    pub(crate) unsafe fn multiply(
        &self,
        form: Option<GemvForm>,
        c: View<*mut Wrapping<i32>>,
        workspace: &mut Workspace,
    ) {
        for rows in chunks(c.shape[0], self.rows_per_block()) {
            let part = Self { a: self.a.rows(rows.clone()), ..*self };
            let c = View { data: c.ptr_at([rows.start, 0]), shape: [rows.len(), c.shape[1]], ..c };
            // SAFETY: the caller's.
            unsafe { part.multiply_part(form, c, workspace) };
        }
    }

    /// The rows whose compensation is computed before they are multiplied, while they are still
    /// cached; but with many columns, packing `b` once for every block of rows would cost more.
    fn rows_per_block(&self) -> usize {
        let ([rows, depth], cols) = (self.a.shape(), self.b.shape()[1]);
        let part = (Params::get(Isa::Avx512Vnni).compensated_bytes / depth).max(ROWS);
        if self.signs[0] == self.signs[1] && cols <= part { part } else { rows }
    }

    /// # Safety
    /// As for [`Self::multiply`].
    unsafe fn multiply_part(
        &self,
        form: Option<GemvForm>,
        c: View<*mut Wrapping<i32>>,
        workspace: &mut Workspace,
    ) {
        let mut buffer = std::mem::take(&mut workspace.compensation);
        // SAFETY: the caller's, for all of it.
        unsafe {
            match self.signs {
                [true, false] => self.run::<Avx512Vnni4Signed, true, false>(
                    form,
                    c,
                    Accumulate::Overwrite,
                    workspace,
                ),
                [false, true] => self.run::<Avx512Vnni4Unsigned, false, false>(
                    form,
                    c,
                    Accumulate::Overwrite,
                    workspace,
                ),
                [true, true] => {
                    let compensation = self.compensation(-128, &mut buffer);
                    self.run::<Avx512Vnni4Signed, true, true>(form, c, compensation, workspace);
                }
                [false, false] => {
                    let compensation = self.compensation(128, &mut buffer);
                    self.run::<Avx512Vnni4Unsigned, false, true>(form, c, compensation, workspace);
                }
            }
        }
        workspace.compensation = buffer;
    }

    /// # Safety
    /// As for [`Self::multiply_part`]; there must be the biases of the accumulation.
    unsafe fn run<
        V: Vector<Elem = Vnni4> + From<__m512>,
        const SIGNED: bool,
        const FLIP_SIGNS: bool,
    >(
        &self,
        form: Option<GemvForm>,
        c: View<*mut Wrapping<i32>>,
        accumulate: Accumulate<Vnni4>,
        workspace: &mut Workspace,
    ) where
        Vnni4Operand<SIGNED, FLIP_SIGNS>: SkinnyElement<Sum = Vnni4>,
    {
        let kernels = vnni4_kernels(SIGNED);
        let epilogue = Epilogue::of(c.cast(), Vnni4::ONE, accumulate, &kernels.packing.pack_b);
        // SAFETY: the caller's.
        let a = unsafe { Interleaved::<Vnni4Layout<false>>::new(self.a, false) };
        if form == Some(GemvForm::Dot)
            && let Some(b) = as_vnni4(self.b.t())
        {
            let b = b.t().cast::<Vnni4Operand<SIGNED, FLIP_SIGNS>>();
            let store =
                |sums: &[Vnni4], width, origin, size| epilogue.store(sums, width, origin, size);
            let (form, isa) = (GemvForm::Dot, Isa::Avx512Vnni);
            return Skinny { a: &a, b, isa, form, store: &store }.run(workspace);
        }
        if form == Some(GemvForm::Axpy) {
            let axpy = AxpyVnni4 { a: &a, b: self.b, epilogue: &epilogue };
            // SAFETY: the caller's.
            return unsafe { axpy.run::<V, FLIP_SIGNS>(workspace) };
        }
        // SAFETY: the caller's.
        let b = unsafe { Interleaved::<Vnni4Layout<FLIP_SIGNS>>::new(self.b, true) };
        let depth = self.a.shape()[1].div_ceil(4);
        let a = as_vnni4(self.a).map_or(Operand::Implicit(&a), Operand::Matrix);
        gemm_blocked(kernels, epilogue, depth, a, Operand::Implicit(&b), workspace);
    }

    /// So many times the row sums of `a`, as a bias.
    ///
    /// # Safety
    /// The processor must have AVX-512 VNNI.
    unsafe fn compensation(&self, times: i32, buffer: &mut Buffer) -> Accumulate<Vnni4> {
        let rows = self.a.shape()[0];
        let compensation = buffer.as_mut_slice::<Vnni4>(rows.next_multiple_of(ROWS));
        for rows in chunks(rows, ROWS) {
            let compensation = &mut compensation[rows.start..][..ROWS];
            // SAFETY: the caller's. The accumulated operand is signed where `a` is.
            unsafe {
                match self.signs[0] {
                    true => self.row_sums::<Avx512Vnni4Unsigned>(rows, times, compensation),
                    false => self.row_sums::<Avx512Vnni4Signed>(rows, times, compensation),
                }
            }
        }
        Accumulate::RowBias(compensation.as_ptr())
    }

    /// So many times the sums of up to [`ROWS`] rows.
    ///
    /// # Safety
    /// As for [`Self::compensation`].
    unsafe fn row_sums<V: Vector<Elem = Vnni4>>(
        &self,
        rows: Range<usize>,
        times: i32,
        to: &mut [Vnni4],
    ) {
        let mut sums = [V::splat(Vnni4::ZERO); ROWS];
        if let Some(a) = as_vnni4(self.a.rows(rows.clone())) {
            let ([count, len], [stride, _]) = (a.shape(), a.strides());
            // SAFETY: the rows of the operand; the caller owes the instruction set.
            unsafe { add_rows(StridedRows { first: a.first(), stride, count, len }, &mut sums) };
        } else {
            // SAFETY: the caller's.
            let a = unsafe { Interleaved::<Vnni4Layout<false>>::new(self.a, false) };
            let mut groups = [Vnni4::ZERO; ROWS * STEPS + PACK_PADDING];
            for depth in chunks(a.size()[1], STEPS) {
                a.pack(rows.clone(), depth.clone(), &mut groups, STEPS);
                let (first, stride) = (groups.as_ptr(), STEPS as isize);
                let rows = StridedRows { first, stride, count: rows.len(), len: depth.len() };
                // SAFETY: the rows were packed; the caller owes the instruction set.
                unsafe { add_rows(rows, &mut sums) };
            }
        }
        assert!(to.len() >= ROWS);
        // SAFETY: there is room for a vector; the caller owes the instruction set.
        unsafe { store_reduced(sums, Vnni4(times.to_ne_bytes()), to.as_mut_ptr()) };
    }
}

/// An `a` as VNNI4 in place, if the steps of its rows are whole groups.
fn as_vnni4(a: MatrixRef<'_, u8>) -> Option<MatrixRef<'_, Vnni4>> {
    let ([rows, depth], [row, step]) = (a.shape(), a.strides());
    if step != 1 || depth % 4 != 0 || (row % 4 != 0 && rows > 1) {
        return None;
    }
    let view = View { data: a.first().cast(), shape: [rows, depth / 4], strides: [row / 4, 1] };
    // SAFETY: the same memory, for as long.
    Some(unsafe { MatrixRef::new(view) })
}

/// Adds the bytes of rows to sums.
///
/// # Safety
/// The rows must be readable, and the processor must have the instruction set.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn add_rows<V: Vector<Elem = Vnni4>>(rows: StridedRows<*const Vnni4>, sums: &mut [V; ROWS]) {
    let ones = V::splat(Vnni4([1; 4]));
    let whole = rows.len / V::LANES * V::LANES;
    for (i, sum) in sums.iter_mut().enumerate().take(rows.count) {
        let row = rows.first.wrapping_offset(i as isize * rows.stride);
        for at in (0..whole).step_by(V::LANES) {
            // SAFETY: the caller's, for so many lanes.
            *sum = ones.mul_add(unsafe { V::load(row.wrapping_add(at)) }, *sum);
        }
        if whole < rows.len {
            let rest = row.wrapping_add(whole);
            // SAFETY: the caller's, for the remainder of the row.
            *sum = ones.mul_add(unsafe { V::load_partial(rest, rows.len - whole) }, *sum);
        }
    }
}

/// Reduces the lanes of every sum, and stores so many times the totals.
///
/// # Safety
/// `to` must be writable for a vector, and the processor must have the instruction set.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn store_reduced<V: Vector<Elem = Vnni4>>(sums: [V; ROWS], times: Vnni4, to: *mut Vnni4) {
    let mut total = V::splat(Vnni4::ZERO);
    for lanes in V::transpose(sums) {
        total = total.add(lanes);
    }
    // SAFETY: the caller's.
    unsafe { V::splat(times).mul(total).store(to) };
}
