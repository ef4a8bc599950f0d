//! Drivers: the choice of an algorithm, and the loops around the kernels.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx_gemm;
pub(crate) mod depthwise_int8;
pub(crate) mod epilogue;
pub(crate) mod gemm;
pub(crate) mod int8;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_axpy;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_vnni;
pub(crate) mod macro_kernel;
pub(crate) mod mixed_precision;
pub(crate) mod plan;
pub(crate) mod prepacked;
#[cfg(target_arch = "x86_64")]
pub(crate) mod prepacked_bf16;
pub(crate) mod prepacked_int8;
pub(crate) mod requantize;
pub(crate) mod skinny;
#[cfg(target_arch = "x86_64")]
pub(crate) mod skinny_vnni;
pub(crate) mod small_gemm;
pub(crate) mod unpacked;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni2;
