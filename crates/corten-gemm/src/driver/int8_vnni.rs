//! Products of bytes by quads: an instruction multiplies four bytes without signs by four with.
//!
//! Where both factors have signs or neither has, the second one's sign bits are flipped. What that
//! adds to a sum, or takes from it, is 128 times the sum of a row of the first factor.

use crate::driver::epilogue::{Accumulate, Epilogue};
use crate::driver::gemm::{chunks, gemm_blocked};
use crate::driver::int8_axpy::AxpyVnni4;
use crate::kernel::micro_kernel::{Instructions, Sealed, vnni4_kernels};
use crate::kernel::skinny::{GemvForm, Skinny, SkinnyElement};
use crate::pack::blocks::{ImplicitOperand, Operand, PACK_PADDING};
use crate::pack::interleave::{Interleaved, Vnni4Layout};
use crate::pack::pack_kernels::Lines;
use crate::simd::vector::{Avx512SignedQuads, Avx512UnsignedQuads, MOST_LANES, Register};
use crate::simd::vnni4::{Quad, Vnni4Operand};
use crate::types::view::{Source, View};
use crate::types::workspace::{Room, Scratch};
use std::arch::x86_64::*;
use std::num::Wrapping;
use std::ops::Range;

/// Rows, and quads of a row, that are added up at a time.
const ROWS: usize = MOST_LANES;
const STEPS: usize = 64;

/// Bytes of the first factor whose sums are computed before they are multiplied: a part of a
/// second-level cache.
const BYTES_AT_ONCE: usize = 256 << 10;

/// The most rows of a product whose large factor is read byte by byte.
const MAX_BYTEWISE_ROWS: usize = 4;

/// Factors, and whether their bytes have signs.
pub(crate) struct Bytes<'a> {
    pub a: Source<'a, u8>,
    pub b: Source<'a, u8>,
    pub signs: [bool; 2],
}

impl Bytes<'_> {
    /// Whether quads are faster: where columns are no whole ones, and few sums are made of each,
    /// bringing them into order takes longer than reading them as they lie.
    pub(crate) fn pay(&self, form: Option<GemvForm>) -> bool {
        let skinny = form == Some(GemvForm::Dot) && self.a.shape()[0] <= MAX_BYTEWISE_ROWS;
        !skinny || quads_of(self.b.t()).is_some()
    }

    /// # Safety
    /// As for [`crate::driver::int8::sums`]; the processor must have AVX-512 VNNI.
    pub(crate) unsafe fn multiply(
        &self,
        form: Option<GemvForm>,
        c: View<*mut Wrapping<i32>>,
        workspace: &mut Scratch,
    ) {
        for rows in chunks(c.shape[0], self.rows_at_once()) {
            let part = Self { a: self.a.rows(rows.clone()), ..*self };
            let c = View { data: c.place([rows.start, 0]), shape: [rows.len(), c.shape[1]], ..c };
            // SAFETY: the caller's.
            unsafe { part.multiply_part(form, c, workspace) };
        }
    }

    /// The rows whose sums are computed before they are multiplied. They are still in a cache then; but
    /// with many columns it costs more that these are brought into order for every part.
    fn rows_at_once(&self) -> usize {
        let ([rows, depth], cols) = (self.a.shape(), self.b.shape()[1]);
        let part = (BYTES_AT_ONCE / depth).max(ROWS);
        if self.signs[0] == self.signs[1] && cols <= part { part } else { rows }
    }

    /// # Safety
    /// As for [`Self::multiply`].
    unsafe fn multiply_part(
        &self,
        form: Option<GemvForm>,
        c: View<*mut Wrapping<i32>>,
        workspace: &mut Scratch,
    ) {
        let mut room = std::mem::take(&mut workspace.starts);
        // SAFETY: the caller's, for all of it.
        unsafe {
            match self.signs {
                [true, false] => self.run::<Avx512SignedQuads, true, false>(
                    form,
                    c,
                    Accumulate::Overwrite,
                    workspace,
                ),
                [false, true] => self.run::<Avx512UnsignedQuads, false, false>(
                    form,
                    c,
                    Accumulate::Overwrite,
                    workspace,
                ),
                [true, true] => {
                    let starts = self.starts(-128, &mut room);
                    self.run::<Avx512SignedQuads, true, true>(form, c, starts, workspace);
                }
                [false, false] => {
                    let starts = self.starts(128, &mut room);
                    self.run::<Avx512UnsignedQuads, false, true>(form, c, starts, workspace);
                }
            }
        }
        workspace.starts = room;
    }

    /// # Safety
    /// As for [`Self::multiply_part`]; there must be what sums start from.
    unsafe fn run<
        V: Register<Elem = Quad> + From<__m512>,
        const SIGNED: bool,
        const FLIPPED: bool,
    >(
        &self,
        form: Option<GemvForm>,
        c: View<*mut Wrapping<i32>>,
        accumulate: Accumulate<Quad>,
        workspace: &mut Scratch,
    ) where
        Vnni4Operand<SIGNED, FLIPPED>: SkinnyElement<Sum = Quad>,
    {
        let kernels = vnni4_kernels(SIGNED);
        let epilogue = Epilogue::of(c.cast(), Quad::ONE, accumulate, &kernels.pack);
        // SAFETY: the caller's.
        let a = unsafe { Interleaved::<Vnni4Layout<false>>::new(self.a, false) };
        if form == Some(GemvForm::Dot)
            && let Some(b) = quads_of(self.b.t())
        {
            let b = b.t().cast::<Vnni4Operand<SIGNED, FLIPPED>>();
            let store =
                |sums: &[Quad], width, place, size| epilogue.store(sums, width, place, size);
            let (form, instructions) = (GemvForm::Dot, Instructions::Avx512Vnni);
            return Skinny { a: &a, b, instructions, form, store: &store }.run(workspace);
        }
        if form == Some(GemvForm::Axpy) {
            let lines = AxpyVnni4 { a: &a, b: self.b, epilogue: &epilogue };
            // SAFETY: the caller's.
            return unsafe { lines.run::<V, FLIPPED>(workspace) };
        }
        // SAFETY: the caller's.
        let b = unsafe { Interleaved::<Vnni4Layout<FLIPPED>>::new(self.b, true) };
        let depth = self.a.shape()[1].div_ceil(4);
        let a = quads_of(self.a).map_or(Operand::Implicit(&a), Operand::Matrix);
        gemm_blocked(kernels, epilogue, depth, a, Operand::Implicit(&b), workspace);
    }

    /// So many times the sums of the rows of the first factor.
    ///
    /// # Safety
    /// The processor must have AVX-512 VNNI.
    unsafe fn starts(&self, times: i32, room: &mut Room) -> Accumulate<Quad> {
        let rows = self.a.shape()[0];
        let starts = room.elements::<Quad>(rows.next_multiple_of(ROWS));
        for rows in chunks(rows, ROWS) {
            let starts = &mut starts[rows.start..][..ROWS];
            // SAFETY: the caller's. What sums are made of has signs where the factor has.
            unsafe {
                match self.signs[0] {
                    true => self.sum_rows::<Avx512UnsignedQuads>(rows, times, starts),
                    false => self.sum_rows::<Avx512SignedQuads>(rows, times, starts),
                }
            }
        }
        Accumulate::RowBias(starts.as_ptr())
    }

    /// So many times the sums of up to [`ROWS`] rows.
    ///
    /// # Safety
    /// As for [`Self::starts`].
    unsafe fn sum_rows<V: Register<Elem = Quad>>(
        &self,
        rows: Range<usize>,
        times: i32,
        to: &mut [Quad],
    ) {
        let mut sums = [V::splat(Quad::ZERO); ROWS];
        if let Some(a) = quads_of(self.a.rows(rows.clone())) {
            let ([count, len], [stride, _]) = (a.shape(), a.strides());
            // SAFETY: the lines of the factor; the caller owes the instructions.
            unsafe { add_up(Lines { first: a.first(), stride, count, len }, &mut sums) };
        } else {
            // SAFETY: the caller's.
            let a = unsafe { Interleaved::<Vnni4Layout<false>>::new(self.a, false) };
            let mut quads = [Quad::ZERO; ROWS * STEPS + PACK_PADDING];
            for depth in chunks(a.size()[1], STEPS) {
                a.pack(rows.clone(), depth.clone(), &mut quads, STEPS);
                let (first, stride) = (quads.as_ptr(), STEPS as isize);
                let lines = Lines { first, stride, count: rows.len(), len: depth.len() };
                // SAFETY: the lines were filled; the caller owes the instructions.
                unsafe { add_up(lines, &mut sums) };
            }
        }
        assert!(to.len() >= ROWS);
        // SAFETY: there is room for a register; the caller owes the instructions.
        unsafe { store_reduced(sums, Quad(times.to_ne_bytes()), to.as_mut_ptr()) };
    }
}

