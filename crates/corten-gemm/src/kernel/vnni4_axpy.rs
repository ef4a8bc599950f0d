//! GEMV in axpy form of bytes: VNNI4 groups are interleaved in registers from eight rows at a time.

use crate::simd::vector::Vector;
use crate::simd::vnni4::{COLUMNS_PER_VECTOR, flip_signs, interleave_4_rows};
use crate::types::element::Scalar;
use crate::types::vnni::Vnni4;
use std::arch::x86_64::__m512;

/// Lines of a quad, and those that are read at the same time.
pub(crate) const VNNI: usize = 4;

pub(crate) const UNROLL: usize = 2 * VNNI;

/// Some lines, and the sums that their multiples are added to.
pub(crate) struct Vnni4AxpyArgs {
    pub first: *const u8,
    pub stride: isize,
    /// How many lines there are, and their columns.
    pub count: usize,
    pub len: usize,
    /// The quads of the lines' steps in every row of the first factor.
    pub a: *const Vnni4,
    pub lda: isize,
    pub rows: usize,
    /// The sums of the first row; rows are `width` apart.
    pub to: *mut Vnni4,
    pub width: usize,
    /// Whether the next lines are to be brought near.
    pub prefetch: bool,
}

/// Adds multiples of so many quads of lines to the sums of every row.
///
/// # Safety
/// What the job names must be readable, and writable where sums go, and the processor must have the
/// instructions.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn axpy_kernel<
    V: Vector<Elem = Vnni4> + From<__m512>,
    const QUADS: usize,
    const FLIP_SIGNS: bool,
>(
    args: &Vnni4AxpyArgs,
) {
    for at in (0..args.len).step_by(COLUMNS_PER_VECTOR) {
        let columns = (args.len - at).min(COLUMNS_PER_VECTOR);
        let mut quads = [[V::splat(Vnni4::ZERO); 4]; QUADS];
        for (i, quads) in quads.iter_mut().enumerate() {
            let first = args.first.wrapping_offset((VNNI * i) as isize * args.stride);
            // SAFETY: the caller's, for so many lines and columns.
            let strided = unsafe {
                interleave_4_rows(
                    first.wrapping_add(at),
                    args.stride,
                    args.count - VNNI * i,
                    columns,
                )
            };
            for (quads, line) in quads.iter_mut().zip(strided) {
                *quads = V::from(if FLIP_SIGNS { flip_signs(line) } else { line });
            }
        }
        if args.prefetch {
            for i in args.count as isize..(args.count + UNROLL) as isize {
                let line = args.first.wrapping_offset(i * args.stride);
                V::prefetch_l2(line.wrapping_add(at).cast());
            }
        }
        for row in 0..args.rows {
            let a = args.a.wrapping_offset(row as isize * args.lda);
            let to = args.to.wrapping_add(row * args.width + at);
            // SAFETY: the caller's.
            unsafe { axpy_row(a, &quads, to) };
        }
    }
}

/// Adds multiples of quads to the sums of a row.
///
/// # Safety
/// As for [`axpy_kernel`].
#[inline(always)]
unsafe fn axpy_row<V: Vector<Elem = Vnni4>, const QUADS: usize>(
    a: *const Vnni4,
    quads: &[[V; 4]; QUADS],
    to: *mut Vnni4,
) {
    let mut sums = [V::splat(Vnni4::ZERO); 4];
    for (v, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *sum = unsafe { V::load(to.wrapping_add(v * V::LANES)) };
    }
    for (i, quads) in quads.iter().enumerate() {
        // SAFETY: the caller's.
        let factor = V::splat(unsafe { *a.wrapping_add(i) });
        for (sum, &quad) in sums.iter_mut().zip(quads) {
            *sum = factor.mul_add(quad, *sum);
        }
    }
    for (v, sum) in sums.into_iter().enumerate() {
        // SAFETY: the caller's.
        unsafe { sum.store(to.wrapping_add(v * V::LANES)) };
    }
}
