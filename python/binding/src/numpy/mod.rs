//! Exchange with NumPy through its public C structures, without linking or importing it.
//!
//! NumPy publishes a table of functions and types in a capsule, and the layout of its array object
//! is part of its public ABI, the same in versions 1 and 2. The table is read when the program
//! itself has imported NumPy, or asks for an array.

mod api;
mod exchange;

pub(crate) use api::{is_array, is_scalar, is_scalar_array, scalar_kind};
pub(crate) use exchange::{dtype_of, from_array, functions, scalar_to_array, to_array};
