//! Products of matrices of floats: `c = beta * c + alpha * a @ b` at any strides, on one thread.
//!
//! It knows nothing of tensors and depends on nothing, so that it is optimised also where what
//! calls it is built for debugging.
//!
//! Results do not depend on how a caller cuts a product into parts: every element is the sum over
//! the depth in its order.

mod blocks;
mod few;
mod moves;
mod output;
mod pack;
mod register;
mod scratch;
mod tile;
mod view;
mod way;

pub use blocks::{product, product_with_columns};
pub use output::Start;
pub use pack::{Columns, SLACK};
pub use tile::{Float, Instructions};
pub use view::View;
pub use way::Way;
