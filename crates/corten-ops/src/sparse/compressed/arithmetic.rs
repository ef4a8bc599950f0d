//! Sums, products and quotients of compressed tensors.

use super::convert::{Arrangement, Coordinates, converted, dense_of, entries_at, same_places};
use super::dense::at;
use super::{Matrices, in_blocks, is_compressed};
use crate::{Tensor, op};
use corten_core::{Layout, Result, Scalar, bail, ensure};

/// Whether a tensor stands for a number.
fn is_number(tensor: &Tensor) -> bool {
    tensor.dim() == 0 && tensor.layout() == Layout::Strided
}

/// `self + alpha * other`: compressed for two tensors of one layout, dense with a dense one.
///
/// # Errors
/// `Runtime` where shapes or layouts differ.
pub fn add(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let (ours, theirs) = (self_.sizes(), other.sizes());
    let (a, b) = (Matrices::of(self_), Matrices::of(other));
    if ours != theirs {
        if a.is_some() && b.is_some() {
            bail!(
                Runtime,
                "torch.add: Expected input tensors to have the same shape, but got tensor `self` with \
                 shape {:?} and tensor `other` with shape {:?}",
                ours.as_slice(),
                theirs.as_slice()
            );
        }
        let sizes =
            |other: &Tensor| if is_number(other) { Vec::new() } else { other.sizes().to_vec() };
        bail!(
            Runtime,
            "add: expected 'self' and 'other' to have same size, but self has size {:?} while other \
             has size {:?} (FYI: op2-sparse addition does not currently support broadcasting)",
            sizes(other),
            ours.as_slice()
        );
    }
    match (a, b) {
        (Some(a), Some(b)) => sum_of_two(&a, &b, alpha),
        // The factor is that of the sparse operand, whichever comes second.
        (Some(a), None) if other.layout() == Layout::Strided => {
            op::add_tensor(other, &dense_of(&a)?, alpha)
        }
        (None, Some(b)) if self_.layout() == Layout::Strided => {
            op::add_tensor(self_, &dense_of(&b)?, alpha)
        }
        _ => Err(different_layouts(self_.layout(), other.layout())),
    }
}

fn different_layouts(ours: Layout, theirs: Layout) -> corten_core::Error {
    corten_core::err!(Runtime, "add: expected tensors of one layout, but got {ours} and {theirs}")
}

fn sum_of_two(a: &Matrices, b: &Matrices, alpha: Scalar) -> Result<Tensor> {
    if a.layout() != b.layout() || a.block() != b.block() {
        return Err(different_layouts(a.layout(), b.layout()));
    }
    let (ours, theirs) = (&a.parts.values, &b.parts.values);
    if same_places(a, b)? {
        return a.with_values(op::add_tensor(ours, theirs, alpha)?).tensor();
    }
    let (mine, others) = (Coordinates::of(a)?, Coordinates::of(b)?);
    let both = |x: &Tensor, y: &Tensor| op::cat(&[x.clone(), y.clone()], 0);
    let places = Coordinates {
        batch: both(&mine.batch, &others.batch)?,
        row: both(&mine.row, &others.row)?,
        column: both(&mine.column, &others.column)?,
    };
    let values = both(&a.flat_values()?, &op::mul_scalar(&b.flat_values()?, alpha)?)?;
    let goal = Arrangement {
        sizes: &a.sizes,
        layout: a.layout(),
        start: a.start(),
        dtype: a.parts.compressed_indices.dtype(),
        sums: true,
    };
    goal.of(&places, &values)?.tensor()
}

/// `self - alpha * other`.
///
/// # Errors
/// As [`add`].
pub fn sub(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if let (Some(a), Layout::Strided) = (Matrices::of(self_), other.layout())
        && self_.sizes() == other.sizes()
    {
        return op::sub_tensor(&dense_of(&a)?, other, alpha);
    }
    let negative = match alpha {
        Scalar::Float(number) => Scalar::Float(-number),
        Scalar::Complex(number) => Scalar::Complex(-number),
        number => Scalar::Int(-number.to_i64()),
    };
    add(self_, other, negative)
}

