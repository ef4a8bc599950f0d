//! Pairs of 16-bit floats, which one instruction multiplies and adds up.

use crate::kernel::micro_kernel::Scalar;
use crate::types::low_precision::Bf16;
use crate::types::workspace::Pod;
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
