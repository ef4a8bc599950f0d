//! The innermost loop of a product: a tile of `c` in registers.
//!
//! A tile has up to [`MOST_ROWS`] rows and one or two registers of columns. Every step of the loop
//! loads one row of `b`, and multiplies it by one element of `a` per row of the tile. So the sum of
//! an element is formed in the order of the depth, in one accumulator, whatever the tile's shape:
//! results do not depend on how a product is cut.

#[cfg(target_arch = "x86_64")]
use crate::register::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};
use crate::moves::{self, Moves};
use crate::register::{Portable, Register};
use crate::scratch::Plain;
use std::ops::{Add, Mul};

/// The rows of the largest tile of any level.
pub(crate) const MOST_ROWS: usize = 6;

/// The columns of the widest tile of any level.
pub(crate) const MOST_COLS: usize = 64;

/// What a tile is made of, and where its sums go.
#[derive(Clone, Copy)]
pub(crate) struct Job<E> {
    /// The steps of the loop.
    pub depth: usize,
    /// The first element of the rows of `a`.
    pub a: *const E,
    /// From one row of `a` to the next, and from one step to the next.
    pub a_strides: [isize; 2],
    /// The first row of `b`; the elements of a row lie side by side.
    pub b: *const E,
    /// From one step to the next.
    pub b_stride: isize,
    /// The first element of the result, whose rows' elements lie side by side.
    pub c: *mut E,
    /// From one row of the result to the next.
    pub c_stride: isize,
    /// How many columns are stored.
    pub cols: usize,
    /// The factor of the sums.
    pub alpha: E,
    /// The factor of what the result holds; without one it is not read.
    pub beta: Option<E>,
}

/// The loop for some number of rows.
///
/// # Safety
/// `a` must be readable for the rows and the depth, `b` for the depth and all columns of the tile
/// (also those that are not stored), `c` readable and writable for the rows and stored columns; the
/// processor must have the loop's instructions.
pub(crate) type Tile<E> = unsafe fn(&Job<E>);

/// The tiles of one instruction set.
pub struct TileSet<E: 'static> {
    /// The lanes of a register.
    pub(crate) lanes: usize,
    /// The tiles of one, two, three ... registers of columns, and of these those of 1, 2, 3 ...
    /// rows.
    pub(crate) tiles: &'static [&'static [Tile<E>]],
    /// Those of copied strips.
    pub(crate) packed: &'static [&'static [Tile<E>]],
    /// From one step of a copied strip to the next.
    pub(crate) strip: usize,
    /// What brings the panels of `b` into order, and results.
    pub(crate) moves: Moves<E>,
    /// What brings the strips of `a` into order.
    pub(crate) strip_moves: Moves<E>,
}

impl<E> TileSet<E> {
    /// The columns of the widest tile.
    pub(crate) fn cols(&self) -> usize {
        self.tiles.len() * self.lanes
    }

    /// The rows of the highest tile.
    pub(crate) fn rows(&self) -> usize {
        self.tiles[0].len()
    }
}

/// Which instructions a product may use; more of them include the fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// `f32` and `f64`.
pub trait Float: Sealed {}

impl<E: Sealed> Float for E {}

/// Element types with tiles.
pub trait Sealed: Plain + Add<Output = Self> + Mul<Output = Self> + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// The tiles of these instructions.
    #[doc(hidden)]
    fn tiles(instructions: Instructions) -> &'static TileSet<Self>;
}

/// Rows of `a` are reached from every third one: an address may hold once or twice a stride.
const ROWS_PER_BASE: usize = 3;

/// Repeats a statement for the rows of a tile. The compiler unrolls no loop of so many vectors, and
/// an array that is indexed in a loop does not stay in registers.
macro_rules! for_rows {
    ($rows:ident, |$row:ident| $body:block) => {
        for_rows!(@each $rows, $row, $body, 0 1 2 3 4 5)
    };
    (@each $rows:ident, $row:ident, $body:block, $($index:literal)+) => {
        $(if $index < $rows {
            const $row: usize = $index;
            $body
        })+
    };
}

/// Steps of a copied strip that are written out one after the other.
const UNROLLED: usize = 4;

/// The sums of a tile.
type Sums<V, const ROWS: usize, const REGISTERS: usize> = [[V; REGISTERS]; ROWS];

