//! The kernels of every element type and instruction set.

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
    Avx2F32, Avx2F64, Avx2I32, Avx2I64, Avx512F32, Avx512F64, Avx512I32, Avx512I64, Avx512Vnni2,
    Avx512Vnni4Signed, Avx512Vnni4Unsigned,
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

/// What products are made of: `f32`, `f64`, and integers of 32 and 64 bits that wrap around.
pub trait Number: Scalar + SkinnyOperand<Sum = Self> {
    /// The tiles of these instructions.
    #[doc(hidden)]
    fn micro_kernels(isa: Isa) -> &'static MicroKernels<Self>;
}

/// What both factors of a product with few rows are made of.
pub trait SkinnyOperand: SkinnyElement {
    /// The first element of the operand in rows of contiguous steps, where it lies or packed, and the
    /// distance of its rows.
    #[doc(hidden)]
    fn contiguous(
        source: &MatrixRef<'_, Self>,
        isa: Isa,
        buffer: &mut Buffer,
    ) -> (*const Self::Sum, isize);
}

/// The tiles of a level with the given numbers of registers, of all of them, and of rows.
macro_rules! micro_kernels {
    ($isa:ident, $function:ident, $vector:ty, $registers:tt, $all:literal, $rows:tt, $pack_a:ident: $strip:ty) => {
        &const {
            let row_major: &[&[MicroKernel<_>]] =
                micro_kernels!(@widths $function, $vector, false, $registers, $rows);
            MicroKernels {
                packing: Packing {
                    lanes: <$vector as Vector>::LANES,
                    isa: Isa::$isa,
                    nr_vectors: row_major.len(),
                    mr: row_major[0].len(),
                    pack_b: pack_kernels::$function::pack_kernels::<$vector>(),
                    pack_a: pack_kernels::$pack_a::pack_kernels::<$strip>(),
                },
                row_major,
                col_major: micro_kernels!(@widths $function, $vector, true, $registers, $rows),
                fused_packing: micro_kernels!(@heights $function, $vector, false, true, $all, $rows),
            }
        }
    };
    (@widths $function:ident, $vector:ty, $side:literal, [$($registers:literal),+], $rows:tt) => {
        &[$(micro_kernels!(@heights $function, $vector, $side, false, $registers, $rows)),+]
    };
    (
        @heights $function:ident, $vector:ty, $side:literal, $copying:literal, $registers:literal,
        [$($rows:literal),+]
    ) => {
        &[$(micro_kernel::$function::<$vector, $side, $copying, $rows, $registers>),+]
    };
}

/// The tiles of pairs. The processor must have AVX-512 BF16.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) fn vnni2_kernels(isa: Isa) -> &'static MicroKernels<Vnni2> {
    if isa >= Isa::Amx {
        return amx_kernels();
    }
    micro_kernels!(Avx512Bf16, on_avx512_bf16, Avx512Vnni2, [1, 2, 3, 4], 4, [1, 2, 3, 4, 5, 6],
        on_avx512_bf16: Avx512Vnni2)
}

/// The tiles of quads, whose rows have signs or not: the columns are of the other kind. The processor
/// must have AVX-512 VNNI.
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

macro_rules! number {
    ($($element:ty: $portable:expr, $avx2:ident, $avx512:ident with $pack_a:ident: $strip:ident;)+) => {$(
        impl Number for $element {
            // Not inlined, so that the tiles are compiled with this crate and not with its users.
            #[inline(never)]
            fn micro_kernels(isa: Isa) -> &'static MicroKernels<Self> {
                match isa {
                    // The sums, a row of `b`, and an element of `a` fit 32 registers, and there are
                    // fewer than one load for two multiplications.
                    #[cfg(target_arch = "x86_64")]
                    _ if isa >= Isa::Avx512 => {
                        micro_kernels!(Avx512, on_avx512, $avx512,
                            [1, 2, 3, 4], 4, [1, 2, 3, 4, 5, 6], $pack_a: $strip)
                    }
                    // The same in 16 registers.
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => micro_kernels!(Avx2, on_avx2, $avx2,
                        [1, 2], 2, [1, 2, 3, 4, 5, 6], on_avx2: $avx2),
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
    ($($narrow:ty as $sum:ty: $avx2:ident, $avx512:ident;)+) => {$(
        impl SkinnyElement for $narrow {
            type Sum = $sum;

            skinny_kernels_fn!($narrow as $sum: 4, $avx2, $avx512);
        }

        impl SkinnyOperand for $narrow {
            fn contiguous(
                source: &MatrixRef<'_, Self>,
                isa: Isa,
                buffer: &mut Buffer,
            ) -> (*const $sum, isize) {
                let pack = <$narrow>::convert_kernels(isa);
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
