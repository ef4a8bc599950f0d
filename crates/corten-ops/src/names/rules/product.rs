//! Products: the dimensions that are summed over go, batch dimensions are broadcast.

use super::all;
use crate::Tensor;
use crate::names::{Call, Inferred, unify_from_right};
use corten_core::{DimName, Result, ShownNames, bug, ensure};

/// The product of the first two tensors, of any number of dimensions.
pub(crate) fn matmul(call: &Call<'_>) -> Result<Inferred> {
    match call.inputs()[..] {
        [a, b, ..] => all(names_of_product(a, b)?),
        _ => bug!("a product of fewer than two tensors"),
    }
}

/// The first tensor plus the product of the other two.
pub(crate) fn addmatmul(call: &Call<'_>) -> Result<Inferred> {
    match call.inputs()[..] {
        [bias, a, b, ..] => {
            all(unify_from_right(&names_of_product(a, b)?, &bias.dim_names(), "broadcast")?)
        }
        _ => bug!("a sum with a product of fewer than three tensors"),
    }
}

/// The first tensor times the transposed second, plus the third where there is one.
pub(crate) fn linear(call: &Call<'_>) -> Result<Inferred> {
    let inputs = call.inputs();
    let [input, weight, ..] = inputs[..] else { bug!("linear of fewer than two tensors") };
    let (mut names, weight_names) = (input.dim_names(), weight.dim_names());
    names.pop();
    if weight.dim() > 1 {
        names.push(weight_names[0].clone());
    }
    check_features(&input.dim_names(), &weight_names, &names)?;
    match inputs.get(2) {
        Some(bias) => all(unify_from_right(&names, &bias.dim_names(), "broadcast")?),
        None => all(names),
    }
}

/// Every element of the first vector times every element of the second; a third tensor in front is
/// added.
pub(crate) fn outer(call: &Call<'_>) -> Result<Inferred> {
    let inputs = call.inputs();
    let [.., a, b] = inputs[..] else { bug!("an outer product of fewer than two vectors") };
    let names = [a.dim_names(), b.dim_names()].concat();
    match inputs[..] {
        [bias, _, _] => all(unify_from_right(&names, &bias.dim_names(), "broadcast")?),
        _ => all(names),
    }
}

/// All dimensions but the last two, and these.
fn batch_and_features(names: &[DimName]) -> (&[DimName], &[DimName]) {
    names.split_at(names.len().saturating_sub(2))
}

fn names_of_product(a: &Tensor, b: &Tensor) -> Result<Vec<DimName>> {
    let (a, b) = (a.dim_names(), b.dim_names());
    ensure!(
        !a.is_empty() && !b.is_empty(),
        Runtime,
        "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
        a.len(),
        b.len()
    );
    let ((a_batch, a_features), (b_batch, b_features)) =
        (batch_and_features(&a), batch_and_features(&b));
    check_distinct(&a, &b, "first", a_batch, "second", b_features)?;
    check_distinct(&a, &b, "second", b_batch, "first", a_features)?;
    let mut names = unify_from_right(a_batch, b_batch, "broadcast")?;
    names.extend_from_slice(&a_features[..a_features.len() - 1]);
    names.extend_from_slice(&b_features[1..]);
    check_features(&a, &b, &names)?;
    Ok(names)
}

/// Refuses a name of a batch dimension of one tensor that is one of the matrices of the other.
fn check_distinct(
    a: &[DimName],
    b: &[DimName],
    of_batch: &str,
    batch: &[DimName],
    of_features: &str,
    features: &[DimName],
) -> Result<()> {
    ensure!(
        !features.iter().any(|name| name.is_some() && batch.contains(name)),
        Runtime,
        "Misaligned dims when batch matrix multiplying Tensor{} and Tensor{}: there is overlap \
         between the feature dims of the {of_features} tensor ({}) and the batch dims of the \
         {of_batch} tensor ({}). Please ensure batch dims are not present in the feature dims.",
        ShownNames(a),
        ShownNames(b),
        ShownNames(features),
        ShownNames(batch)
    );
    Ok(())
}

/// Refuses a product whose last two dimensions have one name.
fn check_features(a: &[DimName], b: &[DimName], names: &[DimName]) -> Result<()> {
    let same = match names {
        [.., x, y] if a.len() > 1 && b.len() > 1 => x.is_some() && x == y,
        _ => false,
    };
    ensure!(
        !same,
        Runtime,
        "Matrix multiplying Tensor{} with Tensor{} would produce output tensor with duplicate names \
         {}. Please rename the input tensors with `Tensor.rename` to prevent this.",
        ShownNames(a),
        ShownNames(b),
        ShownNames(names)
    );
    Ok(())
}
