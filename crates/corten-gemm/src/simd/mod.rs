//! Vector registers of every instruction set, behind one trait.
//!
//! An instruction set is a file of types that implement [`vector::Vector`] and
//! [`convert::ConvertLoad`]; NEON's place is `neon.rs`, until which `portable.rs` serves AArch64.

pub(crate) mod convert;
pub(crate) mod portable;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni4;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;
