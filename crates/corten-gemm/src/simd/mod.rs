//! Vector registers of every instruction set.

pub(crate) mod convert;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni4;
