//! Selection of kernels by element type and instruction set.

#[cfg(target_arch = "x86_64")]
use crate::kernel::amx::amx_kernels;
use crate::kernel::args::{MicroKernel, MicroKernels};
use crate::kernel::micro_kernel;
use crate::kernel::skinny::on_any;
use crate::kernel::skinny::{SkinnyElement, SkinnyKernels, skinny_kernels_of};
#[cfg(target_arch = "x86_64")]
use crate::kernel::skinny::{on_avx2, on_avx512};
use crate::pack::convert_pack::{ConvertPack, Converted};
use crate::pack::operand::ImplicitOperand;
use crate::pack::pack_kernels;
use crate::pack::pack_panel::pack_panel;
use crate::pack::packing::Packing;
use crate::simd::portable::Portable;
use crate::simd::vector::Vector;
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{
    Avx2F32, Avx2F64, Avx2I32, Avx2I64, Avx2Vnni4Unsigned, Avx512F32, Avx512F64, Avx512I32,
    Avx512I64, Avx512Vnni2, Avx512Vnni4Signed, Avx512Vnni4Unsigned, AvxVnni4Unsigned,
};
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::low_precision::{Bf16, F16};
use crate::types::params::PACK_PADDING;
use crate::types::view::MatrixRef;
#[cfg(target_arch = "x86_64")]
use crate::types::vnni::{Vnni2, Vnni4};
use crate::types::workspace::Buffer;
use std::num::Wrapping;

/// The element types of products: `f32`, `f64`, and integers of 32 and 64 bits that wrap around.
pub trait Number: Scalar + SkinnyOperand<Sum = Self> {
    /// The micro-kernels of an instruction set.
    #[doc(hidden)]
    fn micro_kernels(isa: Isa) -> &'static MicroKernels<Self>;
}

/// Element types of both operands of a skinny product.
pub trait SkinnyOperand: SkinnyElement {
    /// The first element of the operand in rows of contiguous steps, in place or packed, and its
    /// leading dimension.
    #[doc(hidden)]
    fn contiguous(
        source: &MatrixRef<'_, Self>,
        isa: Isa,
        buffer: &mut Buffer,
    ) -> (*const Self::Sum, isize);
}

/// The micro-kernels of a vector type: their numbers of vectors, the largest of these, and their numbers
/// of rows.
macro_rules! micro_kernels {
    ($isa:ident, $function:ident, $vector:ty, $vectors:tt, $widest:literal, $rows:tt, $pack_a:ident: $vector_a:ty) => {
        &const {
            let row_major: &[&[MicroKernel<_>]] =
                micro_kernels!(@widths $function, $vector, false, $vectors, $rows);
            MicroKernels {
                packing: Packing {
                    lanes: <$vector as Vector>::LANES,
                    isa: Isa::$isa,
                    nr_vectors: row_major.len(),
                    mr: row_major[0].len(),
                    pack_b: pack_kernels::$function::pack_kernels::<$vector>(),
                    pack_a: pack_kernels::$pack_a::pack_kernels::<$vector_a>(),
                },
                row_major,
                col_major: micro_kernels!(@widths $function, $vector, true, $vectors, $rows),
                fused_packing: micro_kernels!(@heights $function, $vector, false, true, $widest, $rows),
            }
        }
    };
    (@widths $function:ident, $vector:ty, $col_major:literal, [$($vectors:literal),+], $rows:tt) => {
        &[$(micro_kernels!(@heights $function, $vector, $col_major, false, $vectors, $rows)),+]
    };
    (
        @heights $function:ident, $vector:ty, $col_major:literal, $packing:literal, $vectors:literal,
        [$($rows:literal),+]
    ) => {
        &[$(micro_kernel::$function::<$vector, $col_major, $packing, $rows, $vectors>),+]
    };
}

/// The micro-kernels of VNNI2. The processor must have AVX-512 BF16.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) fn vnni2_kernels(isa: Isa) -> &'static MicroKernels<Vnni2> {
    if isa >= Isa::Amx {
        return amx_kernels();
    }
    micro_kernels!(Avx512Bf16, on_avx512_bf16, Avx512Vnni2, [1, 2, 3, 4], 4, [1, 2, 3, 4, 5, 6],
        on_avx512_bf16: Avx512Vnni2)
}

/// The micro-kernels of VNNI4, for signed rows and unsigned columns or the opposite. The processor must
/// have AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) fn vnni4_kernels(rows_have_signs: bool) -> &'static MicroKernels<Vnni4> {
    if rows_have_signs {
        return micro_kernels!(Avx512Vnni, on_avx512_vnni, Avx512Vnni4Signed, [1, 2, 3, 4], 4, [1, 2, 3, 4, 5, 6],
            on_avx512_vnni: Avx512Vnni4Signed);
    }
    micro_kernels!(Avx512Vnni, on_avx512_vnni, Avx512Vnni4Unsigned, [1, 2, 3, 4], 4, [1, 2, 3, 4, 5, 6],
        on_avx512_vnni: Avx512Vnni4Unsigned)
}

