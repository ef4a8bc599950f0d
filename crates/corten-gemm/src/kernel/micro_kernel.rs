//! The innermost loop of a product: a tile of `c` in registers.
//!
//! A tile has up to [`MR`] rows and a few registers of columns. Every step of the loop loads
//! one row of `b`, and multiplies it by one element of `a` per row of the tile. So the sum of an
//! element is formed in the order of the depth, in one accumulator, whatever the tile's shape:
//! results do not depend on how a product is cut.
//!
//! A tile is wide rather than high since a load per cycle is what some processors sustain beside two
//! multiplications: six rows by four registers are 24 multiplications and 10 loads, 14 rows by two
//! registers are 28 and 16.

use crate::kernel::args::MicroKernelArgs;
use crate::simd::vector::{Vector, unroll_rows};
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::params::CACHE_LINE;
use crate::types::strided_rows::StridedRows;

/// Rows of `a` are reached from every third one: an address may hold once or twice a stride.
const ROWS_PER_POINTER: usize = 3;

/// Steps that are written out one after the other.
const K_UNROLL: usize = 4;

/// The sums of a tile.
type Accumulators<V, const ROWS: usize, const REGISTERS: usize> = [[V; REGISTERS]; ROWS];

/// The rows of `a` at a step.
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

    /// So many steps later.
    #[inline(always)]
    fn advanced(self, k_range: usize) -> Self {
        let distance =
            if COL_MAJOR { self.stride.wrapping_mul(k_range as isize) } else { k_range as isize };
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

/// A tile of `a`, of which either the rows of a step or the steps of a row lie side by side.
///
/// # Safety
/// As for [`MicroKernel`].
#[inline(always)]
unsafe fn micro_kernel<
    V: Vector,
    const COL_MAJOR: bool,
    const PACKING: bool,
    const ROWS: usize,
    const REGISTERS: usize,
>(
    args: &MicroKernelArgs<V::Elem>,
) {
    let mut b = PointersB::<_, PACKING> { first: args.b, stride: args.ldb, copy: args.b_packed };
    let mut piece = args.a;
    let mut acc = [[V::splat(V::Elem::ZERO); REGISTERS]; ROWS];
    let mut prefetches = PrefetchSchedule::<V, ROWS, REGISTERS>::of(args);
    for _ in 0..args.segments {
        let mut a = PointersA::<_, COL_MAJOR>::of(piece, args.lda);
        for _ in 0..args.depth / K_UNROLL {
            prefetches.advance();
            // SAFETY: the caller's, for so many steps.
            unsafe {
                rank1_update(a, b, &mut acc);
                rank1_update(a.advanced(1), b.advanced::<V, REGISTERS>(1), &mut acc);
                rank1_update(a.advanced(2), b.advanced::<V, REGISTERS>(2), &mut acc);
                rank1_update(a.advanced(3), b.advanced::<V, REGISTERS>(3), &mut acc);
            }
            a = a.advanced(K_UNROLL);
            b = b.advanced::<V, REGISTERS>(K_UNROLL);
        }
        for _ in 0..args.depth % K_UNROLL {
            // SAFETY: the caller's.
            unsafe { rank1_update(a, b, &mut acc) };
            a = a.advanced(1);
            b = b.advanced::<V, REGISTERS>(1);
        }
        piece = piece.wrapping_offset(args.segment_stride);
    }
    // SAFETY: the caller's.
    unsafe { store_tile::<V, ROWS, REGISTERS>(args, &acc) };
}

/// What is asked for while a tile is made: its rows of the result, and lines for later, which are both far
/// more often in memory than in a cache. They are spread over the tile, since a processor waits for few
/// lines at once, and what comes from the second-level cache meanwhile needs room, too.
struct PrefetchSchedule<V: Vector, const ROWS: usize, const REGISTERS: usize> {
    /// Rows of the result that are left, and lines for later.
    rows: StridedRows<*const V::Elem>,
    prefetch: StridedRows<*const V::Elem>,
    /// Turns between two asks, and those that are left of them.
    between: usize,
    wait: usize,
}

impl<V: Vector, const ROWS: usize, const REGISTERS: usize> PrefetchSchedule<V, ROWS, REGISTERS> {
    #[inline(always)]
    fn of(args: &MicroKernelArgs<V::Elem>) -> Self {
        let len = REGISTERS * V::LANES;
        let rows = StridedRows { first: args.c.cast_const(), stride: args.ldc, count: ROWS, len };
        let turns = args.segments * (args.depth / K_UNROLL);
        let between = (turns / (ROWS + args.prefetch.count)).saturating_sub(1);
        Self { rows, prefetch: args.prefetch, between, wait: 0 }
    }

    /// A turn.
    #[inline(always)]
    fn advance(&mut self) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = self.between;
        if self.rows.count > 0 {
            for_cache_lines::<V, REGISTERS>(self.rows.take(1).first, V::prefetch);
        } else if self.prefetch.count > 0 {
            for_cache_lines::<V, REGISTERS>(self.prefetch.take(1).first, V::prefetch_l2);
        }
    }
}

