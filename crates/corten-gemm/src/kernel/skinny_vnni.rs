//! GEMV kernels in dot form for VNNI layouts.

use crate::kernel::skinny::{DotArgs, SkinnyElement, SkinnyKernels, skinny_kernels_of};
use crate::simd::convert::ConvertLoad;
use crate::simd::x86::{Avx512Vnni2, Avx512Vnni4Signed, Avx512Vnni4Unsigned};
use crate::types::isa::Isa;
use crate::types::vnni::{Vnni2, Vnni4, Vnni4Operand};

/// The dot kernel of each instruction set: one source, compiled with the features.
macro_rules! compiled_dot {
    ($($name:ident with $features:literal;)+) => {$(
        mod $name {
            use super::{DotArgs, ConvertLoad};

            /// # Safety
            /// As for [`DotKernel`](crate::kernel::skinny::DotKernel).
            #[target_feature(enable = $features)]
            pub(super) unsafe fn dot<V: ConvertLoad<S>, S: Copy, const ROWS: usize, const COLS: usize>(
                args: &DotArgs<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::super::skinny::dot::<V, S, ROWS, COLS>(args) }
            }
        }
    )+};
}

compiled_dot! {
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
}

impl SkinnyElement for Vnni2 {
    type Sum = Self;

    // VNNI2 exists where the processor has AVX-512 BF16, and has no axpy form.
    #[inline(never)]
    fn skinny_kernels(_: Isa) -> &'static SkinnyKernels<Self, Self> {
        &const {
            let dot = skinny_kernels_of!(@dot on_avx512_bf16, Avx512Vnni2, Vnni2,
                [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3]);
            SkinnyKernels { dot, axpy: &[] }
        }
    }
}

macro_rules! vnni4_operands {
    ($($signed:literal: $register:ident;)+) => {$(
        impl<const FLIP_SIGNS: bool> SkinnyElement for Vnni4Operand<$signed, FLIP_SIGNS> {
            type Sum = Vnni4;

            // VNNI4 exists where the processor has AVX-512 VNNI, and has no axpy form.
            #[inline(never)]
            fn skinny_kernels(_: Isa) -> &'static SkinnyKernels<Vnni4, Self> {
                &const {
                    let dot = skinny_kernels_of!(@dot on_avx512_vnni, $register, Vnni4Operand<$signed, FLIP_SIGNS>,
                        [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3]);
                    SkinnyKernels { dot, axpy: &[] }
                }
            }
        }
    )+};
}

vnni4_operands! {
    false: Avx512Vnni4Unsigned;
    true: Avx512Vnni4Signed;
}
