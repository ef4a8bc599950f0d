//! Packing: operands are copied into the order in which micro-kernels read them.

pub(crate) mod blocks;
pub(crate) mod convert_pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod interleave;
pub(crate) mod pack_kernels;
pub(crate) mod prepacked;
