//! Blocks of one group of 32.

use super::vector::{Dot, Sums};
use super::{Kernel, Operand};
use crate::table::{E2M1, UNEQUAL, half_of_power};
use std::arch::x86_64::__m256i;

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Q8_0;
pub(super) struct Iq4Nl;
pub(super) struct Mxfp4;

/// So many bytes of a block from one on; blocks have as many as their format says.
#[inline(always)]
pub(super) fn part<const N: usize>(bytes: &[u8], start: usize) -> &[u8; N] {
    match bytes[start..].first_chunk() {
        Some(found) => found,
        None => &[0; N],
    }
}

/// The fifth bits of 32 levels in four bytes, as 16 where they are set.
#[inline(always)]
fn fifth<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], start: usize) -> __m256i {
    v.of_bits(u32::from_le_bytes(*part(bytes, start)), 16)
}

/// Adds the products of a block without minimum.
#[inline(always)]
fn symmetric<K: Kernel, const DOT: u8>(
    v: Dot<DOT>,
    bytes: &[u8],
    x: Operand<'_>,
    scale: f32,
    sums: &mut Sums,
) {
    let products = v.dot_above(K::ZERO, K::levels(v, bytes, 0), &x.integers[0], &x.sums[0]);
    v.add(sums, 0, products, v.splat(scale * x.scales[0]));
}

/// Adds the products of a block whose first four bytes are a scale and what is added to each element.
#[inline(always)]
fn affine<K: Kernel, const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
    symmetric::<K, DOT>(v, bytes, x, v.half(*part(bytes, 0)), sums);
    v.add_minimum(sums, -v.half(*part(bytes, 2)), x.totals[0]);
}

/// Declares the kernel of a format: its bytes, zero point, levels and sums.
macro_rules! kernel {
    ($format:ident, $packing:ty, $nbytes:literal, $zero:literal, |$v:ident, $bytes:ident| $levels:expr, $($sum:tt)*) => {
        impl Kernel for $format {
            type Packing = $packing;
            const NBYTES: usize = $nbytes;
            const GROUPS: usize = 1;
            const ZERO: u8 = $zero;

            #[inline(always)]
            fn levels<const DOT: u8>($v: Dot<DOT>, $bytes: &[u8], _: usize) -> __m256i {
                $levels
            }

            #[inline(always)]
            fn block<const DOT: u8>($v: Dot<DOT>, $bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
                kernel!(@sum $v, $bytes, x, sums, $($sum)*);
            }
        }
    };
    (@sum $v:ident, $bytes:ident, $x:ident, $sums:ident, affine) => {
        affine::<Self, DOT>($v, $bytes, $x, $sums)
    };
    (@sum $v:ident, $bytes:ident, $x:ident, $sums:ident, scale $scale:expr) => {
        symmetric::<Self, DOT>($v, $bytes, $x, $scale, $sums)
    };
}

kernel!(Q4_0, crate::group32::Q4_0, 18, 8, |v, bytes| v.nibbles(part(bytes, 2)), scale v.half(*part(bytes, 0)));
kernel!(Q4_1, crate::group32::Q4_1, 20, 0, |v, bytes| v.nibbles(part(bytes, 4)), affine);
kernel!(
    Q5_0, crate::group32::Q5_0, 22, 16,
    |v, bytes| v.or(v.nibbles(part(bytes, 6)), fifth(v, bytes, 2)),
    scale v.half(*part(bytes, 0))
);
kernel!(
    Q5_1,
    crate::group32::Q5_1,
    24,
    0,
    |v, bytes| v.or(v.nibbles(part(bytes, 8)), fifth(v, bytes, 4)),
    affine
);
kernel!(
    Q8_0, crate::group32::Q8_0, 34, 128,
    |v, bytes| v.flip_signs(v.load(part(bytes, 2))),
    scale v.half(*part(bytes, 0))
);
kernel!(
    Iq4Nl, crate::table::Iq4Nl, 18, 128,
    |v, bytes| v.flip_signs(v.look_up(&UNEQUAL, v.nibbles(part(bytes, 2)))),
    scale v.half(*part(bytes, 0))
);
kernel!(
    Mxfp4, crate::table::Mxfp4, 17, 128,
    |v, bytes| v.flip_signs(v.look_up(&E2M1, v.nibbles(part(bytes, 1)))),
    scale half_of_power(bytes[0])
);
