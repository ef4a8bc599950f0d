//! Modules, initialisation, losses, optimizers: the training front end of Rust programs.
//!
//! Names, defaults and random numbers are PyTorch's, so that for one seed a model begins with the
//! same weights, and files of weights can be exchanged. Acronyms are written as Rust writes words:
//! `LSTM` is [`Lstm`], `ReLU` is [`Relu`], `NLLLoss` is [`NllLoss`]. What is printed is PyTorch's
//! name.
//!
//! A struct of layers is a module:
//!
//! ```
//! use corten::prelude::*;
//! use corten::nn::{Linear, Module};
//!
//! #[derive(Module)]
//! struct Net {
//!     hidden: Linear,
//!     out: Linear,
//! }
//!
//! impl Forward for Net {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.out.call(&self.hidden.call(x)?.relu()?)
//!     }
//! }
//!
//! corten::manual_seed(0);
//! let net = Net { hidden: Linear::new(2, 8)?, out: Linear::new(8, 1)? };
//! assert_eq!(net.parameter_count(), 33);
//! # Ok::<(), corten::Error>(())
//! ```
//!
//! # Traits
//!
//! [`Module`] is what has parts; it is derived. [`Forward`] is a module of one tensor in and one
//! out, as [`Sequential`] takes them. Modules with other arguments, such as [`Lstm`],
//! [`MultiheadAttention`], [`Bilinear`] and the losses, have a method `forward` of their own.
//! [`ModuleExt`] is what every module can do: `named_parameters`, `state_dict`, `to`, `train`,
//! `deep_clone` and so on.
//!
//! # Construction
//!
//! Every module has a function `new`, which takes what PyTorch requires and leaves the rest at
//! PyTorch's defaults, and, where there is more to choose, a function `with`, which takes a struct
//! of options last:
//!
//! ```
//! use corten::nn::{Conv2d, ConvOptions};
//!
//! let plain = Conv2d::new(3, 8, 3)?;
//! let options = ConvOptions { stride: 2.into(), padding: 1.into(), ..Default::default() };
//! let strided = Conv2d::with(3, 8, [3, 5], options)?;
//! assert_eq!(
//!     strided.to_string(),
//!     "Conv2d(3, 8, kernel_size=(3, 5), stride=(2, 2), padding=(1, 1))"
//! );
//! # Ok::<(), corten::Error>(())
//! ```
//!
//! Sizes of windows are one number or one for each dimension. Functions that can fail, because they
//! allocate or check what they are given, return a `Result`; the others return the module. Modules
//! are made on the CPU in the default dtype; [`ModuleExt::to`] brings them elsewhere.
//!
//! PyTorch's `inplace` is absent: it saves memory that autograd mostly keeps anyway.

// The derive macro names this crate from outside.
extern crate self as corten_nn;

/// An example in a doc comment: the lines between the imports and the end.
macro_rules! example {
    ($($line:tt)+) => {
        concat!(
            "\n```\nuse corten::nn::*;\nuse corten::prelude::*;\n\n",
            $($line)+,
            "\n# Ok::<(), corten::Error>(())\n```"
        )
    };
}

mod activation;
mod adaptive_pool;
mod attention;
mod batch_norm;
mod clip;
mod container;
mod conv;
mod copy;
mod distance;
mod dropout;
mod embedding;
mod ext;
mod fields;
mod hooks;
pub mod init;
mod lazy;
mod linear;
pub mod loss;
mod losses;
mod module;
mod norm;
pub mod optim;
mod padding;
mod parametrize;
mod pool;
mod print;
mod rnn;
mod semi_structured;
mod shape;
mod size;
mod softmax_loss;
mod state;
mod transformer;
mod upsample;
pub mod utils;

pub use activation::*;
pub use adaptive_pool::*;
pub use attention::{
    AttentionMasks, AttentionWeights, MultiheadAttention, MultiheadAttentionOptions,
};
pub use batch_norm::*;
pub use clip::{
    ClipGradOptions, clip_grad_norm_, clip_grad_norm_with, clip_grad_value_, total_norm,
};
pub use container::{ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential};
pub use conv::*;
pub use copy::Memo;
pub use distance::*;
pub use dropout::*;
pub use embedding::*;
pub use ext::ModuleExt;
pub use hooks::{Hooks, ModuleHookHandle};
pub use linear::*;
pub use loss::Reduction;
pub use losses::*;
pub use module::{
    AsModule, Buffer, Forward, Item, Layer, Mode, Module, ModuleField, Parameter, Visitor,
};
pub use norm::{
    CrossMapLrn2d, GroupNorm, GroupNormOptions, LayerNorm, LayerNormOptions, LocalResponseNorm,
    LocalResponseNormOptions, RmsNorm, RmsNormOptions,
};
pub use padding::*;
pub use parametrize::{SpectralNorm, SpectralNormOptions, WeightNorm, Weighted};
pub use pool::*;
pub use print::describe;
pub use rnn::{
    Gru, GruCell, Lstm, LstmCell, Nonlinearity, PackedSequence, PaddingSide, Rnn, RnnCell,
    RnnCellOptions, RnnOptions, invert_permutation, pack_padded_sequence, pack_sequence,
    pad_packed_sequence, pad_sequence, unpack_sequence, unpad_sequence,
};
pub use semi_structured::SemiStructured;
pub use shape::*;
pub use size::Size;
pub use softmax_loss::*;
pub use state::{LoadReport, StateDict};
pub use transformer::{
    FeedForwardActivation, Transformer, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer, TransformerLayerOptions, TransformerMasks,
    TransformerOptions,
};
pub use upsample::*;

#[doc(hidden)]
pub use corten_core::Result;
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
