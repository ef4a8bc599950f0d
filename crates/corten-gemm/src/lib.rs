//! Products of matrices: `c = beta * c + alpha * a @ b` at any strides, on one thread. Floats of 16
//! bits are summed as `f32` and rounded once; integers wrap around, and those of 8 and 16 bits are
//! summed as `i32`, which products of bytes may also be.
//!
//! It knows nothing of tensors and depends on nothing, so that it is optimised also where what
//! calls it is built for debugging.
//!
//! Results do not depend on how a caller cuts a product into parts that it computes in the same
//! [`Way`]: the order in which the terms of an element are added up is that of the way.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_blocks;
mod blocks;
mod bytes;
mod few;
#[cfg(target_arch = "x86_64")]
mod grouped;
mod lying;
mod made;
mod moves;
mod narrow;
mod narrow_products;
mod output;
mod pack;
mod packed;
#[cfg(target_arch = "x86_64")]
mod pair;
#[cfg(target_arch = "x86_64")]
mod quad;
mod register;
mod scratch;
mod tile;
mod view;
mod way;
mod widen;

#[cfg(target_arch = "x86_64")]
pub use amx::has_amx;
pub use blocks::{product, product_of_factors, product_of_packed};
pub use bytes::{Byte, product_of_bytes};
pub use narrow::{Bf16, F16, Narrow};
#[cfg(target_arch = "x86_64")]
pub use narrow_products::product_of_packed_pairs;
pub use narrow_products::{NarrowFactor, product_of_narrow};
pub use output::{Apart, Start};
pub use pack::{CONFLICT, Columns, Factor, Pieces, SLACK, copies_rows_in_conflict};
pub use packed::Packed;
#[cfg(target_arch = "x86_64")]
pub use packed::PackedPairs;
pub use tile::{Instructions, Number};
pub use view::{Source, View};
pub use way::{FEW, Way};