/// A first factor as quads where it lies, if the steps of a row are whole ones.
fn quads_of(a: Source<'_, u8>) -> Option<Source<'_, Quad>> {
    let ([rows, depth], [row, step]) = (a.shape(), a.strides());
    if step != 1 || depth % 4 != 0 || (row % 4 != 0 && rows > 1) {
        return None;
    }
    let view = View { data: a.first().cast(), shape: [rows, depth / 4], strides: [row / 4, 1] };
    // SAFETY: the same memory, for as long.
    Some(unsafe { Source::new(view) })
}

/// Adds the bytes of lines to sums.
///
/// # Safety
/// The lines must be readable, and the processor must have the instructions.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn add_up<V: Register<Elem = Quad>>(lines: Lines<*const Quad>, sums: &mut [V; ROWS]) {
    let ones = V::splat(Quad([1; 4]));
    let whole = lines.len / V::LANES * V::LANES;
    for (i, sum) in sums.iter_mut().enumerate().take(lines.count) {
        let line = lines.first.wrapping_offset(i as isize * lines.stride);
        for at in (0..whole).step_by(V::LANES) {
            // SAFETY: the caller's, for so many lanes.
            *sum = ones.mul_add(unsafe { V::load(line.wrapping_add(at)) }, *sum);
        }
        if whole < lines.len {
            let rest = line.wrapping_add(whole);
            // SAFETY: the caller's, for the rest of the line.
            *sum = ones.mul_add(unsafe { V::load_some(rest, lines.len - whole) }, *sum);
        }
    }
}

/// Adds up the lanes of every sum, and stores so many times the totals.
///
/// # Safety
/// `to` must be writable for a register, and the processor must have the instructions.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn store_reduced<V: Register<Elem = Quad>>(sums: [V; ROWS], times: Quad, to: *mut Quad) {
    let mut total = V::splat(Quad::ZERO);
    for lanes in V::transpose(sums) {
        total = total.add(lanes);
    }
    // SAFETY: the caller's.
    unsafe { V::splat(times).mul(total).store(to) };
}
