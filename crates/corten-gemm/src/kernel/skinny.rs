//! GEMV kernels for one to several rows, in the two classic forms (Golub & Van Loan, "Matrix
//! Computations", section 1.1): dot products where the steps of the large operand are contiguous, and
//! axpy updates, several rows at a time, where its columns are. The large operand is streamed once and
//! not packed.

use crate::simd::convert::ConvertLoad;
use crate::simd::vector::{MAX_LANES, Vector, unroll_rows};
use crate::types::element::{Pod, Scalar};
use crate::types::isa::Isa;
use crate::types::strided_rows::StridedRows;

/// The most dot products of a kernel, padded to whole vectors.
pub(crate) const MAX_DOTS: usize = 32;

/// Rows of the large operand that an axpy kernel reads at a time, so that sums are loaded and stored
/// less often.
pub(crate) const AXPY_UNROLL: usize = 4;

/// The most rows of the result that an axpy kernel updates.
pub(crate) const AXPY_MR: usize = 4;

/// The arguments of a dot kernel: rows of the small operand, with contiguous steps, and columns.
pub(crate) struct DotArgs<E, S> {
    pub(crate) depth: usize,
    pub(crate) a: *const E,
    /// The leading dimension of `a`.
    pub(crate) lda: isize,
    pub(crate) b: *const S,
    /// The distance of two columns of `b`.
    pub(crate) ldb: isize,
    /// Where the dot products go; rows are `width` apart.
    pub(crate) to: *mut E,
    pub(crate) width: usize,
    /// Whether the next columns are prefetched.
    pub(crate) prefetch: bool,
}

/// The arguments of an axpy kernel: rows of the large operand whose multiples are added to sums.
pub(crate) struct AxpyArgs<E, S> {
    /// The rows of the large operand.
    pub rows: StridedRows<*const S>,
    /// A factor per row of the large operand, for every row of the result.
    pub factors: [E; AXPY_MR * AXPY_UNROLL],
    /// The sums of the first row; rows are `width` apart.
    pub to: *mut E,
    pub width: usize,
    /// Whether sums are stored without being loaded.
    pub first: bool,
    /// Whether the next rows are prefetched.
    pub prefetch: bool,
}

/// # Safety
/// The operands must be readable, the sums writable, and the processor must have the instruction set.
pub(crate) type DotKernel<E, S> = unsafe fn(&DotArgs<E, S>);

/// # Safety
/// As for [`DotKernel`].
type AxpyKernel<E, S> = unsafe fn(&AxpyArgs<E, S>);

/// The dot kernels for some number of rows.
pub(crate) struct DotKernels<E, S> {
    /// The columns of the blocked one.
    pub(crate) cols: usize,
    pub(crate) blocked: DotKernel<E, S>,
    /// The kernel for one column.
    pub(crate) single: DotKernel<E, S>,
}

/// The axpy kernels for some number of rows.
pub(crate) struct AxpyKernels<E, S> {
    /// [`AXPY_UNROLL`] rows of the large operand at a time.
    pub blocked: AxpyKernel<E, S>,
    /// One row.
    pub single: AxpyKernel<E, S>,
}

/// The kernels of an instruction set, for 1, 2, 3 ... rows.
pub struct SkinnyKernels<E: 'static, S: 'static> {
    pub(crate) dot: &'static [DotKernels<E, S>],
    pub(crate) axpy: &'static [AxpyKernels<E, S>],
}

/// Element types of the large operand of a skinny product.
pub trait SkinnyElement: Pod + 'static {
    /// The type of the sums.
    type Sum: Scalar;

    /// The kernels of an instruction set.
    #[doc(hidden)]
    fn skinny_kernels(isa: Isa) -> &'static SkinnyKernels<Self::Sum, Self>;
}

