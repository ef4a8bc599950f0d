//! Products with few rows. The large factor is read once, as it lies: nothing of it is copied.
//!
//! Where the steps of the depth lie side by side the elements of the result are sums of products of
//! registers; where columns do, multiples of lines are added up, several lines at a time.

use crate::pack::blocks::{PACK_PADDING, pack_panel};
use crate::pack::convert_pack::Converted;
use crate::simd::convert::ConvertLoad;
use crate::simd::portable::Portable;
use crate::simd::vector::{MAX_LANES, Vector, unroll_rows};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{
    Avx2F32, Avx2F64, Avx2I32, Avx2I64, Avx512F32, Avx512F64, Avx512I32, Avx512I64,
};
use crate::types::element::{Pod, Scalar};
use crate::types::isa::Isa;
use crate::types::low_precision::{Bf16, F16};
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::MatrixRef;
use crate::types::workspace::{Buffer, Workspace};
use std::num::Wrapping;

/// The most sums of a kernel for dot products, filled up to whole registers.
pub(crate) const MAX_DOTS: usize = 32;

/// Lines that are read at the same time, so that sums are read and written less often.
const AXPY_UNROLL: usize = 4;

/// The most rows that multiples of lines are added to at a time.
const AXPY_MR: usize = 4;

/// Columns whose sums are brought to the result at a time.
const DOT_NC: usize = 64;

/// With more rows than this, a processor does not ask for the next lines early enough by itself.
const HW_PREFETCH_ROWS: usize = 2;

/// Bytes of a large factor that comes from memory, for all that a last cache may hold of it.
const LLC_BYTES: usize = 12 << 20;

/// Bytes of sums that lines are added to: a part of a first-level cache.
const AXPY_BYTES: usize = 16 << 10;

/// The same for a single row: a part of the next cache, so that lines from memory are read further.
const AXPY_BYTES_OF_ONE_ROW: usize = 64 << 10;

/// Which of the large factor's elements lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GemvForm {
    /// The steps of a column.
    Dot,
    /// The columns of a step.
    Axpy,
}

/// Dot products of rows of the small factor, whose steps lie side by side, with columns.
pub(crate) struct DotArgs<E, S> {
    pub(crate) depth: usize,
    pub(crate) a: *const E,
    /// From one row to the next.
    pub(crate) lda: isize,
    pub(crate) b: *const S,
    /// From one column to the next.
    pub(crate) ldb: isize,
    /// Where the sums go, rows `width` apart.
    pub(crate) to: *mut E,
    pub(crate) width: usize,
    /// Whether the next columns are to be brought near.
    pub(crate) prefetch: bool,
}

/// Multiples of some lines, which are added to sums.
pub(crate) struct AxpyArgs<E, S> {
    /// The first line, their distance, and their length.
    strided: StridedRows<*const S>,
    /// A factor per line for every row.
    factors: [E; AXPY_MR * AXPY_UNROLL],
    /// The sums of the first row; rows are `width` apart.
    to: *mut E,
    width: usize,
    /// Whether there is nothing yet to be added to.
    first: bool,
    /// Whether the next lines are to be brought near.
    prefetch: bool,
}

/// # Safety
/// What the job names must be readable, and writable where sums go, and the processor must have the
/// instructions.
type DotKernel<E, S> = unsafe fn(&DotArgs<E, S>);

/// # Safety
/// As for [`DotKernel`].
type AxpyKernel<E, S> = unsafe fn(&AxpyArgs<E, S>);

/// The dot products of an instruction set for some number of rows.
pub(crate) struct DotKernels<E, S> {
    /// How many columns at a time.
    pub(crate) cols: usize,
    pub(crate) blocked: DotKernel<E, S>,
    /// The same for one column.
    pub(crate) single: DotKernel<E, S>,
}

/// The multiples of an instruction set for some number of rows.
pub(crate) struct AxpyKernels<E, S> {
    /// [`AXPY_UNROLL`] lines at a time.
    blocked: AxpyKernel<E, S>,
    /// One line.
    single: AxpyKernel<E, S>,
}

/// The kernels of an instruction set: those of 1, 2, 3 ... rows.
pub struct SkinnyKernels<E: 'static, S: 'static> {
    pub(crate) dot: &'static [DotKernels<E, S>],
    pub(crate) axpy: &'static [AxpyKernels<E, S>],
}

/// What the large factor of a product with few rows is made of.
pub trait SkinnyElement: Pod + 'static {
    /// What sums are made of.
    type Sum: Scalar;

    /// The kernels of these instructions.
    #[doc(hidden)]
    fn skinny_kernels(isa: Isa) -> &'static SkinnyKernels<Self::Sum, Self>;
}

/// A small factor, of which sums of such elements are made.
pub(crate) trait SmallOperand<E> {
    fn shape(&self) -> [usize; 2];

