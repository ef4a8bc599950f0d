//! Variants that follow from the functional one: `out=` and in-place by computing and writing
//! back, and numbers as tensors.

use crate::composite::support::requires_grad;
use crate::meta::{check_out_dtype, cpp_name};
use crate::{Tensor, iter, op};
use corten_core::{
    DType, MemoryFormat, Result, Scalar, TensorBase, bail, can_cast, ensure, grad_mode_enabled,
};

/// A rank-0 tensor made from a number: lowest in type promotion.
///
/// # Errors
/// `OutOfMemory`.
pub fn wrapped(number: Scalar) -> Result<Tensor> {
    let tensor = Tensor::from(match number {
        Scalar::Bool(value) => TensorBase::of_value(value),
        Scalar::Int(value) => TensorBase::of_value(value),
        Scalar::UInt(value) => TensorBase::of_value(value),
        Scalar::Float(value) => TensorBase::of_value(value),
        Scalar::Complex(value) => TensorBase::of_value(value),
    }?);
    tensor.set_wrapped_number(true);
    Ok(tensor)
}

/// As [`wrapped`], of a number that a tensor is compared with: truth values are compared with 0 and 1 as
/// they are, and not as integers of eight times the size.
///
/// # Errors
/// `OutOfMemory`.
pub fn compared(tensor: &Tensor, number: Scalar) -> Result<Tensor> {
    wrapped(match number {
        Scalar::Int(value @ (0 | 1)) if tensor.dtype() == DType::Bool => Scalar::Bool(value == 1),
        _ => number,
    })
}

/// A contiguous copy of a view.
///
/// # Errors
/// Those of `clone`.
pub fn copy(view: &Tensor) -> Result<Tensor> {
    op::clone(view, Some(MemoryFormat::Contiguous))
}

/// Contiguous copies of views.
///
/// # Errors
/// Those of `clone`.
pub fn copies(views: &[Tensor]) -> Result<Vec<Tensor>> {
    views.iter().map(copy).collect()
}

/// Writes a computed result into `out`, resizing it where its shape differs, and returns `out`.
///
/// # Errors
/// `Runtime` when the result's dtype cannot be cast to that of `out`, or the devices differ.
pub fn write_out(out: &Tensor, result: &Tensor) -> Result<Tensor> {
    if !can_cast(result.dtype(), out.dtype()) {
        bail!(
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            result.dtype().type_name(),
            out.dtype().type_name()
        );
    }
    if out.device() != result.device() {
        bail!(
            Runtime,
            "Expected out tensor to have device {}, but got {} instead",
            result.device(),
            out.device()
        );
    }
    iter::resize_output(out, &result.sizes())?;
    op::copy_(out, result, false)?;
    Ok(out.clone())
}

/// How the derived `out=` form of an operator writes one of its results.
///
/// ```
/// use corten::ops::derived::OutRule;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let out = tensor![0.0, 0.0]?;
/// OutRule::of("twice").write(&out, &tensor![2.0, 4.0]?)?;
/// assert_eq!(out.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct OutRule {
    /// The operator's name.
    pub operator: &'static str,
    /// The result's name.
    pub result: &'static str,
    /// Whether the output must have the result's dtype.
    pub exact: bool,
    /// Whether the output gets the result's history.
    pub history: bool,
    /// The operator's own words for an output whose dtype does not fit.
    pub words: Option<&'static str>,
}

impl OutRule {
    /// The rule where nothing is said of it.
    #[must_use]
    pub const fn of(operator: &'static str) -> Self {
        Self { operator, result: "result", exact: false, history: false, words: None }
    }

    /// Writes a computed result into `out`, resizing it where its shape differs, and returns `out`.
    ///
    /// # Errors
    /// `Runtime` for a result that is recorded, and when dtypes or devices do not fit.
    pub fn write(&self, out: &Tensor, result: &Tensor) -> Result<Tensor> {
        // Results are recorded only where the operator is made of others; kernels run below autograd.
        if !self.history && grad_mode_enabled() {
            ensure!(
                !requires_grad(result) && !requires_grad(out),
                Runtime,
                "{}(): functions with out=... arguments don't support automatic differentiation, \
                 but one of the arguments requires grad.",
                self.operator
            );
        }
        let (expected, got) = (result.dtype(), out.dtype());
        let fits = if self.exact { expected == got } else { can_cast(expected, got) };
        if let Some(words) = self.words.filter(|_| !fits) {
            let words = words.replace("{result}", self.result);
            let words = words.replace("{expected}", expected.type_name());
            let words = words.replace("{expected in C++}", cpp_name(expected));
            let words = words.replace("{got in C++}", cpp_name(got));
            bail!(Runtime, "{}", words.replace("{got}", got.type_name()));
        }
        if self.exact { write_exact_out(out, result) } else { write_out(out, result) }
    }
}

/// As [`write_out`], for operators whose output must have the result's dtype.
///
/// # Errors
/// `Runtime` when dtypes or devices differ.
pub fn write_exact_out(out: &Tensor, result: &Tensor) -> Result<Tensor> {
    check_out_dtype(Some(out), result.dtype())?;
    let sizes = result.sizes();
    if iter::resize_output(out, &sizes)? && lies_by_columns(result)? {
        iter::resize_to(out, &sizes, Some(&result.strides()))?;
    }
    write_out(out, result)
}

/// Whether matrices lie by columns, which an output that is resized keeps.
fn lies_by_columns(result: &Tensor) -> Result<bool> {
    if result.dim() < 2 || result.is_contiguous() {
        return Ok(false);
    }
    Ok(op::transpose_int(result, -2, -1)?.is_contiguous())
}

/// Writes a computed result into the tensor an in-place operator was called on.
///
/// # Errors
/// `Runtime` when shape or dtype do not fit.
pub fn write_inplace(self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    if !can_cast(result.dtype(), self_.dtype()) {
        bail!(
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            result.dtype().type_name(),
            self_.dtype().type_name()
        );
    }
    if self_.sizes() != result.sizes() {
        bail!(
            Runtime,
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            self_.sizes().as_slice(),
            result.sizes().as_slice()
        );
    }
    op::copy_(self_, result, false)?;
    Ok(self_.clone())
}
