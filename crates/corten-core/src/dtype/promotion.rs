//! Type promotion: of two dtypes, and of the operands of a call.

use crate::{DType, Error, Result, Scalar, bail, default_complex_dtype, default_dtype, err};

/// The smallest dtype to which both convert, by the table of PyTorch.
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    use DType::*;
    if a == b {
        return Ok(a);
    }
    if a == Undefined || b == Undefined {
        return Ok(Undefined);
    }
    if !(a.is_numeric() && b.is_numeric()) {
        return Err(not_promoted(a, b));
    }
    if a.is_float8() || b.is_float8() {
        bail!(
            Runtime,
            "Promotion for Float8 Types is not supported, attempted to promote {a} and {b}"
        );
    }
    if a.is_barebones_unsigned() || b.is_barebones_unsigned() {
        return match (a.is_floating_point(), b.is_floating_point()) {
            (true, _) => Ok(a),
            (_, true) => Ok(b),
            _ => bail!(
                Runtime,
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to \
                 promote {a} and {b}"
            ),
        };
    }
    if a.is_complex() || b.is_complex() {
        return Ok(promote_complex(a, b));
    }
    Ok(match (a.is_floating_point(), b.is_floating_point()) {
        (true, true) => promote_floats(a, b),
        (true, false) => a,
        (false, true) => b,
        (false, false) => promote_integers(a, b),
    })
}

/// Dtypes that are no numbers go with themselves alone.
#[cold]
fn not_promoted(a: DType, b: DType) -> Error {
    if a.is_quantized() || b.is_quantized() {
        return err!(
            Runtime,
            "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules \
             should be, offending types: {a} {b}"
        );
    }
    if a.is_bits() || b.is_bits() {
        return err!(Runtime, "Promotion from {a} and {b} is unsupported.");
    }
    err!(
        Runtime,
        "Promotion is not supported for dtypes that are stored only, attempted to promote {a} and {b}"
    )
}

fn promote_floats(a: DType, b: DType) -> DType {
    match (a, b) {
        (a, b) if a == b => a,
        (DType::Float64, _) | (_, DType::Float64) => DType::Float64,
        // bf16 and f16 have no common format below f32.
        _ => DType::Float32,
    }
}

fn promote_integers(a: DType, b: DType) -> DType {
    match (a, b) {
        (DType::Bool, other) | (other, DType::Bool) => other,
        (DType::UInt8, DType::Int8) | (DType::Int8, DType::UInt8) => DType::Int16,
        _ if a.itemsize() >= b.itemsize() => a,
        _ => b,
    }
}

fn promote_complex(a: DType, b: DType) -> DType {
    // Integers leave the complex dtype as it is; floats and complex numbers promote the parts.
    let part =
        |dtype: DType| (dtype.is_complex() || dtype.is_floating_point()).then_some(dtype.to_real());
    match (part(a), part(b)) {
        (Some(x), Some(y)) => promote_floats(x, y).to_complex(),
        (Some(_), None) => a,
        _ => b,
    }
}

/// Whether values of `from` may be written into a tensor of `to` without an explicit conversion.
pub fn can_cast(from: DType, to: DType) -> bool {
    (from == to || from.is_numeric() && to.is_numeric()) && casts_by_category(from, to)
}

/// [`can_cast`] by categories alone, as PyTorch's `can_cast` answers for dtypes that are no numbers, too.
pub fn casts_by_category(from: DType, to: DType) -> bool {
    let loses_imaginary = from.is_complex() && !to.is_complex();
    let loses_fraction = from.is_floating_point() && to.is_integral(false);
    let loses_integer = from != DType::Bool && to == DType::Bool;
    !(loses_imaginary || loses_fraction || loses_integer)
}

/// The dtype of a call's result, gathered operand by operand.
///
/// Note [Result type]: tensors with dimensions, tensors of rank 0 and language numbers form three
/// classes. A class of lower rank changes the result only if its category (bool, integer, float,
/// complex) is higher.
///
/// ```
/// use corten_core::{DType, ResultTypeState};
///
/// let mut state = ResultTypeState::new();
/// state.push_tensor(DType::Int32, 2, false)?;
/// state.push_scalar(&2.5.into())?;
/// assert_eq!(state.finish()?, DType::Float32);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultTypeState {
    dimensional: Option<DType>,
    zero_dimensional: Option<DType>,
    wrapped: Option<DType>,
}

impl ResultTypeState {
    /// No operand yet.
    pub const fn new() -> Self {
        Self { dimensional: None, zero_dimensional: None, wrapped: None }
    }

    /// Adds a tensor of rank `dim`; `wrapped_number` if it was made from a language number.
    pub fn push_tensor(&mut self, dtype: DType, dim: usize, wrapped_number: bool) -> Result<()> {
        if wrapped_number {
            let dtype = if dtype.is_complex() {
                default_complex_dtype()
            } else if dtype.is_floating_point() {
                default_dtype()
            } else {
                dtype
            };
            join(&mut self.wrapped, dtype)
        } else if dim > 0 {
            join(&mut self.dimensional, dtype)
        } else {
            join(&mut self.zero_dimensional, dtype)
        }
    }

    /// Adds a language number.
    pub fn push_scalar(&mut self, scalar: &Scalar) -> Result<()> {
        self.push_tensor(scalar.dtype(), 0, true)
    }

    /// The result; `Undefined` if there was no operand.
    pub fn finish(self) -> Result<DType> {
        let scalars = combine(self.zero_dimensional, self.wrapped)?;
        Ok(combine(self.dimensional, scalars)?.unwrap_or(DType::Undefined))
    }
}

fn join(class: &mut Option<DType>, dtype: DType) -> Result<()> {
    *class = Some(match *class {
        Some(previous) => promote_types(previous, dtype)?,
        None => dtype,
    });
    Ok(())
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let (Some(high), Some(low)) = (higher, lower) else { return Ok(higher.or(lower)) };
    Ok(Some(if high.is_complex() {
        high
    } else if high.is_floating_point() {
        match low.is_complex() {
            true if high.to_complex() != DType::Undefined => high.to_complex(),
            true => promote_types(high, low)?,
            false => high,
        }
    } else if low.is_complex() {
        low
    } else if high == DType::Bool || low.is_floating_point() {
        promote_types(high, low)?
    } else {
        high
    }))
}
