//! The shared library of the C ABI, for tests. `make c-library` makes the one for users.

pub use corten_c::*;