    /// The first element of the factor as it lies, with the steps of the depth side by side, or of a
    /// copy; and the distance of its rows.
    fn contiguous<'r>(&'r self, buffer: &'r mut Buffer) -> (*const E, isize);
}

/// What both factors of a product with few rows are made of.
pub trait SkinnyOperand: SkinnyElement {
    /// See [`SmallOperand::contiguous`].
    #[doc(hidden)]
    fn contiguous<'r>(
        from: &'r SmallMatrix<'r, Self>,
        buffer: &'r mut Buffer,
    ) -> (*const Self::Sum, isize);
}

/// A small factor that is a matrix in memory.
pub struct SmallMatrix<'a, S: 'static> {
    pub(crate) source: MatrixRef<'a, S>,
    pub(crate) isa: Isa,
}

impl<S: SkinnyOperand> SmallOperand<S::Sum> for SmallMatrix<'_, S> {
    fn shape(&self) -> [usize; 2] {
        self.source.shape()
    }

    fn contiguous<'r>(&'r self, buffer: &'r mut Buffer) -> (*const S::Sum, isize) {
        S::contiguous(self, buffer)
    }
}

/// Takes the sums of a part, in rows so far apart, to its place; the last argument is its size.
pub(crate) type StoreTile<'a, E> = dyn Fn(&[E], usize, [usize; 2], [usize; 2]) + 'a;

/// A product whose second factor is the large one.
pub(crate) struct Skinny<'a, S: SkinnyElement> {
    pub a: &'a dyn SmallOperand<S::Sum>,
    pub b: MatrixRef<'a, S>,
    pub isa: Isa,
    pub form: GemvForm,
    /// Takes sums to the result.
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
        let far = size_of::<S>() * depth * cols > LLC_BYTES;
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
                    // SAFETY: the rows and columns lie in their factors, and there is room for the
                    // sums of all rows; the kernel is of the level in use.
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
        let bytes = if rows == 1 { AXPY_BYTES_OF_ONE_ROW } else { AXPY_BYTES };
        let width = bytes / size_of::<S::Sum>() / groups.get(0).len();
        let width = (width / MAX_LANES - 1) * MAX_LANES;
        let (a, lda) = self.a.contiguous(&mut workspace.a);
        let sums = workspace.c.as_mut_slice::<S::Sum>(rows * width);
        for chunk in (0..cols).step_by(width) {
            let chunk = chunk..(chunk + width).min(cols);
            let mut at = 0;
            while at < depth {
                let count = if depth - at >= AXPY_UNROLL { AXPY_UNROLL } else { 1 };
                let strided = StridedRows {
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
                    let args = AxpyArgs { strided, factors, to, width, first, prefetch };
                    let kernels = &kernels[group.len() - 1];
                    // SAFETY: the lines lie in the factor, and there is room for the sums of all
                    // rows; the kernel is of the level in use.
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

/// Adds the product of a vector of every row and every column to their sums.
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

/// Adds the products of a step: `a` and `b` load what lies at a distance.
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

/// Adds up the lanes of every sum.
///
/// # Safety
/// There must be room for the sums.
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
        // SAFETY: the chunk has as many elements as the register.
        unsafe { total.store(totals.as_mut_ptr()) };
    }
    for (i, totals) in totals[..ROWS * COLS].chunks_exact(COLS).enumerate() {
        for (j, &total) in totals.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { *args.to.add(i * args.width + j) = total };
        }
    }
}

/// Adds multiples of lines to the sums of every row.
#[inline(always)]
unsafe fn axpy<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const COUNT: usize>(
    args: &AxpyArgs<V::Elem, S>,
) {
    let mut factors = [[V::splat(V::Elem::ZERO); COUNT]; ROWS];
    unroll_rows!(ROWS, |I| {
        for (j, factor) in factors[I].iter_mut().enumerate() {
            *factor = V::splat(args.factors[I * AXPY_UNROLL + j]);
        }
    });
    let whole = args.strided.len / V::LANES * V::LANES;
    let rest = args.strided.len - whole;
    for at in (0..whole).step_by(V::LANES) {
        // SAFETY: the caller's: the lines are so long.
        unsafe { axpy_step(args, &factors, at, |line| V::load_convert(line)) };
    }
    if rest > 0 {
        // SAFETY: the caller's: the lines are so long, and there is room for whole registers.
        unsafe { axpy_step(args, &factors, whole, |line| V::load_convert_partial(line, rest)) };
    }
}

