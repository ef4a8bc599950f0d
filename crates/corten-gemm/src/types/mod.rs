//! Matrices, numbers and buffers: what the other layers are written in terms of.

pub(crate) mod low_precision;
pub(crate) mod view;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni;
pub(crate) mod workspace;
