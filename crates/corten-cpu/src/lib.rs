//! CPU kernels.
//!
//! `kernels/<family>.rs` holds the loops of each family of operators, under the names that
//! `ops/<family>.toml` gives them. Pointwise operators given as expressions need no kernel of
//! their own: see [`vec::expr`]. `pointwise`, `reduce`, `rows` and `copy` hold the loops that
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
    });
    result
}

/// The instructions that products of matrices use at the level in use, by the name that processors' makers
/// give them.
pub fn product_instructions() -> &'static str {
    gemm::instructions_in_use()
}
