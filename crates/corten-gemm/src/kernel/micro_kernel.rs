//! The micro-kernel: a register block of `c` accumulates rank-1 updates, as in BLIS (Van Zee & van de
//! Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality", 2015).
//!
//! Every step loads a row of `b` of up to NR elements, and multiplies it by a broadcast element of each
//! of up to [`MR`](crate::types::params::MR) rows of `a`. An element of the result is summed in the
//! order of the depth in one accumulator, whatever the shape of the register block, so that results do
//! not depend on how a product is partitioned.

use crate::kernel::args::MicroKernelArgs;
use crate::simd::vector::{Vector, unroll_rows};
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::params::CACHE_LINE;
use crate::types::strided_rows::StridedRows;

/// Rows of `a` are addressed from every third one: an address holds one or two times a stride.
const ROWS_PER_POINTER: usize = 3;

/// The unrolling of the loop over the depth.
const K_UNROLL: usize = 4;

/// The register block.
type Accumulators<V, const ROWS: usize, const VECTORS: usize> = [[V; VECTORS]; ROWS];

/// The addresses of the rows of `a` at a step.
#[derive(Clone, Copy)]
struct PointersA<E, const COL_MAJOR: bool> {
    first: *const E,
    /// Row [`ROWS_PER_POINTER`].
    second: *const E,
    stride: isize,
}

impl<E, const COL_MAJOR: bool> PointersA<E, COL_MAJOR> {
    #[inline(always)]
    fn of(first: *const E, stride: isize) -> Self {
        let second = first.wrapping_offset(stride.wrapping_mul(ROWS_PER_POINTER as isize));
        Self { first, second, stride }
    }

    /// The addresses some steps later.
    #[inline(always)]
    fn advanced(self, steps: usize) -> Self {
        let distance =
            if COL_MAJOR { self.stride.wrapping_mul(steps as isize) } else { steps as isize };
        let [first, second] = [self.first, self.second].map(|base| base.wrapping_offset(distance));
        Self { first, second, ..self }
    }

    #[inline(always)]
    fn pointer(self, row: usize) -> *const E {
        if COL_MAJOR {
            return self.first.wrapping_add(row);
        }
        let base = if row < ROWS_PER_POINTER { self.first } else { self.second };
        base.wrapping_offset(self.stride.wrapping_mul((row % ROWS_PER_POINTER) as isize))
    }
}

/// The micro-kernel, for column-major or row-major `a`.
///
/// # Safety
/// As for [`MicroKernel`](crate::kernel::args::MicroKernel).
#[inline(always)]
unsafe fn micro_kernel<
    V: Vector,
    const COL_MAJOR: bool,
    const PACKING: bool,
    const ROWS: usize,
    const VECTORS: usize,
>(
    args: &MicroKernelArgs<V::Elem>,
) {
    let mut b = PointersB::<_, PACKING> { first: args.b, stride: args.ldb, copy: args.b_packed };
    let mut segment = args.a;
    let mut acc = [[V::splat(V::Elem::ZERO); VECTORS]; ROWS];
    let mut prefetches = PrefetchSchedule::<V, ROWS, VECTORS>::of(args);
    for _ in 0..args.segments {
        let mut a = PointersA::<_, COL_MAJOR>::of(segment, args.lda);
        for _ in 0..args.depth / K_UNROLL {
            prefetches.advance();
            // SAFETY: the caller's, for these steps.
            unsafe {
                rank1_update(a, b, &mut acc);
                rank1_update(a.advanced(1), b.advanced::<V, VECTORS>(1), &mut acc);
                rank1_update(a.advanced(2), b.advanced::<V, VECTORS>(2), &mut acc);
                rank1_update(a.advanced(3), b.advanced::<V, VECTORS>(3), &mut acc);
            }
            a = a.advanced(K_UNROLL);
            b = b.advanced::<V, VECTORS>(K_UNROLL);
        }
        for _ in 0..args.depth % K_UNROLL {
            // SAFETY: the caller's.
            unsafe { rank1_update(a, b, &mut acc) };
            a = a.advanced(1);
            b = b.advanced::<V, VECTORS>(1);
        }
        segment = segment.wrapping_offset(args.segment_stride);
    }
    // SAFETY: the caller's.
    unsafe { store_tile::<V, ROWS, VECTORS>(args, &acc) };
}

/// The prefetch schedule of a micro-kernel: first the rows of its tile of `c`, then rows for later. Both
/// are rarely in a cache. Prefetches are spread over the loop, since a processor has few line fill
/// buffers, which loads from the second-level cache need as well.
struct PrefetchSchedule<V: Vector, const ROWS: usize, const VECTORS: usize> {
    /// The rows of `c` that are left, and rows for later.
    rows: StridedRows<*const V::Elem>,
    prefetch: StridedRows<*const V::Elem>,
    /// Iterations between two prefetches, and those that are left of them.
    between: usize,
    wait: usize,
}

impl<V: Vector, const ROWS: usize, const VECTORS: usize> PrefetchSchedule<V, ROWS, VECTORS> {
    #[inline(always)]
    fn of(args: &MicroKernelArgs<V::Elem>) -> Self {
        let len = VECTORS * V::LANES;
        let rows = StridedRows { first: args.c.cast_const(), stride: args.ldc, count: ROWS, len };
        let iterations = args.segments * (args.depth / K_UNROLL);
        let between = (iterations / (ROWS + args.prefetch.count)).saturating_sub(1);
        Self { rows, prefetch: args.prefetch, between, wait: 0 }
    }