/// The product of the elements: zero where one of both has no entry.
///
/// # Errors
/// `Runtime` where the shapes differ.
pub fn mul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (a, other) = match Matrices::of(self_) {
        Some(a) => (a, other),
        None => (Matrices::expect(other, "mul")?, self_),
    };
    if is_number(other) {
        return a.with_values(op::mul_tensor(&a.parts.values, other)?).tensor();
    }
    ensure!(
        a.sizes == other.sizes(),
        Runtime,
        "sparse_mask(): operands have incompatible sizes; self has size {:?} but mask has size {:?}",
        other.sizes().as_slice(),
        a.sizes.as_slice()
    );
    if !is_compressed(other.layout()) {
        let factors = entries_at(other, &a)?;
        return a.with_values(op::mul_tensor(&a.parts.values, &factors)?).tensor();
    }
    let b = Matrices::expect(other, "mul")?;
    let block = a.block();
    let blocksize = in_blocks(a.layout()).then_some(&block[..]);
    common(&a, &converted(&b, a.layout(), blocksize, None)?)
}

/// The product where both have an entry.
fn common(a: &Matrices, b: &Matrices) -> Result<Tensor> {
    if same_places(a, b)? {
        return a.with_values(op::mul_tensor(&a.parts.values, &b.parts.values)?).tensor();
    }
    let places = Coordinates::of(a)?;
    let (mine, theirs) = (places.flat(a.grid())?, Coordinates::of(b)?.flat(a.grid())?);
    if theirs.numel() == 0 {
        return op::zeros_like(&a.tensor()?, None, None, None, None, None);
    }
    let (ordered, order) = op::sort(&theirs, 0, false)?;
    let found = op::searchsorted_tensor(&ordered, &mine, false, false, None, None)?;
    let found = op::clamp(&found, None, Some(Scalar::Int(theirs.numel() - 1)))?;
    let both = op::eq_tensor(&at(&ordered, &[&found])?, &mine)?;
    let chosen = at(&order, &[&at(&found, &[&both])?])?;
    let values =
        op::mul_tensor(&at(&a.flat_values()?, &[&both])?, &at(&b.flat_values()?, &[&chosen])?)?;
    let places = Coordinates {
        batch: at(&places.batch, &[&both])?,
        row: at(&places.row, &[&both])?,
        column: at(&places.column, &[&both])?,
    };
    let goal = Arrangement {
        sizes: &a.sizes,
        layout: a.layout(),
        start: a.start(),
        dtype: a.parts.compressed_indices.dtype(),
        sums: false,
    };
    goal.of(&places, &values)?.tensor()
}

/// Every entry divided by a number.
///
/// # Errors
/// `Runtime` where the divisor is no number.
pub fn div(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let a = divided(self_, other)?;
    a.with_values(op::div_tensor(&a.parts.values, other)?).tensor()
}

/// As [`div`], rounded.
///
/// # Errors
/// As there.
pub fn div_mode(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    let a = divided(self_, other)?;
    a.with_values(op::div_tensor_mode(&a.parts.values, other, rounding_mode)?).tensor()
}

fn divided(self_: &Tensor, other: &Tensor) -> Result<Matrices> {
    ensure!(is_number(other), Runtime, "unsupported tensor layout: {}", other.layout());
    Matrices::expect(self_, "div")
}

/// Every entry set to a number.
///
/// # Errors
/// Those of filling.
pub fn fill_(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    op::fill__scalar(&Matrices::expect(self_, "fill_")?.parts.values, value)?;
    Ok(self_.clone())
}

/// A number at the places of the entries.
///
/// # Errors
/// Those of filling.
pub fn fill(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let x = Matrices::expect(self_, "fill")?;
    x.with_values(op::fill_scalar(&x.parts.values, value)?).tensor()
}
