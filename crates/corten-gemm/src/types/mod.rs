//! Matrices, numbers, buffers and block sizes: what the other layers are written in terms of.

pub(crate) mod accumulate;
pub(crate) mod cache;
pub(crate) mod element;
pub(crate) mod isa;
pub(crate) mod low_precision;
pub(crate) mod params;
pub(crate) mod partition;
pub(crate) mod strided_rows;
pub(crate) mod view;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni;
pub(crate) mod workspace;
