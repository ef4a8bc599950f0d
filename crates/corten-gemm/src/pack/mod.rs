//! Packing: operands are copied into the order in which micro-kernels read them.

pub(crate) mod convert_pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod interleave;
pub(crate) mod operand;
pub(crate) mod pack_kernels;
pub(crate) mod pack_panel;
pub(crate) mod packed_a;
pub(crate) mod packed_b;
pub(crate) mod packing;
pub(crate) mod prefetch;
pub(crate) mod prepacked;