/// Adds multiples of a register of every line, which are loaded from their places.
///
/// # Safety
/// As for [`AxpyKernel`].
#[inline(always)]
unsafe fn axpy_step<V: Vector, S, const ROWS: usize, const COUNT: usize>(
    args: &AxpyArgs<V::Elem, S>,
    factors: &[[V; COUNT]; ROWS],
    at: usize,
    load: impl Fn(*const S) -> V,
) {
    let line = args.strided.first.wrapping_add(at);
    let mut columns = [V::splat(V::Elem::ZERO); COUNT];
    for (j, column) in columns.iter_mut().enumerate() {
        *column = load(line.wrapping_offset(j as isize * args.strided.stride));
    }
    if args.prefetch {
        for j in COUNT..2 * COUNT {
            V::prefetch(line.wrapping_offset(j as isize * args.strided.stride).cast());
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

/// The kernels for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        pub(crate) mod $name {
            use super::{DotArgs, ConvertLoad, AxpyArgs};

            /// # Safety
            /// As for [`super::DotKernel`].
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn dot<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const COLS: usize>(
                args: &DotArgs<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::dot::<V, S, ROWS, COLS>(args) }
            }

            /// # Safety
            /// As for [`super::AxpyKernel`].
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn axpy<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const COUNT: usize>(
                args: &AxpyArgs<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::axpy::<V, S, ROWS, COUNT>(args) }
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

/// The kernels of a level. Their sums, a register per column, and one of a row fit its registers.
macro_rules! skinny_kernels_of {
    ($level:ident, $vector:ty, $stored:ty, [$($rows:literal: $cols:literal),+]) => {
        &const {
            SkinnyKernels {
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
        AxpyKernels {
            blocked: $level::axpy::<$vector, $stored, $rows, AXPY_UNROLL>,
            single: $level::axpy::<$vector, $stored, $rows, 1>,
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use skinny_kernels_of;

/// The kernels of a type at each level.
macro_rules! skinny_kernels_fn {
    ($stored:ty as $sum:ty: $portable:expr, $avx2:ident, $avx512:ident) => {
        // Not inlined, so that the kernels are compiled with this crate and not with its users.
        #[inline(never)]
        fn skinny_kernels(isa: Isa) -> &'static SkinnyKernels<$sum, $stored> {
            match isa {
                #[cfg(target_arch = "x86_64")]
                _ if isa >= Isa::Avx512 => {
                    skinny_kernels_of!(on_avx512, $avx512, $stored,
                        [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3])
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => {
                    skinny_kernels_of!(on_avx2, $avx2, $stored, [1: 6, 2: 4, 3: 3, 4: 2])
                }
                _ => skinny_kernels_of!(on_any, Portable<$sum, { $portable }>, $stored,
                    [1: 6, 2: 4, 3: 3, 4: 2]),
            }
        }
    };
}

macro_rules! same_type {
    ($($element:ty: $portable:expr, $avx2:ident, $avx512:ident;)+) => {$(
        impl SkinnyElement for $element {
            type Sum = Self;

            skinny_kernels_fn!($element as $element: $portable, $avx2, $avx512);
        }

        impl SkinnyOperand for $element {
            fn contiguous<'r>(from: &'r SmallMatrix<'r, Self>, buffer: &'r mut Buffer) -> (*const Self, isize) {
                let source = from.source;
                if source.strides()[1] == 1 {
                    return (source.first(), source.strides()[0]);
                }
                let pack = &Self::micro_kernels(from.isa).pack;
                let [rows, depth] = source.shape();
                let width = depth.next_multiple_of(pack.lanes);
                let buffer = buffer.as_mut_slice::<Self>(rows * width);
                pack_panel(pack, buffer, source, width);
                (buffer.as_ptr(), width as isize)
            }
        }
    )+};
}

same_type! {
    f32: 4, Avx2F32, Avx512F32;
    f64: 2, Avx2F64, Avx512F64;
    Wrapping<i32>: 4, Avx2I32, Avx512I32;
    Wrapping<i64>: 2, Avx2I64, Avx512I64;
}

macro_rules! low_precision {
    ($($narrow:ty as $sum:ty: $avx2:ident, $avx512:ident;)+) => {$(
        impl SkinnyElement for $narrow {
            type Sum = $sum;

            skinny_kernels_fn!($narrow as $sum: 4, $avx2, $avx512);
        }

        impl SkinnyOperand for $narrow {
            fn contiguous<'r>(from: &'r SmallMatrix<'r, Self>, buffer: &'r mut Buffer) -> (*const $sum, isize) {
                let pack = <$narrow>::convert_kernels(from.isa);
                let [rows, depth] = from.source.shape();
                let width = depth.next_multiple_of(pack.lanes);
                let buffer = buffer.as_mut_slice::<$sum>(rows * width + PACK_PADDING);
                Converted { source: from.source, pack }.pack(0..rows, 0..depth, buffer, width);
                (buffer.as_ptr(), width as isize)
            }
        }
    )+};
}

low_precision! {
    Bf16 as f32: Avx2F32, Avx512F32;
    F16 as f32: Avx2F32, Avx512F32;
    i8 as Wrapping<i32>: Avx2I32, Avx512I32;
    u8 as Wrapping<i32>: Avx2I32, Avx512I32;
    i16 as Wrapping<i32>: Avx2I32, Avx512I32;
}
