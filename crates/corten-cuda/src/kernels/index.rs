//! Choosing and indexing.

use crate::pointwise::{Expression, run_as};
use corten_core::{Result, Scalar};
use corten_ops::TensorIterator;
use corten_ops::meta::Domain;

static WHERE: Expression = Expression {
    name: "where_cuda",
    operator: "Where",
    text: "",
    inputs: 3,
    domain: Domain::Every,
};

/// The second input where the first is true, the third elsewhere.
///
/// # Errors
/// Those of the driver.
pub fn where_self(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.dtype(0);
    run_as(&WHERE, iter, &[], dtype)
}
