//! Kernels: the innermost loops, and their selection by element type and instruction set.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod args;
pub(crate) mod micro_kernel;
pub(crate) mod select;
pub(crate) mod skinny;
#[cfg(target_arch = "x86_64")]
pub(crate) mod skinny_vnni;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni4_axpy;
