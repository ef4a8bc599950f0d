//! The way around the iterator.
//!
//! Most calls of elementwise operators are small and regular: tensors of one dtype and shape that
//! lie contiguously, and numbers. For those an iterator would cost several times what the loop does.
//! The CPU offers a way around it, which takes exactly the calls on which it gives what the
//! iterator gives, and leaves all others, errors included, to it.

use crate::Tensor;
use crate::meta::{Domain, Promote};
use crate::stub::Stub;
use corten_core::{Result, Scalar, fast_paths};

/// What decides the dtypes of an operator.
///
/// ```
/// use corten::ops::meta::{Domain, Promote};
/// use corten::ops::shortcut::Rule;
///
/// let of_exp = Rule { promote: Promote::Float, domain: Domain::All };
/// assert!(of_exp.domain.contains(corten::DType::Int64));
/// ```
pub struct Rule {
    /// How the operands' dtypes decide that of the result.
    pub promote: Promote,
    /// The dtypes that the operator computes in.
    pub domain: Domain,
}

/// A call of an operator with one result.
///
/// ```
/// use corten::ops::shortcut::Call;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?;
/// let call = Call { inputs: &[&x], out: None, scalars: &[] };
/// assert_eq!(call.inputs.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct Call<'a> {
    /// One to three tensors.
    pub inputs: &'a [&'a Tensor],
    /// The tensor that is written, where one was given.
    pub out: Option<&'a Tensor>,
    /// The scalar arguments in schema order.
    pub scalars: &'a [Scalar],
}

/// Runs a call, or leaves it to the iterator: `None`.
pub type Shortcut = fn(&Rule, &Call<'_>) -> Result<Option<Tensor>>;

/// Runs a call the short way, where there is one that takes it.
///
/// # Errors
/// Those of the allocation, of taking access, and a division of integers by zero.
#[inline]
pub(crate) fn run(stub: &Stub, rule: &Rule, call: &Call<'_>) -> Result<Option<Tensor>> {
    match stub.shortcut().filter(|_| fast_paths()) {
        Some(shortcut) => shortcut(rule, call),
        None => Ok(None),
    }
}
