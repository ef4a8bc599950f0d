//! GEMV in axpy form for int8: rows are interleaved into VNNI4 in registers, up to eight at a time.

use crate::simd::vector::Vector;
use crate::simd::vnni4::{COLUMNS_PER_VECTOR, flip_signs, interleave_4_rows};
use crate::types::element::Scalar;
use crate::types::vnni::Vnni4;
use std::arch::x86_64::__m512;

/// Rows of a VNNI4 group, and those that are read at a time.
pub(crate) const VNNI: usize = 4;

pub(crate) const UNROLL: usize = 2 * VNNI;

/// Rows of the large operand whose multiples are added to sums.
pub(crate) struct Vnni4AxpyArgs {
    pub first: *const u8,
    pub stride: isize,
    /// The rows and their columns.
    pub count: usize,
    pub len: usize,
    /// The VNNI4 factors of the rows, for every row of the result.
    pub a: *const Vnni4,
    pub lda: isize,
    pub rows: usize,
    /// The sums of the first row; rows are `width` apart.
    pub to: *mut Vnni4,
    pub width: usize,
    /// Whether the next rows are prefetched.
    pub prefetch: bool,
}

/// The axpy kernel, for some groups of four rows.
///
/// # Safety
/// The operands must be readable, the sums writable, and the processor must have the instruction set.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn axpy_kernel<
    V: Vector<Elem = Vnni4> + From<__m512>,
    const GROUPS: usize,
    const FLIP_SIGNS: bool,
>(
    args: &Vnni4AxpyArgs,
) {
    for at in (0..args.len).step_by(COLUMNS_PER_VECTOR) {
        let columns = (args.len - at).min(COLUMNS_PER_VECTOR);
        let mut groups = [[V::splat(Vnni4::ZERO); 4]; GROUPS];
        for (i, groups) in groups.iter_mut().enumerate() {
            let first = args.first.wrapping_offset((VNNI * i) as isize * args.stride);
            // SAFETY: the caller's, for so many rows and columns.
            let vectors = unsafe {
                interleave_4_rows(
                    first.wrapping_add(at),
                    args.stride,
                    args.count - VNNI * i,
                    columns,
                )
            };
            for (groups, row) in groups.iter_mut().zip(vectors) {
                *groups = V::from(if FLIP_SIGNS { flip_signs(row) } else { row });
            }
        }
        if args.prefetch {
            for i in args.count as isize..(args.count + UNROLL) as isize {
                let row = args.first.wrapping_offset(i * args.stride);
                V::prefetch_l2(row.wrapping_add(at).cast());
            }
        }
        for row in 0..args.rows {
            let a = args.a.wrapping_offset(row as isize * args.lda);
            let to = args.to.wrapping_add(row * args.width + at);
            // SAFETY: the caller's.
            unsafe { axpy_row(a, &groups, to) };
        }
    }
}

/// Adds the products of the groups to a row of sums.
///
/// # Safety
/// As for [`axpy_kernel`].
#[inline(always)]
unsafe fn axpy_row<V: Vector<Elem = Vnni4>, const GROUPS: usize>(
    a: *const Vnni4,
    groups: &[[V; 4]; GROUPS],
    to: *mut Vnni4,
) {
    let mut sums = [V::splat(Vnni4::ZERO); 4];
    for (v, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *sum = unsafe { V::load(to.wrapping_add(v * V::LANES)) };
    }
    for (i, groups) in groups.iter().enumerate() {
        // SAFETY: the caller's.
        let factor = V::splat(unsafe { *a.wrapping_add(i) });
        for (sum, &group) in sums.iter_mut().zip(groups) {
            *sum = factor.mul_add(group, *sum);
        }
    }
    for (v, sum) in sums.into_iter().enumerate() {
        // SAFETY: the caller's.
        unsafe { sum.store(to.wrapping_add(v * V::LANES)) };
    }
}
