//! Kernels: the innermost loops.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod micro_kernel;
pub(crate) mod skinny;
#[cfg(target_arch = "x86_64")]
pub(crate) mod skinny_vnni;
