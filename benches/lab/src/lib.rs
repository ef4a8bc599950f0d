//! The slow twins of the fast kernels.
//!
//! Each family has a `v0`: its definition in plain safe Rust, as one would write it first. The
//! library's result is checked against it, by the tests at small sizes and by the bench at the
//! sizes it times; the bench prints what the fast version gains. A version between the two, kept
//! because it teaches something, is a `v1` beside its `v0`.

mod conv;
mod matmul;
mod pointwise;
mod reduce;
mod softmax;

use corten::core::{Result, ensure};
use corten::{Tensor, op};

/// One kernel at one size, in both versions.
pub struct Case {
    /// The kernel and its operands.
    pub name: String,
    /// What one call moves or computes.
    pub work: Work,
    /// How large a result usually is: what rounding errors are held against.
    pub scale: f32,
    /// The naive version.
    pub v0: Box<dyn Fn() -> Vec<f32>>,
    /// The library's.
    pub library: Box<dyn Fn() -> Result<Tensor>>,
}

/// What one call of a kernel does, so that its speed can be held against the machine's.
#[derive(Clone, Copy)]
pub enum Work {
    /// Bytes that the operands hold: what has to be moved at least.
    Bytes(usize),
    /// Floating-point operations: a multiplication and an addition are two.
    Flops(usize),
}

/// How large the operands are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Odd numbers of elements, quick in a debug build.
    Small,
    /// What the bench times.
    Large,
}

/// Every kernel that has a twin.
///
/// # Errors
/// Those of making the operands.
pub fn cases(size: Size) -> Result<Vec<Case>> {
    let families = [pointwise::cases, reduce::cases, softmax::cases, matmul::cases, conv::cases]
        .map(|f| f(size));
    let mut all = Vec::new();
    for family in families {
        all.extend(family?);
    }
    Ok(all)
}

impl Case {
    /// Holds the library's result against that of `v0`.
    ///
    /// # Errors
    /// `Runtime` when they differ by more than rounding explains; the library's own.
    pub fn check(&self) -> Result<()> {
        let (slow, fast) = ((self.v0)(), (self.library)()?.to_vec::<f32>()?);
        ensure!(slow.len() == fast.len(), Runtime, "{}: {} elements", self.name, fast.len());
        for (i, (slow, fast)) in slow.iter().zip(&fast).enumerate() {
            let apart = (slow - fast).abs();
            let close = apart <= 2e-6 * (self.scale + slow.abs());
            ensure!(close, Runtime, "{}: element {i} is {fast}, not {slow}", self.name);
        }
        Ok(())
    }
}

/// Normal random numbers, as a tensor and as the naive versions see them.
fn operand(sizes: &[i64]) -> Result<(Tensor, Vec<f32>)> {
    let tensor = op::randn(sizes, None, None, None, None)?;
    let elements = tensor.to_vec::<f32>()?;
    Ok((tensor, elements))
}
