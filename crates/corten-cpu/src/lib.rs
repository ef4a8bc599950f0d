//! CPU kernels.
//!
//! `kernels/<family>.rs` holds the loops of each family of operators, under the names that
//! `ops/<family>.toml` gives them. Pointwise operators given as expressions need no kernel of
//! their own: see [`pointwise::expr`]. `pointwise`, `reduce`, `rows` and `copy` hold the loops that
//! kernels share, [`vec`] the vectors and their mathematics, `gemm` the way into the products of matrices,
//! `parallel` the threads.

mod copy;
mod gemm;
pub mod kernels;
pub mod parallel;
pub mod pointwise;
mod reduce;
mod rows;
mod special;
pub mod vec;

#[allow(
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::too_many_lines,
    unreachable_pub,
    unused,
    nonstandard_style
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

use corten_core::DispatchKey;
use corten_ops::op;

/// Registers the kernels and the thread pool. Idempotent; the facade calls it before `main`.
///
/// # Errors
/// `Runtime` when a device type cannot have kernels; the CPU can.
pub fn init() -> corten_core::Result<()> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        parallel::install();
        result = generated::register();
        // A list without tensors names no backend.
        op::CAT.implement(DispatchKey::Undefined, kernels::combine::cat);
        op::MKLDNN_LINEAR.implement(DispatchKey::MkldnnCPU, kernels::opaque::linear);
        // Everywhere else these are made of other operators.
        op::LOGSUMEXP.implement(DispatchKey::CPU, kernels::softmax::logsumexp);
        let with_logits = kernels::loss_pointwise::binary_cross_entropy_with_logits;
        op::BINARY_CROSS_ENTROPY_WITH_LOGITS.implement(DispatchKey::CPU, with_logits);
        let backward = kernels::loss_pointwise::binary_cross_entropy_backward;
        op::BINARY_CROSS_ENTROPY_BACKWARD.implement(DispatchKey::CPU, backward);
    });
    result
}

/// The instructions that products of matrices use at the level in use, by the name that processors' makers
/// give them.
pub fn product_instructions() -> &'static str {
    gemm::instructions_in_use()
}
