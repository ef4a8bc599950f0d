//! Linear maps by opaque weights, whose elements are put in the order of the product by the first one.

use super::support::{contiguous, defined, empty};
use crate::gemm::{Base, Mat, MatMut, Packable, PackedWeight};
#[cfg(target_arch = "x86_64")]
use corten_core::bf16;
use corten_core::{Access, AccessSet, DType, Result, TensorBase, ensure};
use corten_ops::composite::support::type_id_name;
use corten_ops::opaque::{self, Prepared};
use corten_ops::{Tensor, blocks, op};
use std::any::Any;
use std::sync::Arc;

/// $x W^\top + b$ in the layout of the input.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if let Some(rows) = blocks::of(weight) {
        let plain = opaque::value(input)?;
        let out = super::blocks::linear(plain.as_ref().unwrap_or(input), weight, &rows)?;
        let Some(bias) = dense_bias(bias)? else { return Ok(out) };
        let bias = op::to_dtype(&bias, out.dtype(), false, false, None)?;
        return op::add_tensor(&out, &bias, 1.into());
    }
    check(input, weight)?;
    let plain = opaque::value(input)?;
    let out = multiply(plain.as_ref().unwrap_or(input), weight, dense_bias(bias)?.as_ref())?;
    if plain.is_some() && out.dim() > 0 { opaque::wrap(out) } else { Ok(out) }
}

fn check(input: &Tensor, weight: &Tensor) -> Result<()> {
    ensure!(
        input.dim() > 0 && weight.dim() > 0,
        Runtime,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        input.dim(),
        weight.dim()
    );
    ensure!(
        input.dtype() == weight.dtype(),
        Runtime,
        "mat1 and mat2 must have the same dtype, but got {} and {}",
        type_id_name(input.dtype()),
        type_id_name(weight.dtype())
    );
    Ok(())
}

fn dense_bias(bias: Option<&Tensor>) -> Result<Option<Tensor>> {
    let Some(bias) = defined(bias) else { return Ok(None) };
    Ok(Some(opaque::value(bias)?.unwrap_or_else(|| bias.clone())))
}

/// The product of a dense input.
fn multiply(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let bias =
        bias.map(|bias| op::to_dtype(bias, input.dtype(), false, false, None)).transpose()?;
    if let Some(rows) = rows_for(input, weight, bias.as_ref())?
        && let Some(prepared) = opaque::prepared(weight, prepare)?
        && let Some(packed) = (&*prepared as &dyn Any).downcast_ref::<PackedWeight>()
    {
        let mut sizes = input.sizes();
        let out = empty(&[rows.size(0)?, weight.size(0)?], input)?;
        match input.dtype() {
            DType::Float32 => product::<f32>(&out, &rows, packed, bias.as_ref())?,
            #[cfg(target_arch = "x86_64")]
            DType::BFloat16 => product::<bf16>(&out, &rows, packed, bias.as_ref())?,
            other => corten_core::bug!("a packed weight of {other:?}"),
        }
        *sizes.last_mut().unwrap_or(&mut 0) = weight.size(0)?;
        return op::view(&out, &sizes);
    }
    let weight = opaque::value(weight)?.unwrap_or_else(|| weight.clone());
    op::linear(input, &weight, bias.as_ref())
}

/// The input as a matrix, where the product is one of a prepared weight and nothing of it is empty.
fn rows_for(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Option<Tensor>> {
    let (features, sizes) = (weight.sizes(), input.sizes());
    let last = *sizes.last().unwrap_or(&0);
    let fits = features.len() == 2
        && features[1] == last
        && features[0] > 0
        && input.numel() > 0
        && bias.is_none_or(|bias| bias.sizes().as_slice() == [features[0]]);
    if !fits {
        return Ok(None);
    }
    op::reshape(input, &[-1, last]).map(Some)
}

/// A weight in the order of the tiles, for the dtypes that have one.
fn prepare(weight: &Tensor) -> Result<Option<Arc<dyn Prepared>>> {
    let access = AccessSet::acquire(&[(weight, Access::Read)])?;
    let packed = match weight.dtype() {
        DType::Float32 => Some(PackedWeight::of_single(Mat::of(&access, 0, weight)?)?),
        #[cfg(target_arch = "x86_64")]
        DType::BFloat16 => PackedWeight::of_half(Mat::of(&access, 0, weight)?)?,
        _ => None,
    };
    Ok(packed.map(|packed| Arc::new(packed) as Arc<dyn Prepared>))
}

fn product<T: Packable>(
    out: &Tensor,
    rows: &Tensor,
    weight: &PackedWeight,
    bias: Option<&Tensor>,
) -> Result<()> {
    let bias = bias.map(contiguous).transpose()?;
    let mut operands: Vec<(&TensorBase, Access)> = vec![(out, Access::Write), (rows, Access::Read)];
    operands.extend(bias.as_ref().map(|bias| (&**bias, Access::Read)));
    let access = AccessSet::acquire(&operands)?;
    let base = match bias {
        Some(_) => Base::PerColumn(access.read(2)?),
        None => Base::Nothing,
    };
    T::product_of_packed(MatMut::of(&access, 0, out)?, Mat::of(&access, 1, rows)?, weight, base)
}
