//! Blocks of one group of 32.

use super::vector::{Dot, Sums};
use super::{Kernel, Operand};
use crate::table::{E2M1, UNEQUAL, half_of_power};

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Q8_0;
pub(super) struct Iq4Nl;
pub(super) struct Mxfp4;

/// Splits a block into its first bytes and 16 bytes of nibbles.
#[inline(always)]
fn split<const HEAD: usize>(bytes: &[u8]) -> Option<(&[u8; HEAD], &[u8; 16])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    Some((head, rest.first_chunk::<16>()?))
}

impl Kernel for Q4_0 {
    const NBYTES: usize = 18;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((head, nibbles)) = split::<2>(bytes) else { return };
        let products = v.dot_above::<3>(v.nibbles(nibbles), &x.integers[0], &x.sums[0]);
        v.add(sums, 0, products, v.splat(v.half(*head) * x.scales[0]));
    }
}

impl Kernel for Q4_1 {
    const NBYTES: usize = 20;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((&[a, b, c, d], nibbles)) = split::<4>(bytes) else { return };
        let products = v.dot(v.nibbles(nibbles), &x.integers[0]);
        v.add(sums, 0, products, v.splat(v.half([a, b]) * x.scales[0]));
        v.add_minimum(sums, -v.half([c, d]), x.totals[0]);
    }
}

impl Kernel for Q5_0 {
    const NBYTES: usize = 22;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((&[a, b, c, d, e, f], nibbles)) = split::<6>(bytes) else { return };
        let fifth = v.of_bits(u32::from_le_bytes([c, d, e, f]), 16);
        let levels = v.or(v.nibbles(nibbles), fifth);
        let products = v.dot_above::<4>(levels, &x.integers[0], &x.sums[0]);
        v.add(sums, 0, products, v.splat(v.half([a, b]) * x.scales[0]));
    }
}

impl Kernel for Q5_1 {
    const NBYTES: usize = 24;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((&[a, b, c, d, e, f, g, h], nibbles)) = split::<8>(bytes) else { return };
        let fifth = v.of_bits(u32::from_le_bytes([e, f, g, h]), 16);
        let products = v.dot(v.or(v.nibbles(nibbles), fifth), &x.integers[0]);
        v.add(sums, 0, products, v.splat(v.half([a, b]) * x.scales[0]));
        v.add_minimum(sums, -v.half([c, d]), x.totals[0]);
    }
}

impl Kernel for Q8_0 {
    const NBYTES: usize = 34;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((head, rest)) = bytes.split_first_chunk::<2>() else { return };
        let Some(weights) = rest.first_chunk::<32>() else { return };
        let products = v.dot_signed(v.load(weights), &x.integers[0], &x.sums[0]);
        v.add(sums, 0, products, v.splat(v.half(*head) * x.scales[0]));
    }
}

impl Kernel for Iq4Nl {
    const NBYTES: usize = 18;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((head, nibbles)) = split::<2>(bytes) else { return };
        let weights = v.look_up(&UNEQUAL, v.nibbles(nibbles));
        let products = v.dot_signed(weights, &x.integers[0], &x.sums[0]);
        v.add(sums, 0, products, v.splat(v.half(*head) * x.scales[0]));
    }
}

impl Kernel for Mxfp4 {
    const NBYTES: usize = 17;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn block<const DOT: u8>(v: Dot<DOT>, bytes: &[u8], x: Operand<'_>, sums: &mut Sums) {
        let Some((&[exponent], nibbles)) = split::<1>(bytes) else { return };
        let weights = v.look_up(&E2M1, v.nibbles(nibbles));
        let products = v.dot_signed(weights, &x.integers[0], &x.sums[0]);
        v.add(sums, 0, products, v.splat(half_of_power(exponent) * x.scales[0]));
    }
}
