//! Products with few rows where the columns of the large factor lie side by side: multiples of its
//! lines are added up, two times four lines at a time.

use crate::driver::epilogue::Epilogue;
use crate::kernel::skinny::SmallOperand;
use crate::simd::vector::Vector;
use crate::simd::vnni4::{COLUMNS_PER_VECTOR, flip_signs, interleave_4_rows};
use crate::types::view::MatrixRef;
use crate::types::vnni::Vnni4;
use crate::types::workspace::Workspace;
use std::arch::x86_64::__m512;

/// Lines of a quad, and those that are read at the same time.
const VNNI: usize = 4;
const UNROLL: usize = 2 * VNNI;

/// Bytes of sums that lines are added to: a part of a first-level cache.
const AXPY_BYTES: usize = 16 << 10;

/// With more rows than this, a processor does not ask for the next lines early enough by itself.
const HW_PREFETCH_ROWS: usize = 2;

/// The least columns that are read of a line at a time, for memory to keep up.
const MIN_COLUMNS: usize = 512;

/// A product whose second factor is the large one.
pub(crate) struct AxpyVnni4<'a> {
    pub a: &'a dyn SmallOperand<Vnni4>,
    pub b: MatrixRef<'a, u8>,
    pub epilogue: &'a Epilogue<'a, Vnni4>,
}

/// Some lines, and the sums that their multiples are added to.
struct AxpyArgs {
    first: *const u8,
    stride: isize,
    /// How many lines there are, and their columns.
    count: usize,
    len: usize,
    /// The quads of the lines' steps in every row of the first factor.
    a: *const Vnni4,
    lda: isize,
    rows: usize,
    /// The sums of the first row; rows are `width` apart.
    to: *mut Vnni4,
    width: usize,
    /// Whether the next lines are to be brought near.
    prefetch: bool,
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
        let width = (AXPY_BYTES / size_of::<Vnni4>() / rows).max(MIN_COLUMNS);
        let width = width.min(cols).next_multiple_of(COLUMNS_PER_VECTOR);
        let sums = workspace.c.as_mut_slice::<Vnni4>(rows * width);
        for chunk in (0..cols).step_by(width) {
            let chunk = chunk..(chunk + width).min(cols);
            sums.fill(Vnni4::ZERO);
            for at in (0..depth).step_by(UNROLL) {
                let count = (depth - at).min(UNROLL);
                let args = AxpyArgs {
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
                // SAFETY: the lines lie in the factor, the rows have a quad for every four of them,
                // and there is room for whole registers of sums of all rows; the caller owes the
                // instructions.
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

/// Adds multiples of so many quads of lines to the sums of every row.
///
/// # Safety
/// What the job names must be readable, and writable where sums go, and the processor must have the
/// instructions.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn axpy_kernel<
    V: Vector<Elem = Vnni4> + From<__m512>,
    const QUADS: usize,
    const FLIP_SIGNS: bool,
>(
    args: &AxpyArgs,
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