/// Asks for every cache line that the elements of a row of a tile lie in. One more where the first
/// element does not begin a line: stores that wait for their second line hold up all others.
#[inline(always)]
fn for_cache_lines<V: Vector, const REGISTERS: usize>(
    first: *const V::Elem,
    prefetch: impl Fn(*const V::Elem),
) {
    let count = REGISTERS * V::LANES;
    for pointer in (0..count).step_by(CACHE_LINE / size_of::<V::Elem>()) {
        prefetch(first.wrapping_add(pointer));
    }
    prefetch(first.wrapping_add(count - 1));
}

/// The columns of `b` at a step, and where they are copied to.
#[derive(Clone, Copy)]
struct PointersB<E, const PACKING: bool> {
    first: *const E,
    stride: isize,
    copy: *mut E,
}

impl<E, const PACKING: bool> PointersB<E, PACKING> {
    /// So many steps later.
    #[inline(always)]
    fn advanced<V: Vector, const REGISTERS: usize>(self, k_range: usize) -> Self {
        let first = self.first.wrapping_offset(self.stride.wrapping_mul(k_range as isize));
        Self { first, copy: self.copy.wrapping_add(k_range * REGISTERS * V::LANES), ..self }
    }
}

/// Adds the products of one step.
///
/// # Safety
/// The rows of `a` and the columns of `b` must be readable at the step, and there must be room for
/// these where they are copied.
#[inline(always)]
unsafe fn rank1_update<
    V: Vector,
    const COL_MAJOR: bool,
    const PACKING: bool,
    const ROWS: usize,
    const REGISTERS: usize,
>(
    a: PointersA<V::Elem, COL_MAJOR>,
    b: PointersB<V::Elem, PACKING>,
    acc: &mut Accumulators<V, ROWS, REGISTERS>,
) {
    // SAFETY: the caller's: `b` has all columns of the tile at every step.
    let b_row = unsafe { load::<V, REGISTERS>(b.first) };
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
/// `b` must be readable for all lanes of the registers.
#[inline(always)]
unsafe fn load<V: Vector, const REGISTERS: usize>(b: *const V::Elem) -> [V; REGISTERS] {
    let mut b_row = [V::splat(V::Elem::ZERO); REGISTERS];
    for (v, b_vector) in b_row.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *b_vector = unsafe { V::load(b.add(v * V::LANES)) };
    }
    b_row
}

/// # Safety
/// As for [`MicroKernel`], of the result.
#[inline(always)]
unsafe fn store_tile<V: Vector, const ROWS: usize, const REGISTERS: usize>(
    args: &MicroKernelArgs<V::Elem>,
    acc: &Accumulators<V, ROWS, REGISTERS>,
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

/// The loop for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        /// # Safety
        /// As for [`MicroKernel`].
        $(#[target_feature(enable = $features)])?
        pub(crate) unsafe fn $name<
            V: Vector,
            const COL_MAJOR: bool,
            const PACKING: bool,
            const ROWS: usize,
            const REGISTERS: usize,
        >(
            args: &MicroKernelArgs<V::Elem>,
        ) {
            // SAFETY: the caller's.
            unsafe { micro_kernel::<V, COL_MAJOR, PACKING, ROWS, REGISTERS>(args) }
        }
    )+};
}

compiled! { on_any; }

#[cfg(target_arch = "x86_64")]
compiled! {
    on_avx2 with "avx2,fma";
    on_avx512 with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
}
