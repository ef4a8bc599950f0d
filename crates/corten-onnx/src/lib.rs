//! Models in the format ONNX: graphs of operators with their weights, as [`Model`] describes them.
//!
//! ```
//! use corten::onnx::{Attribute, Graph, Model, Node, Tensors, ValueInfo};
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let weight = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let mut product = Node::new("Gemm", ["x", "weight"], ["y"]);
//! product.attributes.push(("transB".to_owned(), Attribute::Int(1)));
//! let graph = Graph {
//!     name: "main_graph".to_owned(),
//!     nodes: vec![product],
//!     inputs: vec![ValueInfo::new("x", 1, [Some(3), Some(2)])],
//!     outputs: vec![ValueInfo::new("y", 1, [Some(3), Some(2)])],
//!     initializers: vec![("weight".to_owned(), weight)],
//!     ..Graph::default()
//! };
//! let bytes = Model::new(graph, 20).to_bytes()?;
//! let read = Model::from_bytes(&bytes, Tensors::Within)?;
//! assert_eq!(read.graph.nodes[0].op_type, "Gemm");
//! assert_eq!(read.graph.initializers[0].1.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok(())
//! # }
//! ```

mod data;
mod messages;
mod model;
mod read;
mod value;
mod write;

pub use model::{Attribute, Dimension, Graph, Model, Node, ValueInfo};
pub use read::Tensors;
pub use write::External;
