//! Dot products of pairs and of quads.

use crate::kernel::micro_kernel::Instructions;
use crate::kernel::skinny::{self, DotKernels, Dots, FewSet, Small, Stored, few_set};
use crate::simd::convert::Loads;
use crate::simd::vector::{Avx512Pairs, Avx512SignedQuads, Avx512UnsignedQuads};
use crate::simd::vnni4::{Lying, Quad};
use crate::types::view::Source;
use crate::types::vnni::Pair;
use crate::types::workspace::Room;

/// Dot products for each level: the same text, compiled with the level's instructions.
macro_rules! compiled_dots {
    ($($name:ident with $features:literal;)+) => {$(
        mod $name {
            use super::{Dots, Loads};

            /// # Safety
            /// As for [`OfDots`](crate::kernel::skinny::OfDots).
            #[target_feature(enable = $features)]
            pub(super) unsafe fn dots<V: Loads<S>, S: Copy, const ROWS: usize, const COLS: usize>(
                job: &Dots<V::Elem, S>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::skinny::dots::<V, S, ROWS, COLS>(job) }
            }
        }
    )+};
}

compiled_dots! {
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
}

impl Stored for Pair {
    type Sum = Self;

    // Pairs exist where the processor has AVX-512 BF16, and there are none across columns.
    #[inline(never)]
    fn few(_: Instructions) -> &'static FewSet<Self, Self> {
        &const {
            let dots = few_set!(@dots on_avx512_bf16, Avx512Pairs, Pair,
                [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3]);
            FewSet { dots, multiples: &[] }
        }
    }
}

impl Small<Pair> for Source<'_, Pair> {
    fn shape(&self) -> [usize; 2] {
        Self::shape(self)
    }

    fn lay<'r>(&'r self, _: &'r mut Room) -> (*const Pair, isize) {
        let [row, step] = self.strides();
        assert!(step == 1, "pairs lie side by side");
        (self.first(), row)
    }
}

macro_rules! stored_quads {
    ($($signed:literal: $register:ident;)+) => {$(
        impl<const FLIPPED: bool> Stored for Lying<$signed, FLIPPED> {
            type Sum = Quad;

            // Quads exist where the processor has AVX-512 VNNI, and there are none across columns.
            #[inline(never)]
            fn few(_: Instructions) -> &'static FewSet<Quad, Self> {
                &const {
                    let dots = few_set!(@dots on_avx512_vnni, $register, Lying<$signed, FLIPPED>,
                        [1: 8, 2: 8, 3: 6, 4: 6, 5: 4, 6: 4, 7: 3, 8: 3]);
                    FewSet { dots, multiples: &[] }
                }
            }
        }
    )+};
}

stored_quads! {
    false: Avx512UnsignedQuads;
    true: Avx512SignedQuads;
}