/// The dot kernel.
#[inline(always)]
pub(crate) unsafe fn dot<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const COLS: usize>(
    args: &DotArgs<V::Elem, S>,
) {
    let mut sums = [[V::splat(V::Elem::ZERO); COLS]; ROWS];
    let whole = args.depth / V::LANES * V::LANES;
    let (mut a, mut b) = (args.a, args.b);
    let next = COLS as isize * args.ldb;
    for _ in (0..whole).step_by(V::LANES) {
        if args.prefetch {
            for j in 0..COLS as isize {
                V::prefetch_l2(b.wrapping_offset(next + j * args.ldb).cast());
            }
        }
        // SAFETY: the caller's: there are so many steps.
        unsafe {
            dot_step(
                args,
                |i| V::load(a.wrapping_offset(i)),
                |j| V::load_convert(b.wrapping_offset(j)),
                &mut sums,
            )
        };
        (a, b) = (a.wrapping_add(V::LANES), b.wrapping_add(V::LANES));
    }
    let rest = args.depth - whole;
    if rest > 0 {
        // SAFETY: the caller's: there are so many steps.
        unsafe {
            dot_step(
                args,
                |i| V::load_partial(a.wrapping_offset(i), rest),
                |j| V::load_convert_partial(b.wrapping_offset(j), rest),
                &mut sums,
            )
        };
    }
    // SAFETY: the caller's.
    unsafe { reduce_dots(args, &sums) };
}

/// One vector of steps: `a` and `b` load at a distance.
#[inline(always)]
fn dot_step<V: Vector, S, const ROWS: usize, const COLS: usize>(
    args: &DotArgs<V::Elem, S>,
    a: impl Fn(isize) -> V,
    b: impl Fn(isize) -> V,
    sums: &mut [[V; COLS]; ROWS],
) {
    let mut columns = [V::splat(V::Elem::ZERO); COLS];
    for (j, column) in columns.iter_mut().enumerate() {
        *column = b(j as isize * args.ldb);
    }
    unroll_rows!(ROWS, |I| {
        let row = a(I as isize * args.lda);
        for (sum, &column) in sums[I].iter_mut().zip(&columns) {
            *sum = row.mul_add(column, *sum);
        }
    });
}

/// Reduces the lanes of every dot product.
///
/// # Safety
/// There must be room for the dot products.
#[inline(always)]
unsafe fn reduce_dots<V: Vector, S, const ROWS: usize, const COLS: usize>(
    args: &DotArgs<V::Elem, S>,
    sums: &[[V; COLS]; ROWS],
) {
    let flat = sums.as_flattened();
    let mut totals = [V::Elem::ZERO; MAX_DOTS];
    for (part, totals) in flat.chunks(V::LANES).zip(totals.chunks_exact_mut(V::LANES)) {
        let mut rows = [V::splat(V::Elem::ZERO); MAX_LANES];
        rows[..part.len()].copy_from_slice(part);
        let columns = V::transpose(rows);
        let total = columns[1..V::LANES].iter().fold(columns[0], |sum, &lane| sum.add(lane));
        // SAFETY: the chunk has as many elements as the vector.
        unsafe { total.store(totals.as_mut_ptr()) };
    }
    for (i, totals) in totals[..ROWS * COLS].chunks_exact(COLS).enumerate() {
        for (j, &total) in totals.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { *args.to.add(i * args.width + j) = total };
        }
    }
}

/// The axpy kernel.
#[inline(always)]
unsafe fn axpy<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const UNROLL: usize>(
    args: &AxpyArgs<V::Elem, S>,
) {
    let mut factors = [[V::splat(V::Elem::ZERO); UNROLL]; ROWS];
    unroll_rows!(ROWS, |I| {
        for (j, factor) in factors[I].iter_mut().enumerate() {
            *factor = V::splat(args.factors[I * AXPY_UNROLL + j]);
        }
    });
    let whole = args.rows.len / V::LANES * V::LANES;
    let rest = args.rows.len - whole;
    for at in (0..whole).step_by(V::LANES) {
        // SAFETY: the caller's: the rows are so long.
        unsafe { axpy_step(args, &factors, at, |row| V::load_convert(row)) };
    }
    if rest > 0 {
        // SAFETY: the caller's: the rows are so long, and there is room for whole vectors.
        unsafe { axpy_step(args, &factors, whole, |row| V::load_convert_partial(row, rest)) };
    }
}

