//! Factors of narrow elements, which become wide where tiles need them, and their results.

use crate::pack::operand::ImplicitOperand;
use crate::simd::convert::{ConvertLoad, ConvertStore};
use crate::simd::portable::Portable;
use crate::simd::vector::{MAX_LANES, Vector};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{Avx2F32, Avx2I32, Avx512F32, Avx512I32};
use crate::types::accumulate::Scale;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::low_precision::{Bf16, F16, LowPrecision};
use crate::types::strided_rows::StridedRows;
use crate::types::view::MatrixRef;
use std::ops::Range;

/// From sums to narrow elements.
type StoreConverted<H, W> = unsafe fn(StridedRows<*const W>, to: StridedRows<*mut H>, Scale<W>);

/// The moves of an instruction set to and from the wider type.
pub struct ConvertKernels<H: LowPrecision> {
    /// The elements that lines are filled up to are a multiple of this.
    pub(crate) lanes: usize,
    /// Widens lines to lines `width` apart. What is left of these may hold anything.
    ///
    /// # Safety
    /// The lines must be readable, `to` writable for as many lines of `width`, a multiple of the
    /// lanes that no line is longer than, and the processor must have the instructions.
    pub(crate) convert: unsafe fn(StridedRows<*const H>, to: *mut H::Accum, width: usize),
    /// The same, element `j` of line `i` to place `i` of line `j`.
    ///
    /// # Safety
    /// As for `copy`, with lines for elements.
    pub(crate) transpose: unsafe fn(StridedRows<*const H>, to: *mut H::Accum, width: usize),
    /// `to = beta * to + alpha * from`. The sum of floats is rounded to `f32` once where the
    /// instruction set has that, as oneDNN's is, and then to the result's type; that of integers
    /// wraps around.
    ///
    /// # Safety
    /// `from` must be readable, `to` readable and writable, and the processor must have the
    /// instructions.
    pub(crate) store_tile: StoreConverted<H, H::Accum>,
}

/// A matrix whose elements are widened.
pub(crate) struct Converted<'a, H: LowPrecision> {
    pub source: MatrixRef<'a, H>,
    pub pack: &'static ConvertKernels<H>,
}

impl<H: LowPrecision> ImplicitOperand<H::Accum> for Converted<'_, H> {
    fn pack(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [H::Accum], width: usize) {
        let from = self.source.part(rows, cols);
        let ([rows, cols], [row, col]) = (from.shape(), from.strides());
        assert!(cols <= width && width.is_multiple_of(self.pack.lanes));
        assert!(rows * width <= to.len());
        let strided = |stride, count, len| StridedRows { first: from.first(), stride, count, len };
        if col == 1 {
            // SAFETY: the matrix is readable, `to` holds all lines, and the moves are of the level
            // in use.
            unsafe { (self.pack.convert)(strided(row, rows, cols), to.as_mut_ptr(), width) }
        } else if row == 1 {
            // SAFETY: as above.
            unsafe { (self.pack.transpose)(strided(col, cols, rows), to.as_mut_ptr(), width) }
        } else {
            for (i, line) in to.chunks_exact_mut(width).enumerate().take(rows) {
                (0..cols).for_each(|j| line[j] = from.at([i, j]).to_accum());
            }
        }
    }
}

/// Brings lines of registers to lines `width` apart.
///
/// # Safety
/// `load` must give the lanes of a line from a place on, for some of them at the end of lines, and
/// `to` must be writable for as many lines of `width`, a multiple of the lanes.
#[inline(always)]
pub(crate) unsafe fn pack_rows<V: Vector>(
    [count, len]: [usize; 2],
    load: impl Fn(usize, usize, usize) -> V,
    to: *mut V::Elem,
    width: usize,
) {
    for line in 0..count {
        for at in (0..len).step_by(V::LANES) {
            let lanes = load(line, at, (len - at).min(V::LANES));
            // SAFETY: the caller's.
            unsafe { lanes.store(to.add(line * width + at)) };
        }
    }
}

