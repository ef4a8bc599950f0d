//! The gradient engine. Knows no device.
//!
//! Operators are recorded as [`Node`]s while they run ([`record`]), and walked backwards by the
//! [`engine`]. The wrappers that record and the backward functions are generated from the
//! formulas in `ops/*.toml`; longer formulas are functions in [`formulas`].

mod accumulate;
pub mod anomaly;
mod api;
pub mod autocast;
pub mod backward;
mod batched;
mod checkpoint;
mod edge;
pub mod engine;
pub mod formulas;
pub mod forward;
pub mod function;
pub mod functional;
mod inline_vec;
#[allow(
    missing_docs,
    clippy::all,
    clippy::too_many_lines,
    unreachable_pub,
    unused,
    nonstandard_style
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
pub mod gradcheck;
pub mod graph;
pub mod hooks;
mod inplace;
pub mod manual;
mod meta;
mod modes;
pub mod node;
mod outside;
pub mod ownership;
pub mod record;
mod release;
pub mod saved;
pub mod saved_hooks;
mod slots;
mod tensor_ext;
pub mod transform;
pub mod view;

pub use api::{BackwardOptions, backward, grad};
pub use checkpoint::checkpoint;
pub use engine::continues_elsewhere;
pub use gradcheck::{gradcheck, gradgradcheck};
pub use hooks::HookHandle;
pub use meta::GradDType;
pub use modes::{enable_grad, inference_mode, no_grad};
pub use node::{Edge, Node, NodeRef, WeakNode};
pub use tensor_ext::{Autograd, register_hook, register_post_accumulate_grad_hook, retain_grad};

use corten_core::Result;
use std::sync::OnceLock;

/// Installs the engine: tensors get autograd state, operators are recorded. Only the first call
/// does anything.
///
/// # Errors
/// When an operator of the registry has no place for its wrapper.
pub fn init() -> Result<()> {
    static DONE: OnceLock<Result<()>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        corten_core::set_autograd_meta_factories(meta::Meta::boxed, view::full_state);
        forward::register();
        outside::register();
        generated::register()
    });
    match done {
        Ok(()) => Ok(()),
        Err(error) => Err(corten_core::Error::new(error.kind(), error.message().to_owned())),
    }
}