/// A tile of a strip that lies in memory in any way.
#[inline(always)]
unsafe fn tile<V: Register, const ROWS: usize, const REGISTERS: usize>(job: &Job<V::Elem>) {
    ask_for_result::<V, ROWS, REGISTERS>(job);
    let [row, step] = job.a_strides;
    let mut bases = [job.a; MOST_ROWS.div_ceil(ROWS_PER_BASE)];
    for (i, base) in bases.iter_mut().enumerate() {
        *base = job.a.wrapping_offset((i * ROWS_PER_BASE) as isize * row);
    }
    let mut b = job.b;
    let mut sums = [[V::splat(V::Elem::ZERO); REGISTERS]; ROWS];
    for _ in 0..job.depth {
        // SAFETY: the caller's: `b` has all columns of the tile at every step.
        let line = unsafe { load::<V, REGISTERS>(b) };
        for_rows!(ROWS, |I| {
            let base = bases[I / ROWS_PER_BASE];
            let place = base.wrapping_offset((I % ROWS_PER_BASE) as isize * row);
            // SAFETY: the caller's: row `I` of `a` at this step.
            let factor = V::splat(unsafe { *place });
            for (sum, &part) in sums[I].iter_mut().zip(&line) {
                *sum = factor.mul_add(part, *sum);
            }
        });
        for base in bases.iter_mut().take(ROWS.div_ceil(ROWS_PER_BASE)) {
            *base = base.wrapping_offset(step);
        }
        b = b.wrapping_offset(job.b_stride);
    }
    // SAFETY: the caller's.
    unsafe { put_all::<V, ROWS, REGISTERS>(job, &sums) };
}

/// A tile of a copied strip, whose steps are [`V::STRIP`](Register::STRIP) apart.
#[inline(always)]
unsafe fn packed_tile<V: Register, const ROWS: usize, const REGISTERS: usize>(job: &Job<V::Elem>) {
    ask_for_result::<V, ROWS, REGISTERS>(job);
    let (mut a, mut b) = (job.a, job.b);
    let mut sums = [[V::splat(V::Elem::ZERO); REGISTERS]; ROWS];
    for _ in 0..job.depth / UNROLLED {
        // SAFETY: the caller's, for so many steps.
        unsafe {
            packed_step::<V, ROWS, REGISTERS>(a, b, &mut sums);
            b = b.wrapping_offset(job.b_stride);
            packed_step::<V, ROWS, REGISTERS>(a.add(V::STRIP), b, &mut sums);
            b = b.wrapping_offset(job.b_stride);
            packed_step::<V, ROWS, REGISTERS>(a.add(2 * V::STRIP), b, &mut sums);
            b = b.wrapping_offset(job.b_stride);
            packed_step::<V, ROWS, REGISTERS>(a.add(3 * V::STRIP), b, &mut sums);
            b = b.wrapping_offset(job.b_stride);
        }
        a = a.wrapping_add(UNROLLED * V::STRIP);
    }
    for _ in 0..job.depth % UNROLLED {
        // SAFETY: the caller's.
        unsafe { packed_step::<V, ROWS, REGISTERS>(a, b, &mut sums) };
        b = b.wrapping_offset(job.b_stride);
        a = a.wrapping_add(V::STRIP);
    }
    // SAFETY: the caller's.
    unsafe { put_all::<V, ROWS, REGISTERS>(job, &sums) };
}

#[inline(always)]
unsafe fn packed_step<V: Register, const ROWS: usize, const REGISTERS: usize>(
    a: *const V::Elem,
    b: *const V::Elem,
    sums: &mut Sums<V, ROWS, REGISTERS>,
) {
    // SAFETY: the caller's: `b` has all columns of the tile at every step.
    let line = unsafe { load::<V, REGISTERS>(b) };
    for_rows!(ROWS, |I| {
        // SAFETY: the caller's: row `I` of `a` at this step.
        let factor = V::splat(unsafe { *a.add(I) });
        for (sum, &part) in sums[I].iter_mut().zip(&line) {
            *sum = factor.mul_add(part, *sum);
        }
    });
}

#[inline(always)]
unsafe fn load<V: Register, const REGISTERS: usize>(b: *const V::Elem) -> [V; REGISTERS] {
    let mut line = [V::splat(V::Elem::ZERO); REGISTERS];
    for (v, part) in line.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *part = unsafe { V::load(b.add(v * V::LANES)) };
    }
    line
}

/// The result is far more often in memory than in a cache.
#[inline(always)]
fn ask_for_result<V: Register, const ROWS: usize, const REGISTERS: usize>(job: &Job<V::Elem>) {
    for row in 0..ROWS {
        let line = job.c.wrapping_offset(row as isize * job.c_stride);
        for v in 0..REGISTERS {
            V::prefetch(line.wrapping_add(v * V::LANES));
        }
        V::prefetch(line.wrapping_add(REGISTERS * V::LANES - 1));
    }
}

