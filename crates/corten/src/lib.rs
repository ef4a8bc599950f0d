//! Tensors with PyTorch semantics, autograd, modules and optimizers.
//!
//! ```
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], &[3])?.requires_grad_(true)?;
//! let y = op::sum(&(&x * &x)?, None)?;
//! y.backward()?;
//! assert_eq!(x.grad().map(|grad| grad.to_vec::<f32>()).transpose()?, Some(vec![2.0, 4.0, 6.0]));
//! # Ok(())
//! # }
//! ```
//!
//! The crates behind it can be used on their own: [`core`] has tensors without operators, [`ops`]
//! the operators and the dispatcher, [`autograd`] the gradients, [`nn`] modules and optimizers,
//! [`data`] data sets and loaders, [`io`] files.

pub use corten_autograd as autograd;
pub use corten_blocks as blocks;
pub use corten_compile as compile;
pub use corten_core as core;
pub use corten_cpu as cpu;
#[cfg(all(feature = "cuda", unix))]
pub use corten_cuda as cuda;
pub use corten_data as data;
pub use corten_io as io;
#[cfg(feature = "onnx")]
pub use corten_onnx as onnx;
pub use corten_ops as ops;

pub use corten_autograd::{backward, enable_grad, grad, inference_mode, no_grad};
pub use corten_core::{
    DType, Device, Error, ErrorKind, Generator, Layout, MemoryFormat, Result, Scalar, manual_seed,
};
pub use corten_derive::expr;
pub use corten_ops::{Tensor, build, op, s, tensor};

pub mod memory;
pub mod prelude;

/// Modules, initialisation, losses, optimizers.
pub mod nn {
    /// Implements [`Module`](trait@Module) for a struct of layers, parameters and buffers.
    pub use corten_derive::FacadeModule as Module;
    pub use corten_nn::*;
}

/// Registers the operators' kernels and gradients. Programs need not call it: it runs before
/// `main`. In WebAssembly, where nothing does, they call it first.
///
/// # Errors
/// When a kernel of the registry has no place.
pub fn init() -> Result<()> {
    corten_ops::init();
    corten_cpu::init()?;
    corten_compile::init();
    corten_autograd::engine::set_pass_scope(deferred_pass);
    #[cfg(all(feature = "cuda", unix))]
    corten_cuda::init()?;
    corten_autograd::init()
}

/// The region of a backward pass.
struct DeferredPass(corten_compile::Region);

impl corten_autograd::engine::PassScope for DeferredPass {
    fn finish(self: Box<Self>) -> Result<()> {
        self.0.finish()
    }
}

/// Backward passes of threads that record their calls are recorded, too.
fn deferred_pass() -> Option<Box<dyn corten_autograd::engine::PassScope>> {
    let deferred = || Box::new(DeferredPass(corten_compile::Region::enter())) as _;
    corten_compile::defers_passes().then(deferred)
}

#[cfg(not(target_family = "wasm"))]
#[ctor::ctor]
fn register() {
    // Nobody could be told here. Without kernels every operator says that it has none.
    let _ = init();
}

/// The examples of the documents, so that they are run with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/ADDING.md")]
    struct Adding;

    #[doc = include_str!("../../../docs/SEMANTICS.md")]
    struct Semantics;

    #[doc = include_str!("../../../docs/SELECTIVE.md")]
    struct Selective;

    #[doc = include_str!("../../../docs/memory.md")]
    struct Memory;

    // It has an example for GPUs.
    #[cfg(feature = "cuda")]
    #[doc = include_str!("../../../docs/rust.md")]
    struct Rust;
}