/// [`pack_rows`], element `j` of line `i` to place `i` of line `j`.
///
/// # Safety
/// As for [`pack_rows`], with lines for elements.
#[inline(always)]
pub(crate) unsafe fn pack_transposed<V: Vector>(
    [count, len]: [usize; 2],
    load: impl Fn(usize, usize, usize) -> V,
    to: *mut V::Elem,
    width: usize,
) {
    for line in (0..count).step_by(V::LANES) {
        for at in (0..len).step_by(V::LANES) {
            let some = (len - at).min(V::LANES);
            let mut rows = [V::splat(V::Elem::ZERO); MAX_LANES];
            for (i, row) in rows.iter_mut().enumerate().take(V::LANES) {
                // Lines beyond the last one repeat it.
                *row = load((line + i).min(count - 1), at, some);
            }
            for (i, column) in V::transpose(rows).iter().enumerate().take(some) {
                // SAFETY: the caller's.
                unsafe { column.store(to.add((at + i) * width + line)) };
            }
        }
    }
}

/// The lanes of a line, widened.
///
/// # Safety
/// They must be readable.
#[inline(always)]
unsafe fn load_row<V: ConvertLoad<H>, H: LowPrecision>(
    from: StridedRows<*const H>,
    line: usize,
    at: usize,
    n: usize,
) -> V {
    let place = from.first.wrapping_offset(line as isize * from.stride).wrapping_add(at);
    // SAFETY: the caller's.
    unsafe {
        if n == V::LANES { V::load_convert(place) } else { V::load_convert_partial(place, n) }
    }
}

#[inline(always)]
unsafe fn store_tile<
    V: ConvertLoad<H> + ConvertStore<H> + Vector<Elem = H::Accum>,
    H: LowPrecision,
>(
    from: StridedRows<*const H::Accum>,
    to: StridedRows<*mut H>,
    scale: Scale<H::Accum>,
) {
    let (alpha, beta) = (V::splat(scale.alpha), scale.beta.map(V::splat));
    let whole = from.len / V::LANES * V::LANES;
    for i in 0..from.count as isize {
        let sums = from.first.wrapping_offset(i * from.stride);
        let line = to.first.wrapping_offset(i * to.stride);
        // SAFETY: the caller's, for all of it.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                let sum = alpha.mul(V::load(sums.add(at)));
                let all = beta.map_or(sum, |beta| beta.mul_add(V::load_convert(line.add(at)), sum));
                all.store_convert(line.add(at));
            }
            for at in whole..from.len {
                let sum = scale.alpha * *sums.add(at);
                let old = (*line.add(at)).to_accum();
                let all = scale.beta.map_or(sum, |beta| beta.fma(old, sum));
                *line.add(at) = H::from_accum(all);
            }
        }
    }
}

