//! Modules, initialisation, losses, optimizers: the training front end of Rust programs.
//!
//! Names, defaults and random numbers are PyTorch's, so that for one seed a model begins with the
//! same weights, and files of weights can be exchanged. A module is any type with a `forward` and
//! a list of its parts:
//!
//! ```no_run
//! use corten_core::Result;
//! use corten_nn::{Linear, Module, parts};
//! use corten_ops::Tensor;
//!
//! struct Net {
//!     hidden: Linear,
//!     out: Linear,
//! }
//!
//! impl Module for Net {
//!     parts!(hidden, out);
//!
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.out.forward(&self.hidden.forward(x)?.relu()?)
//!     }
//! }
//! ```

mod activation;
mod attention;
mod clip;
mod container;
mod conv;
mod dropout;
mod embedding;
pub mod init;
mod linear;
pub mod loss;
mod module;
mod norm;
pub mod optim;
mod pool;
mod state;
mod transformer;

pub use activation::{Gelu, LeakyRelu, LogSoftmax, Relu, Sigmoid, Silu, Softmax, Tanh};
pub use attention::{MultiheadAttention, MultiheadAttentionOptions};
pub use clip::{clip_grad_norm_, clip_grad_value_};
pub use container::{ModuleList, Sequential};
pub use conv::{Conv1d, Conv2d, Conv2dOptions, ConvOptions};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::{Flatten, Identity, Linear};
pub use loss::Reduction;
pub use module::{Buffer, Item, Mode, Module, ModuleExt, ModuleField, Parameter, Visitor};
pub use norm::{BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RmsNorm};
pub use pool::{AvgPool2d, MaxPool2d};
pub use state::{LoadReport, StateDict};
pub use transformer::{TransformerEncoder, TransformerEncoderLayer, TransformerLayerOptions};

use corten_core::Result;
use corten_ops::{Tensor, op};

/// A tensor of the default dtype whose elements are still to be written.
fn empty(sizes: &[i64]) -> Result<Tensor> {
    op::empty_memory_format(sizes, None, None, None, None, None)
}

fn zeros(sizes: &[i64]) -> Result<Tensor> {
    op::zeros(sizes, None, None, None, None)
}

fn ones(sizes: &[i64]) -> Result<Tensor> {
    op::ones(sizes, None, None, None, None)
}
