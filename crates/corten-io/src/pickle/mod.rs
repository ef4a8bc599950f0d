//! Pickles, without running what is in them.
//!
//! [`machine`](Machine) understands all opcodes of Python's protocols 0 to 5 that make values, and calls nothing:
//! what a pickle asks for by name is asked of a [`Host`], which knows a fixed list.

mod machine;
mod node;
mod writer;

pub use machine::{Host, Machine};
pub use node::{Arena, Node, NodeId};
pub use writer::Writer;
