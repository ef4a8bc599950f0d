//! Tensors made from others by simple rules.

use crate::{Tensor, batched, op};
use corten_core::{DType, MemoryFormat, Result, Scalar, bail, ensure};

/// The tensor's classes as rows of zeros with a single one.
///
/// # Errors
/// `Runtime` for other dtypes than i64 and for classes out of range.
pub fn one_hot(self_: &Tensor, num_classes: i64) -> Result<Tensor> {
    ensure!(
        self_.dtype() == DType::Int64,
        Runtime,
        "one_hot is only applicable to index tensor of type LongTensor."
    );
    if self_.numel() == 0 {
        ensure!(
            num_classes > 0,
            Runtime,
            "Can not infer total number of classes from empty tensor."
        );
        let mut shape = self_.sizes();
        shape.push(num_classes);
        return op::zeros(&shape, Some(DType::Int64), None, Some(self_.device()), None);
    }
    if !self_.lacks_data() {
        let least = op::item(&op::min(&batched::all_items(self_))?)?.to_i64();
        ensure!(least >= 0, Runtime, "Class values must be non-negative.");
    }
    let classes = match num_classes {
        -1 => op::item(&op::max(self_)?)?.to_i64().saturating_add(1),
        given => {
            let most = || Ok(op::item(&op::max(&batched::all_items(self_))?)?.to_i64());
            let fits = self_.lacks_data() || most()? < given;
            ensure!(fits, Runtime, "Class values must be smaller than num_classes.");
            given
        }
    };
    if batched::is_batched(self_) {
        let device = Some(self_.device());
        let all = op::arange(Scalar::Int(classes), Some(DType::Int64), None, device, None)?;
        let ones = op::eq_tensor(&op::unsqueeze(self_, -1)?, &all)?;
        return op::to_dtype(&ones, DType::Int64, false, false, None);
    }
    let mut shape = self_.sizes();
    shape.push(classes);
    let rows = op::zeros(&shape, Some(DType::Int64), None, Some(self_.device()), None)?;
    op::scatter__value(&rows, -1, &op::unsqueeze(self_, -1)?, Scalar::Int(1))
}

/// A matrix with a vector on its diagonal, or the diagonal of a matrix.
///
/// # Errors
/// `Runtime` for other ranks.
pub fn diag(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    match self_.dim() {
        1 => op::diag_embed(self_, diagonal, 0, 1),
        2 => op::diagonal_copy(self_, diagonal, 0, 1),
        rank => bail!(Runtime, "diag(): Supports 1D or 2D tensors. Got {rank}D"),
    }
}

/// A matrix with all elements on its diagonal.
///
/// # Errors
/// `OutOfMemory`.
pub fn diagflat(self_: &Tensor, offset: i64) -> Result<Tensor> {
    let flat = op::contiguous(self_, MemoryFormat::Contiguous)?;
    op::diag(&op::view(&flat, &[-1])?, offset)
}

/// Complex numbers from absolute values and angles.
///
/// # Errors
/// Those of `complex`.
pub fn polar(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    crate::any::factory::check_parts(abs, angle)?;
    op::complex(&op::mul_tensor(abs, &op::cos(angle)?)?, &op::mul_tensor(abs, &op::sin(angle)?)?)
}

/// [`polar`] into an output of its dtype.
///
/// # Errors
/// As there; `Runtime` for an output of another dtype.
pub fn polar_out(abs: &Tensor, angle: &Tensor, out: &Tensor) -> Result<Tensor> {
    crate::any::factory::write_complex_out(out, &polar(abs, angle)?)
}
