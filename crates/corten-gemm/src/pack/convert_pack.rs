//! Packing of low-precision operands with conversion to the accumulator type, and stores with rounding,
//! as in mixed-precision GEMM of oneDNN and FBGEMM (Khudia et al. 2021).

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

/// Stores accumulators to low-precision elements.
type StoreConverted<H, W> = unsafe fn(StridedRows<*const W>, to: StridedRows<*mut H>, Scale<W>);

/// The converting pack kernels of an instruction set.
pub struct ConvertKernels<H: LowPrecision> {
    /// Packed rows are padded to a multiple of this.
    pub(crate) lanes: usize,
    /// Converts rows to rows `width` apart. Their padding is unspecified.
    ///
    /// # Safety
    /// The rows must be readable, `to` writable for as many rows of `width`, a multiple of the lanes
    /// that no row is longer than, and the processor must have the instruction set.
    pub(crate) convert: unsafe fn(StridedRows<*const H>, to: *mut H::Accum, width: usize),
    /// The same for the transpose: element `j` of row `i` goes to element `i` of row `j`.
    ///
    /// # Safety
    /// As for `convert`, with rows for elements.
    pub(crate) transpose: unsafe fn(StridedRows<*const H>, to: *mut H::Accum, width: usize),
    /// `to = beta * to + alpha * from`. Float sums are fused where the instruction set can, as
    /// oneDNN's are, and rounded to the result's type; integer sums wrap around.
    ///
    /// # Safety
    /// `from` must be readable, `to` readable and writable, and the processor must have the
    /// instruction set.
    pub(crate) store_tile: StoreConverted<H, H::Accum>,
}

/// A matrix that is converted while it is packed.
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
        let rows_at = |stride, count, len| StridedRows { first: from.first(), stride, count, len };
        if col == 1 {
            // SAFETY: the matrix is readable, `to` holds all rows, and the kernels are those
            // of the instruction set in use.
            unsafe { (self.pack.convert)(rows_at(row, rows, cols), to.as_mut_ptr(), width) }
        } else if row == 1 {
            // SAFETY: as above.
            unsafe { (self.pack.transpose)(rows_at(col, cols, rows), to.as_mut_ptr(), width) }
        } else {
            for (i, row) in to.chunks_exact_mut(width).enumerate().take(rows) {
                (0..cols).for_each(|j| row[j] = from.at([i, j]).to_accum());
            }
        }
    }
}

/// Stores vectors to rows `width` apart.
///
/// # Safety
/// `load` must return a vector of row and column, of fewer lanes at the end of rows, and `to` must be
/// writable for as many rows of `width`, a multiple of the lanes.
#[inline(always)]
pub(crate) unsafe fn pack_rows<V: Vector>(
    [count, len]: [usize; 2],
    load: impl Fn(usize, usize, usize) -> V,
    to: *mut V::Elem,
    width: usize,
) {
    for row in 0..count {
        for at in (0..len).step_by(V::LANES) {
            let lanes = load(row, at, (len - at).min(V::LANES));
            // SAFETY: the caller's.
            unsafe { lanes.store(to.add(row * width + at)) };
        }
    }
}

/// [`pack_rows`] of the transpose: element `j` of row `i` goes to element `i` of row `j`.
///
/// # Safety
/// As for [`pack_rows`], with rows for elements.
#[inline(always)]
pub(crate) unsafe fn pack_transposed<V: Vector>(
    [count, len]: [usize; 2],
    load: impl Fn(usize, usize, usize) -> V,
    to: *mut V::Elem,
    width: usize,
) {
    for row in (0..count).step_by(V::LANES) {
        for at in (0..len).step_by(V::LANES) {
            let elements_left = (len - at).min(V::LANES);
            let mut vectors = [V::splat(V::Elem::ZERO); MAX_LANES];
            for (i, vector) in vectors.iter_mut().enumerate().take(V::LANES) {
                // Rows beyond the last one repeat it.
                *vector = load((row + i).min(count - 1), at, elements_left);
            }
            for (i, column) in V::transpose(vectors).iter().enumerate().take(elements_left) {
                // SAFETY: the caller's.
                unsafe { column.store(to.add((at + i) * width + row)) };
            }
        }
    }
}

/// Part of a row, converted.
///
/// # Safety
/// The elements must be readable.
#[inline(always)]
unsafe fn load_row<V: ConvertLoad<H>, H: LowPrecision>(
    from: StridedRows<*const H>,
    row: usize,
    at: usize,
    n: usize,
) -> V {
    let place = from.first.wrapping_offset(row as isize * from.stride).wrapping_add(at);
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
        let row = to.first.wrapping_offset(i * to.stride);
        // SAFETY: the caller's, for all of it.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                let sum = alpha.mul(V::load(sums.add(at)));
                let all = beta.map_or(sum, |beta| beta.mul_add(V::load_convert(row.add(at)), sum));
                all.store_convert(row.add(at));
            }
            for at in whole..from.len {
                let sum = scale.alpha * *sums.add(at);
                let old = (*row.add(at)).to_accum();
                let all = scale.beta.map_or(sum, |beta| beta.fma(old, sum));
                *row.add(at) = H::from_accum(all);
            }
        }
    }
}

/// The kernels of each instruction set: one source, compiled with the features.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        mod $name {
            use super::{LowPrecision, ConvertKernels, StridedRows, ConvertLoad, Vector, Scale, ConvertStore};

            /// # Safety
            /// As for [`ConvertKernels::convert`].
            $(#[target_feature(enable = $features)])?
            unsafe fn convert<V: ConvertLoad<H> + Vector<Elem = H::Accum>, H: LowPrecision>(
                from: StridedRows<*const H>,
                to: *mut H::Accum,
                width: usize,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    let load = |row, at, n| super::load_row::<V, H>(from, row, at, n);
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
                    let load = |row, at, n| super::load_row::<V, H>(from, row, at, n);
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

/// [`ConvertKernels::store_tile`] with `vcvtne2ps2bf16`, which treats subnormal `f32` as zero.
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
        let row = to.first.wrapping_offset(i * to.stride);
        for at in (0..from.len).step_by(BOTH) {
            let left = from.len - at;
            // SAFETY: the caller's: the row has whole vectors, or the masks have its
            // remainder.
            unsafe {
                let (sums, row) = (sums.add(at), row.add(at));
                if left >= BOTH {
                    let (low, high) = (_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(16)));
                    let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                    _mm512_storeu_si512(row.cast(), both);
                    continue;
                }
                let low = _mm512_maskz_loadu_ps(mask(left), sums);
                let rest = mask(left.saturating_sub(16));
                let high = _mm512_maskz_loadu_ps(rest, sums.wrapping_add(16));
                let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                _mm512_mask_storeu_epi16(row.cast(), (1u32 << left) - 1, both);
            }
        }
    }
}

macro_rules! convert_kernels {
    ($($function:ident of $narrow:ty: $avx2:ident, $avx512:ident;)+) => {$(
        // Not inlined, so that the kernels are compiled with this crate and not with its callers.
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

/// The kernels with the conversion instruction, where the processor has one.
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

/// Elements that are converted to the accumulator type while they are packed.
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
