//! Vector registers of every instruction set, behind one trait.
//!
//! An instruction set is a file of types that implement [`vector::Vector`], with conversions in
//! [`convert`] and a row in the tables of `kernel/select.rs`, `pack/pack_kernels.rs` and
//! `pack/convert_pack.rs`. NEON belongs in `neon.rs` beside [`x86`]; AArch64 runs [`portable`] code.

pub(crate) mod convert;
pub(crate) mod portable;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni4;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;
