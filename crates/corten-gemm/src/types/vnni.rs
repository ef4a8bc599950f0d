//! Elements of VNNI layouts: 2 or 4 neighbours along the depth in 32 bits, which one instruction
//! multiplies and adds up.

use crate::types::element::{Pod, Scalar};
use crate::types::low_precision::Bf16;
use std::num::Wrapping;
use std::ops::{Add, Mul};

/// VNNI2: two `bf16` neighbours along the depth, the first in the low bits, as an operand; an `f32` as
/// an accumulator.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub(crate) struct Vnni2(pub(crate) u32);

impl Vnni2 {
    pub(crate) fn of(first: Bf16, second: Bf16) -> Self {
        Self(u32::from(first.0) | u32::from(second.0) << 16)
    }

    fn sum(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl Add for Vnni2 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self((self.sum() + other.sum()).to_bits())
    }
}

impl Mul for Vnni2 {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self((self.sum() * other.sum()).to_bits())
    }
}

impl Scalar for Vnni2 {
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1.0f32.to_bits());
}

// SAFETY: any bits are two `bf16`, or one `f32`.
unsafe impl Pod for Vnni2 {}

/// VNNI4: four int8 neighbours along the depth as an operand; an `i32` as an accumulator. It is not
/// aligned.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub(crate) struct Vnni4(pub(crate) [u8; 4]);

impl Vnni4 {
    fn sum(self) -> Wrapping<i32> {
        Wrapping(i32::from_ne_bytes(self.0))
    }

    fn of(sum: Wrapping<i32>) -> Self {
        Self(sum.0.to_ne_bytes())
    }
}

impl Add for Vnni4 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::of(self.sum() + other.sum())
    }
}

impl Mul for Vnni4 {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::of(self.sum() * other.sum())
    }
}

impl Scalar for Vnni4 {
    const ZERO: Self = Self([0; 4]);
    const ONE: Self = Self(1i32.to_ne_bytes());
}

// SAFETY: any bits are four bytes, or an `i32`.
unsafe impl Pod for Vnni4 {}

/// VNNI4 of a large operand in place. `SIGNED` tells whether the *other* operand is signed, as the
/// instruction multiplies unsigned by signed bytes; sign bits are flipped as it is loaded if
/// `FLIP_SIGNS`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Vnni4Operand<const SIGNED: bool, const FLIP_SIGNS: bool>(pub(crate) Vnni4);

// SAFETY: as above.
unsafe impl<const SIGNED: bool, const FLIP_SIGNS: bool> Pod for Vnni4Operand<SIGNED, FLIP_SIGNS> {}