    /// An iteration of the loop.
    #[inline(always)]
    fn advance(&mut self) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = self.between;
        if self.rows.count > 0 {
            for_cache_lines::<V, VECTORS>(self.rows.take(1).first, V::prefetch);
        } else if self.prefetch.count > 0 {
            for_cache_lines::<V, VECTORS>(self.prefetch.take(1).first, V::prefetch_l2);
        }
    }
}

/// Prefetches every cache line of a row of a tile. That is one more if the first element is not aligned:
/// stores that wait for their second line would hold up all others.
#[inline(always)]
fn for_cache_lines<V: Vector, const VECTORS: usize>(
    first: *const V::Elem,
    prefetch: impl Fn(*const V::Elem),
) {
    let count = VECTORS * V::LANES;
    for pointer in (0..count).step_by(CACHE_LINE / size_of::<V::Elem>()) {
        prefetch(first.wrapping_add(pointer));
    }
    prefetch(first.wrapping_add(count - 1));
}

/// The addresses of `b` at a step, and of where it is packed.
#[derive(Clone, Copy)]
struct PointersB<E, const PACKING: bool> {
    first: *const E,
    stride: isize,
    copy: *mut E,
}

impl<E, const PACKING: bool> PointersB<E, PACKING> {
    /// The addresses some steps later.
    #[inline(always)]
    fn advanced<V: Vector, const VECTORS: usize>(self, steps: usize) -> Self {
        let first = self.first.wrapping_offset(self.stride.wrapping_mul(steps as isize));
        Self { first, copy: self.copy.wrapping_add(steps * VECTORS * V::LANES), ..self }
    }
}

/// A rank-1 update of the register block.
///
/// # Safety
/// `a` and `b` must be readable at the step, and there must be room for a row where `b` is packed.
#[inline(always)]
unsafe fn rank1_update<
    V: Vector,
    const COL_MAJOR: bool,
    const PACKING: bool,
    const ROWS: usize,
    const VECTORS: usize,
>(
    a: PointersA<V::Elem, COL_MAJOR>,
    b: PointersB<V::Elem, PACKING>,
    acc: &mut Accumulators<V, ROWS, VECTORS>,
) {
    // SAFETY: the caller's: `b` has all columns of the register block at every step.
    let b_row = unsafe { load::<V, VECTORS>(b.first) };
    if PACKING {
        for (v, b_vector) in b_row.iter().enumerate() {
            // SAFETY: the caller's: there is room for all columns of every step.
            unsafe { b_vector.store(b.copy.add(v * V::LANES)) };
        }
    }
    unroll_rows!(ROWS, |I| {
        // SAFETY: the caller's.
        let a_element = V::splat(unsafe { *a.pointer(I) });
        for (sum, &b_vector) in acc[I].iter_mut().zip(&b_row) {
            *sum = a_element.mul_add(b_vector, *sum);
        }
    });
}

/// # Safety
/// `b` must be readable for all lanes of the vectors.
#[inline(always)]
unsafe fn load<V: Vector, const VECTORS: usize>(b: *const V::Elem) -> [V; VECTORS] {
    let mut b_row = [V::splat(V::Elem::ZERO); VECTORS];
    for (v, b_vector) in b_row.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *b_vector = unsafe { V::load(b.add(v * V::LANES)) };
    }
    b_row
}

/// # Safety
/// As for [`MicroKernel`](crate::kernel::args::MicroKernel), of the result.
#[inline(always)]
unsafe fn store_tile<V: Vector, const ROWS: usize, const VECTORS: usize>(
    args: &MicroKernelArgs<V::Elem>,
    acc: &Accumulators<V, ROWS, VECTORS>,
) {
    unroll_rows!(ROWS, |I| {
        let b_row = args.c.wrapping_offset(I as isize * args.ldc);
        for (v, &sum) in acc[I].iter().enumerate() {
            let to = b_row.wrapping_add(v * V::LANES);
            // SAFETY: the caller's.
            unsafe {
                let sum = match args.accumulate {
                    Accumulate::Overwrite => sum,
                    Accumulate::Beta(_) => V::load(to).add(sum),
                    Accumulate::RowBias(values) => V::splat(*values.add(I)).add(sum),
                    Accumulate::ColumnBias(values) => V::load(values.add(v * V::LANES)).add(sum),
                };
                sum.store(to);
            }
        }
    });
}

/// The micro-kernel of each instruction set: one source, compiled with the features.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        /// # Safety
        /// As for [`MicroKernel`](crate::kernel::args::MicroKernel).
        $(#[target_feature(enable = $features)])?
        pub(crate) unsafe fn $name<
            V: Vector,
            const COL_MAJOR: bool,
            const PACKING: bool,
            const ROWS: usize,
            const VECTORS: usize,
        >(
            args: &MicroKernelArgs<V::Elem>,
        ) {
            // SAFETY: the caller's.
            unsafe { micro_kernel::<V, COL_MAJOR, PACKING, ROWS, VECTORS>(args) }
        }
    )+};
}

compiled! { on_any; }

#[cfg(target_arch = "x86_64")]
compiled! {
    on_avx2 with "avx2,fma";
    on_avx_vnni with "avxvnni,avx2,fma";
    on_avx512 with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
}
