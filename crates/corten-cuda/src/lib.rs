//! The CUDA back end: nothing of CUDA is linked, and nothing of it is loaded before the first use.

pub mod caching;
