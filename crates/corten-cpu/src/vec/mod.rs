//! Vectors of `f32` and `f64` over the registers of each instruction set, and the mathematics on them.
//!
//! [`Real`] is the small set of operations that differ between instruction sets; one file per set
//! gives the registers (`avx512.rs`, `avx2.rs`, `sse2.rs`; `portable.rs` for other processors). Everything
//! else (`math32`, `math64`) is written once over it. `scalar.rs` holds the one-element lanes:
//! integers, bool and complex numbers.
//!
//! See Note [Vector inlining].

mod bessel;
mod bessel_jy;
pub(crate) mod box_muller;
mod coefficients;
mod compact;
mod complex;
pub mod expr;
mod for_single;
mod gamma;
mod lanes;
mod level;
mod math32;
mod math64;
mod polynomials;
mod power;
mod real;
mod scalar;
mod trig;

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod register;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(
    not(feature = "avx512"),
    allow(dead_code, reason = "the loops of that level are left out")
)]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sse2;

#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) mod portable;

pub(crate) mod convert;
mod memory;
pub(crate) mod stream;
pub(crate) mod transpose;

#[cfg(test)]
mod tests;

pub(crate) use compact::one_at_a_time;
pub(crate) use complex::{Cplx, log_add_exp};
pub(crate) use lanes::Lanes;
pub use level::{Level, level};
pub(crate) use memory::{Memory, Plain, fetch, prefetch_ahead, prefetch_early};
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
pub(crate) use memory::{NonTemporal, NonTemporalBf16};
pub use real::MaskBits;
pub(crate) use scalar::{Int, Truth, take_division_by_zero};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable as baseline;
/// The vectors of the lowest level.
#[cfg(target_arch = "x86_64")]
pub(crate) use sse2 as baseline;

// Note [Vector inlining]
// An intrinsic only becomes an instruction where the surrounding function has the instruction
// set's features. The methods here have none of their own: every one is `#[inline(always)]`, so
// that the whole expression ends up inside the one function with `#[target_feature]` that holds
// the loop (`loops.rs`). A method that is not inlined is still right, only slow. Vectors of a set
// may only be made below such a loop, which is chosen by `level()`; that is what the `SAFETY`
// comments of the instruction set files rely on.
