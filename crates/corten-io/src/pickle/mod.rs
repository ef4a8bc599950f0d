//! Pickles, without running what is in them.
//!
//! The [`Machine`] understands all opcodes of Python's protocols 0 to 5 that make values, and calls nothing: what they
//! make is up to its [`Objects`]. [`read`] makes nodes, of which a [`Value`](crate::Value) can be made; what a pickle
//! asks for by name is asked of a [`Host`], which knows a fixed list.

mod machine;
mod node;
mod source;
mod values;
mod writer;

pub use machine::{Fault, Literal, Machine, Objects};
pub use node::{Arena, Node, NodeId};
pub use source::{Slice, Source};
pub use values::{Host, read};
pub use writer::Writer;