/// The moves for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        mod $name {
            use super::{LowPrecision, ConvertKernels, StridedRows, ConvertLoad, Vector, Scale, ConvertStore};

            /// # Safety
            /// As for [`ConvertKernels::copy`].
            $(#[target_feature(enable = $features)])?
            unsafe fn convert<V: ConvertLoad<H> + Vector<Elem = H::Accum>, H: LowPrecision>(
                from: StridedRows<*const H>,
                to: *mut H::Accum,
                width: usize,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    let load = |line, at, n| super::load_row::<V, H>(from, line, at, n);
                    super::pack_rows([from.count, from.len], load, to, width);
                }
            }

            /// # Safety
            /// As for [`ConvertKernels::transpose`].
            $(#[target_feature(enable = $features)])?
            unsafe fn transpose<V: ConvertLoad<H> + Vector<Elem = H::Accum>, H: LowPrecision>(
                from: StridedRows<*const H>,
                to: *mut H::Accum,
                width: usize,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    let load = |line, at, n| super::load_row::<V, H>(from, line, at, n);
                    super::pack_transposed([from.count, from.len], load, to, width);
                }
            }

            /// # Safety
            /// As for [`ConvertKernels::store_tile`].
            $(#[target_feature(enable = $features)])?
            unsafe fn store_tile<V: ConvertLoad<H> + ConvertStore<H> + Vector<Elem = H::Accum>, H: LowPrecision>(
                from: StridedRows<*const H::Accum>,
                to: StridedRows<*mut H>,
                scale: Scale<H::Accum>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::store_tile::<V, H>(from, to, scale) }
            }

            pub(super) const fn convert_kernels<V: ConvertLoad<H> + ConvertStore<H> + Vector<Elem = H::Accum>, H: LowPrecision>()
            -> ConvertKernels<H> {
                ConvertKernels { lanes: V::LANES, convert: convert::<V, H>, transpose: transpose::<V, H>, store_tile: store_tile::<V, H> }
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

/// [`ConvertKernels::store_tile`] of sums as they are by the instruction that rounds them. What is smaller than the
/// smallest normal `f32` counts as zero.
///
/// # Safety
/// As for [`ConvertKernels::store_tile`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
unsafe fn store_tile_bf16(
    from: StridedRows<*const f32>,
    to: StridedRows<*mut Bf16>,
    scale: Scale<f32>,
) {
    use std::arch::x86_64::*;
    const BOTH: usize = 32;
    if scale.alpha != 1.0 || scale.beta.is_some() {
        // SAFETY: the caller's.
        return unsafe { store_tile::<Avx512F32, Bf16>(from, to, scale) };
    }
    let mask = |count: usize| (1u32 << count.min(16)).wrapping_sub(1) as u16;
    for i in 0..from.count as isize {
        let sums = from.first.wrapping_offset(i * from.stride);
        let line = to.first.wrapping_offset(i * to.stride);
        for at in (0..from.len).step_by(BOTH) {
            let left = from.len - at;
            // SAFETY: the caller's: the line has whole registers, or masks have what is left of it.
            unsafe {
                let (sums, line) = (sums.add(at), line.add(at));
                if left >= BOTH {
                    let (low, high) = (_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(16)));
                    let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                    _mm512_storeu_si512(line.cast(), both);
                    continue;
                }
                let low = _mm512_maskz_loadu_ps(mask(left), sums);
                let rest = mask(left.saturating_sub(16));
                let high = _mm512_maskz_loadu_ps(rest, sums.wrapping_add(16));
                let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                _mm512_mask_storeu_epi16(line.cast(), (1u32 << left) - 1, both);
            }
        }
    }
}

macro_rules! convert_kernels {
    ($($function:ident of $narrow:ty: $avx2:ident, $avx512:ident;)+) => {$(
        // Not inlined, so that the moves are compiled with this crate and not with its users.
        #[inline(never)]
        fn $function(isa: Isa) -> &'static ConvertKernels<$narrow> {
            match isa {
                #[cfg(target_arch = "x86_64")]
                _ if isa >= Isa::Avx512 => {
                    &const { on_avx512::convert_kernels::<$avx512, $narrow>() }
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => &const { on_avx2::convert_kernels::<$avx2, $narrow>() },
                _ => &const { on_any::convert_kernels::<Portable<<$narrow as LowPrecision>::Accum, 4>, $narrow>() },
            }
        }
    )+};
}

convert_kernels! {
    bf16_kernels_without_vcvt of Bf16: Avx2F32, Avx512F32;
    f16_kernels of F16: Avx2F32, Avx512F32;
    i8_kernels of i8: Avx2I32, Avx512I32;
    u8_kernels of u8: Avx2I32, Avx512I32;
    i16_kernels of i16: Avx2I32, Avx512I32;
}

/// Moves of what the processor may have an instruction for.
fn bf16_kernels(isa: Isa) -> &'static ConvertKernels<Bf16> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16 | Isa::Amx => {
            &const {
                ConvertKernels {
                    store_tile: store_tile_bf16,
                    ..on_avx512::convert_kernels::<Avx512F32, Bf16>()
                }
            }
        }
        _ => bf16_kernels_without_vcvt(isa),
    }
}

/// Elements that are packed in a wider type.
pub trait ConvertPack: LowPrecision {
    /// The kernels of an instruction set.
    #[doc(hidden)]
    fn convert_kernels(isa: Isa) -> &'static ConvertKernels<Self>;
}

macro_rules! convert_pack {
    ($($element:ty: $kernels:ident;)+) => {$(
        impl ConvertPack for $element {
            fn convert_kernels(isa: Isa) -> &'static ConvertKernels<Self> {
                $kernels(isa)
            }
        }
    )+};
}

convert_pack! {
    Bf16: bf16_kernels;
    F16: f16_kernels;
    i8: i8_kernels;
    u8: u8_kernels;
    i16: i16_kernels;
}