/// The micro-kernels of VNNI4 for unsigned rows and signed columns, where the processor has vectors of
/// integers and the instruction set includes them.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) fn unsigned_vnni4_kernels(isa: Isa) -> Option<&'static MicroKernels<Vnni4>> {
    if isa >= Isa::Avx512Vnni && has_avx512_vnni() {
        return Some(vnni4_kernels(false));
    }
    if isa < Isa::Avx2 || !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
        return None;
    }
    if is_x86_feature_detected!("avxvnni") {
        return Some(micro_kernels!(Avx2, on_avx_vnni, AvxVnni4Unsigned, [1, 2], 2,
            [1, 2, 3, 4, 5, 6], on_avx_vnni: AvxVnni4Unsigned));
    }
    Some(micro_kernels!(Avx2, on_avx2, Avx2Vnni4Unsigned, [1, 2], 2,
        [1, 2, 3, 4, 5, 6], on_avx2: Avx2Vnni4Unsigned))
}

/// Whether the processor has AVX-512 VNNI and what its kernels use besides.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512_vnni() -> bool {
    is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("fma")
}

macro_rules! number {
    ($($element:ty: $portable:expr, $avx2:ident, $avx512:ident with $pack_a:ident: $vector_a:ident;)+) => {$(
        impl Number for $element {
            // Not inlined, so that the kernels are compiled with this crate and not with its
            // callers.
            #[inline(never)]
            fn micro_kernels(isa: Isa) -> &'static MicroKernels<Self> {
                match isa {
                    // Register blocking: 24 accumulators, a row of `b`, and a
                    // broadcast of `a` fit 32 registers, and there is less than one
                    // load for two multiplications.
                    #[cfg(target_arch = "x86_64")]
                    _ if isa >= Isa::Avx512 => {
                        micro_kernels!(Avx512, on_avx512, $avx512,
                            [1, 2, 3, 4], 4, [1, 2, 3, 4, 5, 6], $pack_a: $vector_a)
                    }
                    // The same in 16 registers.
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => micro_kernels!(Avx2, on_avx2, $avx2,
                        [1, 2], 2, [1, 2, 3, 4, 5, 6], on_avx2: $avx2),
                    // Few of them beside those of x86-64, which serve almost all processors.
                    #[cfg(target_arch = "x86_64")]
                    _ => micro_kernels!(Portable, on_any, Portable<$element, { $portable }>,
                        [1], 1, [1, 2, 3, 4], on_any: Portable<$element, { $portable }>),
                    #[cfg(not(target_arch = "x86_64"))]
                    _ => micro_kernels!(Portable, on_any, Portable<$element, { $portable }>,
                        [1, 2], 2, [1, 2, 3, 4], on_any: Portable<$element, { $portable }>),
                }
            }
        }
    )+};
}

number! {
    f32: 4, Avx2F32, Avx512F32 with on_avx2: Avx2F32;
    f64: 2, Avx2F64, Avx512F64 with on_avx512: Avx512F64;
    Wrapping<i32>: 4, Avx2I32, Avx512I32 with on_avx2: Avx2I32;
    Wrapping<i64>: 2, Avx2I64, Avx512I64 with on_avx512: Avx512I64;
}

/// The skinny kernels of an element type.
macro_rules! skinny_kernels_fn {
    ($element:ty as $sum:ty: $portable:expr, $avx2:ident, $avx512:ident) => {
        // Not inlined, so that the kernels are compiled with this crate and not with its callers.
        #[inline(never)]
        fn skinny_kernels(isa: Isa) -> &'static SkinnyKernels<$sum, $element> {
            match isa {
                #[cfg(target_arch = "x86_64")]
                _ if isa >= Isa::Avx512 => {
                    skinny_kernels_of!(on_avx512, $avx512, $element,
                        [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3])
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => {
                    skinny_kernels_of!(on_avx2, $avx2, $element, [1: 6, 2: 4, 3: 3, 4: 2])
                }
                #[cfg(target_arch = "x86_64")]
                _ => skinny_kernels_of!(on_any, Portable<$sum, { $portable }>, $element,
                    [1: 2, 2: 1]),
                #[cfg(not(target_arch = "x86_64"))]
                _ => skinny_kernels_of!(on_any, Portable<$sum, { $portable }>, $element,
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
            fn contiguous(
                source: &MatrixRef<'_, Self>,
                isa: Isa,
                buffer: &mut Buffer,
            ) -> (*const Self, isize) {
                if source.strides()[1] == 1 {
                    return (source.first(), source.strides()[0]);
                }
                let pack = &Self::micro_kernels(isa).packing.pack_b;
                let [rows, depth] = source.shape();
                let width = depth.next_multiple_of(pack.lanes);
                let buffer = buffer.as_mut_slice::<Self>(rows * width);
                pack_panel(pack, buffer, *source, width);
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
    ($($element:ty as $sum:ty: $avx2:ident, $avx512:ident;)+) => {$(
        impl SkinnyElement for $element {
            type Sum = $sum;

            skinny_kernels_fn!($element as $sum: 4, $avx2, $avx512);
        }

        impl SkinnyOperand for $element {
            fn contiguous(
                source: &MatrixRef<'_, Self>,
                isa: Isa,
                buffer: &mut Buffer,
            ) -> (*const $sum, isize) {
                let pack = <$element>::convert_kernels(isa);
                let [rows, depth] = source.shape();
                let width = depth.next_multiple_of(pack.lanes);
                let buffer = buffer.as_mut_slice::<$sum>(rows * width + PACK_PADDING);
                Converted { source: *source, pack }.pack(0..rows, 0..depth, buffer, width);
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
