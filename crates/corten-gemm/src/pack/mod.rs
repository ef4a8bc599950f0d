//! Packing, as in Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008):
//! operands are copied into the order in which micro-kernels read them, where reading them in place
//! would cost more.

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
