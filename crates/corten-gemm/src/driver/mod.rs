//! Drivers: the outer loops, and the choice among them.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx_gemm;
pub(crate) mod epilogue;
pub(crate) mod gemm;
pub(crate) mod int8;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_axpy;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_vnni;
pub(crate) mod mixed_precision;
pub(crate) mod plan;
pub(crate) mod small_gemm;
pub(crate) mod unpacked;
