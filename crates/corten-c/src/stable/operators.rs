//! Operators with parameter lists of their own. The others follow from their schemas: see `shims.rs`.

use super::create::count;
use super::handle::{TensorHandle, give, tensor_at};
use super::lists::numbers;
use super::outcome::{Outcome, guard};
use crate::tensor::write_to;
use crate::value::{slice_of, text_of};
use corten::core::bail;
use corten::{Result, Scalar, Tensor, op};
use std::ffi::c_char;

/// # Safety
/// The handle must be null or alive.
unsafe fn optional<'a>(tensor: TensorHandle) -> Result<Option<&'a Tensor>> {
    if tensor.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    let tensor = unsafe { tensor_at(tensor) }?;
    Ok(tensor.defined().then_some(tensor))
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_clone(tensor: TensorHandle, made: *mut TensorHandle) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give(op::clone(tensor_at(tensor)?, None)?)) })
}

/// A copy with the same strides, gaps and shared elements included.
///
/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_clone_preserve_strides(
    tensor: TensorHandle,
    made: *mut TensorHandle,
) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let tensor = unsafe { tensor_at(tensor) }?;
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        let reach = sizes.iter().zip(strides.iter()).map(|(size, stride)| (size - 1) * stride);
        let needed = if tensor.numel() == 0 { 0 } else { reach.sum::<i64>() + 1 };
        let offset = Some(tensor.storage_offset());
        let all = op::as_strided(tensor, &[needed], &[1], offset)?;
        let copy = op::as_strided(&op::clone(&all, None)?, &sizes, &strides, Some(0))?;
        // SAFETY: the caller's.
        unsafe { write_to(made, give(copy)) }
    })
}

/// # Safety
/// Both handles must be alive.
unsafe extern "C" fn aoti_torch_tensor_copy_(from: TensorHandle, to: TensorHandle) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        op::copy_(tensor_at(to)?, tensor_at(from)?, false)?;
        Ok(())
    })
}

/// # Safety
/// The handles must be alive.
unsafe extern "C" fn aoti_torch_addmm_out(
    out: TensorHandle,
    tensor: TensorHandle,
    a: TensorHandle,
    b: TensorHandle,
    beta: f32,
    alpha: f32,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let (beta, alpha) = (Scalar::Float(beta.into()), Scalar::Float(alpha.into()));
        let (a, b) = (tensor_at(a)?, tensor_at(b)?);
        op::addmm_out(tensor_at(tensor)?, a, b, beta, alpha, tensor_at(out)?)?;
        Ok(())
    })
}

/// `a @ b + c @ d`.
///
/// # Safety
/// The handles must be alive.
unsafe extern "C" fn aoti_torch__mm_plus_mm_out(
    out: TensorHandle,
    a: TensorHandle,
    b: TensorHandle,
    c: TensorHandle,
    d: TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let one = || Scalar::Int(1);
        let (out, first) = (tensor_at(out)?, op::mm(tensor_at(a)?, tensor_at(b)?)?);
        op::addmm_out(&first, tensor_at(c)?, tensor_at(d)?, one(), one(), out)?;
        Ok(())
    })
}

/// # Safety
/// The handles must be alive, the bias null or alive; the lists valid for their lengths, the place for a write.
unsafe extern "C" fn aoti_torch_convolution(
    input: TensorHandle,
    weight: TensorHandle,
    bias: TensorHandle,
    stride: *const i64,
    n_stride: i64,
    padding: *const i64,
    n_padding: i64,
    dilation: *const i64,
    n_dilation: i64,
    transposed: i32,
    output_padding: *const i64,
    n_output_padding: i64,
    groups: i64,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let result = op::convolution(
            tensor_at(input)?,
            tensor_at(weight)?,
            optional(bias)?,
            numbers(stride, n_stride)?,
            numbers(padding, n_padding)?,
            numbers(dilation, n_dilation)?,
            transposed != 0,
            numbers(output_padding, n_output_padding)?,
            groups,
        )?;
        write_to(made, give(result))
    })
}

/// # Safety
/// The handles must be alive, those among the indices null or alive; the list valid for its length.
unsafe extern "C" fn aoti_torch_index_put_out(
    out: TensorHandle,
    tensor: TensorHandle,
    indices: *const TensorHandle,
    n_indices: u32,
    values: TensorHandle,
    accumulate: bool,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let indices = slice_of(indices, count(n_indices.into())?)?.iter();
        let indices = indices.map(|index| Ok(optional(*index)?.cloned()));
        let indices = indices.collect::<Result<Vec<_>>>()?;
        let (out, tensor) = (tensor_at(out)?, tensor_at(tensor)?);
        if out.is_same(tensor) {
            op::index_put_(out, &indices, tensor_at(values)?, accumulate)?;
            return Ok(());
        }
        if out.sizes() != tensor.sizes() {
            bail!(Runtime, "index_put: the result has another shape than the input");
        }
        op::copy_(out, &op::index_put(tensor, &indices, tensor_at(values)?, accumulate)?, false)?;
        Ok(())
    })
}

/// # Safety
/// The handles must be alive.
unsafe extern "C" fn aoti_torch_scatter_out(
    out: TensorHandle,
    tensor: TensorHandle,
    dim: i64,
    index: TensorHandle,
    from: TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let (index, from) = (tensor_at(index)?, tensor_at(from)?);
        op::scatter_src_out(tensor_at(tensor)?, dim, index, from, tensor_at(out)?)?;
        Ok(())
    })
}

/// # Safety
/// The handles must be alive, the text end with a zero byte.
unsafe extern "C" fn aoti_torch_scatter_reduce_out(
    out: TensorHandle,
    tensor: TensorHandle,
    dim: i64,
    index: TensorHandle,
    from: TensorHandle,
    reduce: *const c_char,
    include_self: i32,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let (index, from) = (tensor_at(index)?, tensor_at(from)?);
        let (reduce, include) = (text_of("a reduction", reduce)?, include_self != 0);
        let (tensor, out) = (tensor_at(tensor)?, tensor_at(out)?);
        op::scatter_reduce_two_out(tensor, dim, index, from, reduce, include, out)?;
        Ok(())
    })
}

super::functions! {
    aoti_torch_scatter_out
    aoti_torch_scatter_reduce_out
    aoti_torch_clone
    aoti_torch_clone_preserve_strides
    aoti_torch_tensor_copy_
    aoti_torch_addmm_out
    aoti_torch__mm_plus_mm_out
    aoti_torch_convolution
    aoti_torch_index_put_out
}