#[inline(always)]
unsafe fn put_all<V: Register, const ROWS: usize, const REGISTERS: usize>(
    job: &Job<V::Elem>,
    sums: &Sums<V, ROWS, REGISTERS>,
) {
    let (alpha, beta) = (V::splat(job.alpha), job.beta.map(V::splat));
    for_rows!(ROWS, |I| {
        let line = job.c.wrapping_offset(I as isize * job.c_stride);
        for (v, &sum) in sums[I].iter().enumerate() {
            let first = v * V::LANES;
            let width = job.cols.saturating_sub(first).min(V::LANES);
            // SAFETY: the caller's: `width` columns from `first` on are stored in every row.
            unsafe { put(line.wrapping_add(first), width, alpha.mul(sum), beta) };
        }
    });
}

/// Stores `width` lanes of a sum.
///
/// # Safety
/// `to` must be readable and writable for `width` elements.
#[inline(always)]
pub(crate) unsafe fn put<V: Register>(to: *mut V::Elem, width: usize, sum: V, beta: Option<V>) {
    if width == V::LANES {
        // SAFETY: the caller's.
        let old = beta.map(|beta| beta.mul(unsafe { V::load(to) }));
        // SAFETY: the caller's.
        unsafe { old.map_or(sum, |old| old.add(sum)).store(to) };
    } else if width > 0 {
        // SAFETY: the caller's.
        let old = beta.map(|beta| beta.mul(unsafe { V::load_some(to, width) }));
        // SAFETY: the caller's.
        unsafe { old.map_or(sum, |old| old.add(sum)).store_some(to, width) };
    }
}

/// The loop for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident as $tile:ident $(with $features:literal)?;)+) => {$(
        /// # Safety
        /// As for [`Tile`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<V: Register, const ROWS: usize, const REGISTERS: usize>(job: &Job<V::Elem>) {
            // SAFETY: the caller's.
            unsafe { $tile::<V, ROWS, REGISTERS>(job) }
        }
    )+};
}

compiled! { on_any as tile; on_any_packed as packed_tile; }

#[cfg(target_arch = "x86_64")]
compiled! {
    on_avx2 as tile with "avx2,fma";
    on_avx2_packed as packed_tile with "avx2,fma";
    on_avx512 as tile with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_packed as packed_tile with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
}

/// The tiles of a level with the given numbers of registers, and of rows.
macro_rules! tile_set {
    (
        $function:ident, $packed:ident, $vector:ty, $registers:tt, $rows:tt,
        $strips:ident: $strip:ty
    ) => {
        &const {
            TileSet {
                lanes: <$vector as Register>::LANES,
                tiles: tile_set!(@widths $function, $vector, $registers, $rows),
                packed: tile_set!(@widths $packed, $vector, $registers, $rows),
                strip: <$vector as Register>::STRIP,
                moves: moves::$function::moves::<$vector>(),
                strip_moves: moves::$strips::moves::<$strip>(),
            }
        }
    };
    (@widths $function:ident, $vector:ty, [$($registers:literal),+], $rows:tt) => {
        &[$(tile_set!(@heights $function, $vector, $registers, $rows)),+]
    };
    (@heights $function:ident, $vector:ty, $registers:literal, [$($rows:literal),+]) => {
        &[$($function::<$vector, $rows, $registers>),+]
    };
}

macro_rules! float {
    ($($element:ty: $portable:expr, $avx2:ident, $avx512:ident with $strips:ident: $strip:ident;)+) => {$(
        impl Sealed for $element {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            fn tiles(instructions: Instructions) -> &'static TileSet<Self> {
                match instructions {
                    // The sums, a row of `b`, and an element of `a` fit 32 registers, and there are
                    // fewer than one load for two multiplications.
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx512 => tile_set!(on_avx512, on_avx512_packed, $avx512,
                        [1, 2, 3, 4], [1, 2, 3, 4, 5, 6], $strips: $strip),
                    // The same in 16 registers.
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx2 => tile_set!(on_avx2, on_avx2_packed, $avx2,
                        [1, 2], [1, 2, 3, 4, 5, 6], on_avx2: $avx2),
                    _ => tile_set!(on_any, on_any_packed, Portable<$element, { $portable }>,
                        [1, 2], [1, 2, 3, 4], on_any: Portable<$element, { $portable }>),
                }
            }
        }
    )+};
}

float! {
    f32: 4, Avx2F32, Avx512F32 with on_avx2: Avx2F32;
    f64: 2, Avx2F64, Avx512F64 with on_avx512: Avx512F64;
}
