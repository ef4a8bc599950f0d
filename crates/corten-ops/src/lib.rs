//! Tensors, the dispatcher, the operator surface, the iterator. Knows no device.
//!
//! The operators are declared in `ops/*.toml`; the build script turns the declarations into
//! [`op`]: one typed, dispatching function and one static per overload, and into the methods of
//! [`Tensor`].

pub mod affine;
pub mod any;
pub mod batched;
pub mod blocks;
mod boxed;
pub mod checks;
pub mod composite;
mod conversion;
mod data;
pub mod derived;
pub mod device_groups;
pub mod dispatch;
pub mod expression;
pub mod front;
pub mod index;
pub mod iter;
mod joint;
mod library;
pub mod meta;
pub mod names;
pub mod opaque;
mod operators;
pub mod parallel;
pub mod print;
pub mod profiler;
pub mod quantized;
pub mod registry;
pub mod shortcut;
pub mod sparse;
mod stub;
mod tensor;
pub mod zero_tensor;

#[allow(
    missing_docs,
    clippy::all,
    clippy::too_many_lines,
    clippy::undocumented_unsafe_blocks,
    unreachable_pub,
    unused,
    nonstandard_style
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

pub use boxed::{FromIValue, IValue, Returns, Stack, StoreIn, returns};
pub use conversion::Conversion;
pub use corten_codegen::schema;
pub use corten_core as core;
pub use corten_core::{Error, ErrorKind, Result, Scalar};
pub use dispatch::{
    BoxedCall, BoxedKernel, Found, KeyBuilder, Registration, Signed, Target, TypedOp,
    replace_arguments, replace_tensors,
};
pub use generated::{build, op, sig, stubs};
pub use iter::TensorIterator;
pub use joint::{JointLaunches, set_joint_launches};
pub use library::{Library, call};
pub use names::{IntoNames, without_names};
pub use registry::{AnyOp, Autocast, Cost, Gradient, OpDef, OpKind, Uint64};
pub use stub::{IterKernel, Stub, run1, run2, run3, run4};
pub use tensor::Tensor;

/// Makes the device-agnostic part ready: the fallbacks of the lazy bits and the kernels of the
/// meta device. Idempotent; the facade calls it before `main`.
pub fn init() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(generated::register);
    dispatch::install_default_fallbacks();
    any::lazy::register();
}
