//! What most programs use.
//!
//! A model is trained by a loop over its loss:
//!
//! ```
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! corten::manual_seed(0);
//! let model = Sequential::new().with(Linear::new(2, 8)?).with(Tanh).with(Linear::new(8, 1)?);
//! let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
//! let x = Tensor::from_vec(vec![0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2])?;
//! let y = Tensor::from_vec(vec![0.0f32, 1.0, 1.0, 0.0], &[4, 1])?;
//! let mut losses = Vec::new();
//! for _ in 0..50 {
//!     let loss = loss::mse_loss(&model.forward(&x)?, &y, Reduction::Mean)?;
//!     optimizer.zero_grad()?;
//!     loss.backward()?;
//!     optimizer.step()?;
//!     losses.push(loss.to_element::<f32>()?);
//! }
//! assert!(losses[49] < losses[0]);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is recorded inside of [`no_grad`](crate::no_grad):
//!
//! ```
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let w = Tensor::from_vec(vec![1.0f32], &[1])?.requires_grad_(true)?;
//! let y = corten::no_grad(|| &w * 2.0)?;
//! assert!(!y.requires_grad());
//! # Ok(())
//! # }
//! ```

pub use crate::nn::{
    BatchNorm1d, BatchNorm2d, Buffer, Conv1d, Conv2d, Conv2dOptions, Dropout, Embedding, Flatten,
    Forward, Gelu, LayerNorm, Linear, MaxPool2d, Module, ModuleExt, ModuleList, Parameter,
    Reduction, Relu, Sequential, Tanh, loss,
};
pub use corten_autograd::{Autograd, no_grad};
pub use corten_core::{DType, Device, Result, Scalar};
pub use corten_data::{DataLoader, Dataset, TensorDataset};
pub use corten_derive::expr;
pub use corten_nn::optim::lr_scheduler::LrScheduler;
pub use corten_nn::optim::{Adam, AdamOptions, AdamW, AdamWOptions, Optimizer, Sgd, SgdOptions};
pub use corten_ops::{Tensor, build, op, s, tensor};
