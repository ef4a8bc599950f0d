//! Dot products of pairs and of quads.

use crate::kernel::micro_kernel::Instructions;
use crate::kernel::skinny::{
    self, DotArgs, DotKernels, SkinnyElement, SkinnyKernels, SmallOperand, skinny_kernels_of,
};
use crate::simd::convert::Loads;
use crate::simd::vector::{Avx512Pairs, Avx512SignedQuads, Avx512UnsignedQuads};
use crate::simd::vnni4::{Quad, Vnni4Operand};
use crate::types::view::Source;
use crate::types::vnni::Pair;
use crate::types::workspace::Room;

/// Dot products for each level: the same text, compiled with the level's instructions.
macro_rules! compiled_dot {
    ($($name:ident with $features:literal;)+) => {$(
        mod $name {
            use super::{DotArgs, Loads};

            /// # Safety
            /// As for [`DotKernel`](crate::kernel::skinny::OfDots).
            #[target_feature(enable = $features)]
            pub(super) unsafe fn dot<V: Loads<S>, S: Copy, const ROWS: usize, const COLS: usize>(
                args: &DotArgs<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::skinny::dot::<V, S, ROWS, COLS>(args) }
            }
        }
    )+};
}

compiled_dot! {
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
}

impl SkinnyElement for Pair {
    type Sum = Self;

    // Pairs exist where the processor has AVX-512 BF16, and there are none across columns.
    #[inline(never)]
    fn skinny_kernels(_: Instructions) -> &'static SkinnyKernels<Self, Self> {
        &const {
            let dot = skinny_kernels_of!(@dot on_avx512_bf16, Avx512Pairs, Pair,
                [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3]);
            SkinnyKernels { dot, axpy: &[] }
        }
    }
}

impl SmallOperand<Pair> for Source<'_, Pair> {
    fn shape(&self) -> [usize; 2] {
        Self::shape(self)
    }

    fn contiguous<'r>(&'r self, _: &'r mut Room) -> (*const Pair, isize) {
        let [row, step] = self.strides();
        assert!(step == 1, "pairs lie side by side");
        (self.first(), row)
    }
}

macro_rules! vnni4_operands {
    ($($signed:literal: $register:ident;)+) => {$(
        impl<const FLIPPED: bool> SkinnyElement for Vnni4Operand<$signed, FLIPPED> {
            type Sum = Quad;

            // Quads exist where the processor has AVX-512 VNNI, and there are none across columns.
            #[inline(never)]
            fn skinny_kernels(_: Instructions) -> &'static SkinnyKernels<Quad, Self> {
                &const {
                    let dot = skinny_kernels_of!(@dot on_avx512_vnni, $register, Vnni4Operand<$signed, FLIPPED>,
                        [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3]);
                    SkinnyKernels { dot, axpy: &[] }
                }
            }
        }
    )+};
}

vnni4_operands! {
    false: Avx512UnsignedQuads;
    true: Avx512SignedQuads;
}