/// One vector of columns.
///
/// # Safety
/// As for [`AxpyKernel`].
#[inline(always)]
unsafe fn axpy_step<V: Vector, S, const ROWS: usize, const UNROLL: usize>(
    args: &AxpyArgs<V::Elem, S>,
    factors: &[[V; UNROLL]; ROWS],
    at: usize,
    load: impl Fn(*const S) -> V,
) {
    let row = args.rows.first.wrapping_add(at);
    let mut columns = [V::splat(V::Elem::ZERO); UNROLL];
    for (j, column) in columns.iter_mut().enumerate() {
        *column = load(row.wrapping_offset(j as isize * args.rows.stride));
    }
    if args.prefetch {
        for j in UNROLL..2 * UNROLL {
            V::prefetch(row.wrapping_offset(j as isize * args.rows.stride).cast());
        }
    }
    unroll_rows!(ROWS, |I| {
        let to = args.to.wrapping_add(I * args.width + at);
        // SAFETY: the caller's.
        let old = if args.first { V::splat(V::Elem::ZERO) } else { unsafe { V::load(to) } };
        let terms = factors[I].iter().zip(&columns);
        let sum = terms.fold(old, |sum, (factor, &column)| factor.mul_add(column, sum));
        // SAFETY: the caller's.
        unsafe { sum.store(to) };
    });
}

/// The kernels of each instruction set: one source, compiled with the features.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        pub(crate) mod $name {
            use super::{DotArgs, ConvertLoad, AxpyArgs};

            /// # Safety
            /// As for [`super::DotKernel`].
            $(#[target_feature(enable = $features)])?
            pub(crate) unsafe fn dot<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const COLS: usize>(
                args: &DotArgs<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::dot::<V, S, ROWS, COLS>(args) }
            }

            /// # Safety
            /// As for [`super::AxpyKernel`].
            $(#[target_feature(enable = $features)])?
            pub(crate) unsafe fn axpy<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const UNROLL: usize>(
                args: &AxpyArgs<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::axpy::<V, S, ROWS, UNROLL>(args) }
            }
        }
    )+};
}

compiled! { on_any; }

#[cfg(target_arch = "x86_64")]
compiled! {
    on_avx2 with "avx2,fma,f16c";
    on_avx512 with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
}

/// The kernels of a vector type. Their accumulators, a vector per column, and one of a row fit its
/// registers.
macro_rules! skinny_kernels_of {
    ($level:ident, $vector:ty, $stored:ty, [$($rows:literal: $cols:literal),+]) => {
        &const {
            $crate::kernel::skinny::SkinnyKernels {
                dot: skinny_kernels_of!(@dot $level, $vector, $stored, [$($rows: $cols),+]),
                axpy: &[
                    skinny_kernels_of!(@axpy $level, $vector, $stored, 1),
                    skinny_kernels_of!(@axpy $level, $vector, $stored, 2),
                    skinny_kernels_of!(@axpy $level, $vector, $stored, 3),
                    skinny_kernels_of!(@axpy $level, $vector, $stored, 4),
                ],
            }
        }
    };
    (@dot $level:ident, $vector:ty, $stored:ty, [$($rows:literal: $cols:literal),+]) => {
        &[$($crate::kernel::skinny::DotKernels {
            cols: $cols,
            blocked: $level::dot::<$vector, $stored, $rows, $cols>,
            single: $level::dot::<$vector, $stored, $rows, 1>,
        }),+]
    };
    (@axpy $level:ident, $vector:ty, $stored:ty, $rows:literal) => {
        $crate::kernel::skinny::AxpyKernels {
            blocked: $level::axpy::<$vector, $stored, $rows, { $crate::kernel::skinny::AXPY_UNROLL }>,
            single: $level::axpy::<$vector, $stored, $rows, 1>,
        }
    };
}

pub(crate) use skinny_kernels_of;
