//! Pairs of 16-bit floats, which one instruction multiplies and adds up.

use crate::types::element::{Pod, Scalar};
use crate::types::low_precision::Bf16;
use std::num::Wrapping;
use std::ops::{Add, Mul};

/// Two neighbours of the depth, the first one in the low bits, as a factor; an `f32` as a sum.
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

// SAFETY: any bits are two numbers, or one.
unsafe impl Pod for Vnni2 {}

/// Four neighbours of the depth as a factor; an integer of 32 bits as a sum. It lies at any address.
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

// SAFETY: any bits are four bytes, or a sum.
unsafe impl Pod for Vnni4 {}

/// A quad of a large factor as it lies: what multiplies it has signs or not, and its own sign bits
/// are flipped as it is loaded or not.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Vnni4Operand<const SIGNED: bool, const FLIP_SIGNS: bool>(pub(crate) Vnni4);

// SAFETY: as above.
unsafe impl<const SIGNED: bool, const FLIP_SIGNS: bool> Pod for Vnni4Operand<SIGNED, FLIP_SIGNS> {}
