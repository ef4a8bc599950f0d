//! Products of matrices of eight-bit floats with scales.

use super::{product_of_tiles, single};
use crate::kernels::support::{defined, empty_as, is_shape_only};
use corten_core::{DType, Result, Scalar, bail, ensure};
use corten_ops::{Tensor, op};

/// The arguments of a product, checked but for the scales.
struct Product<'a> {
    a: &'a Tensor,
    b: &'a Tensor,
    bias: Option<&'a Tensor>,
    result: DType,
}

impl Product<'_> {
    /// The product in the result's dtype, rounded once.
    fn compute(
        &self,
        a_scale: &Tensor,
        b_scale: &Tensor,
        factor: Option<&Tensor>,
    ) -> Result<Tensor> {
        let sizes = [self.a.size(0)?, self.b.size(1)?];
        if is_shape_only(self.a) {
            return empty_as(&sizes, self.a, self.result);
        }
        let (x, columns) = (single(self.a)?, op::t(self.b)?);
        let made = product_of_tiles(&x, sizes[1], |start, rows| {
            single(&op::narrow(&columns, 0, start, rows)?)
        })?;
        op::mul__tensor(&made, a_scale)?;
        op::mul__tensor(&made, b_scale)?;
        if let Some(bias) = self.bias {
            op::add__tensor(&made, &single(bias)?, Scalar::Int(1))?;
        }
        if let Some(factor) = factor {
            op::div__tensor(&made, factor)?;
        }
        op::to_dtype(&made, self.result, false, false, None)
    }
}

fn check_shapes(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.size(1)? == b.size(0)?,
        Runtime,
        "mat_a and mat_b shapes cannot be multiplied ({}x{} and {}x{})",
        a.size(0)?,
        a.size(1)?,
        b.size(0)?,
        b.size(1)?
    );
    Ok(())
}

fn check_bias(bias: Option<&Tensor>, b: &Tensor) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    ensure!(
        bias.numel() == b.size(1)?,
        Runtime,
        "Bias must be size {} but got {}",
        b.size(1)?,
        bias.numel()
    );
    Ok(())
}

/// The product of matrices with scales.
///
/// # Errors
/// `Runtime` for shapes that do not fit, `Value` for dtypes and scales that do not.
pub fn scaled_mm(
    self_: &Tensor,
    mat2: &Tensor,
    scale_a: &Tensor,
    scale_b: &Tensor,
    bias: Option<&Tensor>,
    scale_result: Option<&Tensor>,
    out_dtype: Option<DType>,
    _use_fast_accum: bool,
) -> Result<Tensor> {
    ensure!(self_.dim() == 2, Runtime, "mat1 must be a matrix");
    ensure!(mat2.dim() == 2, Runtime, "mat2 must be a matrix");
    check_shapes(self_, mat2)?;
    let (m, n) = (self_.size(0)?, mat2.size(1)?);
    let fits = |scale: &Tensor, sizes: [i64; 2]| {
        let is_row = scale.sizes().as_slice() == sizes && scale.is_contiguous();
        (scale.numel() == 1 || is_row, scale.dtype() == DType::Float32)
    };
    let by_tensor = scale_a.numel() == 1 && scale_b.numel() == 1;
    let by_row = scale_a.sizes().as_slice() == [m, 1] && scale_b.sizes().as_slice() == [1, n];
    let scales = [fits(scale_a, [m, 1]), fits(scale_b, [1, n])];
    ensure!(
        self_.dtype().is_float8()
            && mat2.dtype().is_float8()
            && (by_tensor || by_row)
            && scales == [(true, true); 2],
        Value,
        "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should be \
         float and singletons.\n- For RowWise scaling, a and b should be float8, scales should be float, scale_a \
         should be ({m}, 1) and scale_b should be (1, {n}), and both should be contiguous.\nGot a.dtype()={}, \
         scale_a.dtype()={}, scale_a.size()={:?}, b.dtype()={}, scale_b.dtype()={}, scale_b.size()={:?}",
        self_.dtype().type_name(),
        scale_a.dtype().type_name(),
        scale_a.sizes().as_slice(),
        mat2.dtype().type_name(),
        scale_b.dtype().type_name(),
        scale_b.sizes().as_slice()
    );
    let bias = defined(bias);
    check_bias(bias, mat2)?;
    let result = out_dtype.unwrap_or(self_.dtype());
    // PyTorch's CPU kernel scales eight-bit results that are asked for by name.
    let factor = defined(scale_result).filter(|_| out_dtype.is_some_and(DType::is_float8));
    Product { a: self_, b: mat2, bias, result }.compute(scale_a, scale_b, factor)
}

/// [`scaled_mm`] into a given tensor.
///
/// # Errors
/// As there, and `Value` for a tensor of another dtype than the one asked for.
pub fn scaled_mm_out(
    self_: &Tensor,
    mat2: &Tensor,
    scale_a: &Tensor,
    scale_b: &Tensor,
    bias: Option<&Tensor>,
    scale_result: Option<&Tensor>,
    out_dtype: Option<DType>,
    use_fast_accum: bool,
    out: &Tensor,
) -> Result<Tensor> {
    check_out(out_dtype, out)?;
    let made = scaled_mm(
        self_,
        mat2,
        scale_a,
        scale_b,
        bias,
        scale_result,
        Some(out.dtype()),
        use_fast_accum,
    )?;
    write(&made, out)
}

fn check_out(out_dtype: Option<DType>, out: &Tensor) -> Result<()> {
    ensure!(
        out_dtype.is_none_or(|dtype| dtype == out.dtype()),
        Value,
        "out_dtype must match output matrix type"
    );
    Ok(())
}

fn write(made: &Tensor, out: &Tensor) -> Result<Tensor> {
    op::resize_(out, &made.sizes(), None)?;
    op::copy_(out, made, false)
}

/// [`scaled_mm`] with what scales are for: recipe 0, the tensor, or 1, rows.
///
/// # Errors
/// `Value` for arguments that do not fit.
pub fn scaled_mm_v2(
    self_: &Tensor,
    mat2: &Tensor,
    scale_a: &[Tensor],
    recipe_a: &[i64],
    swizzle_a: &[i64],
    scale_b: &[Tensor],
    recipe_b: &[i64],
    swizzle_b: &[i64],
    bias: Option<&Tensor>,
    out_dtype: Option<DType>,
    contraction_dim: &[i64],
    _use_fast_accum: bool,
) -> Result<Tensor> {
    for (name, matrix) in [("mat_a", self_), ("mat_b", mat2)] {
        ensure!(matrix.dim() == 2, Value, "{name} must be a matrix");
    }
    ensure!(
        matches!(contraction_dim, [] | [1 | -1, 0 | -2]),
        Value,
        "torch._scaled_mm_v2 only supports contraction_dim=(1, 0)"
    );
    let (m, k, n) = (self_.size(0)?, self_.size(1)?, mat2.size(1)?);
    ensure!(
        k == mat2.size(0)?,
        Value,
        "mat_a and mat_b shapes cannot be multiplied ({m}x{k} and {}x{n})",
        mat2.size(0)?
    );
    let names = [self_, mat2].map(|matrix| matrix.dtype().type_name());
    ensure!(
        self_.dtype().is_float8() && mat2.dtype().is_float8(),
        Value,
        "Expected both inputs to be fp8 or fp4 types but got mat_a.dtype={} and mat_b.dtype={}",
        names[0],
        names[1]
    );
    ensure!(
        swizzle_a.iter().chain(swizzle_b).all(|&swizzle| swizzle == 0),
        Value,
        "CPU does not support swizzle."
    );
    let (a, b) = match (scale_a, scale_b, recipe_a, recipe_b) {
        ([a], [b], [0], [0]) => (scale_of("a", a, 1, &[])?, scale_of("b", b, 1, &[])?),
        ([a], [b], [1], [1]) => (scale_of("a", a, m, &[m, 1])?, scale_of("b", b, n, &[1, n])?),
        _ => bail!(
            Value,
            "Invalid scaling configuration for _scaled_mm_v2: unsupported recipe(s). Got mat_a.dtype={}, \
             mat_b.dtype={}, recipe_a.size()={}, recipe_b.size()={}",
            names[0],
            names[1],
            recipe_a.len(),
            recipe_b.len()
        ),
    };
    let bias = defined(bias);
    check_bias(bias, mat2)?;
    let result = out_dtype.unwrap_or(self_.dtype());
    Product { a: self_, b: mat2, bias, result }.compute(&a, &b, None)
}

fn scale_of(name: &str, scale: &Tensor, count: i64, sizes: &[i64]) -> Result<Tensor> {
    let fits = scale.numel() == count && scale.dtype() == DType::Float32;
    ensure!(fits || !sizes.is_empty(), Value, "scale_{name} must have 1 Float element");
    ensure!(fits, Value, "scale_{name} must have {count} Float elements, got {}", scale.numel());
    op::reshape(scale, sizes)
}

/// [`scaled_mm_v2`] into a given tensor.
///
/// # Errors
/// As there, and `Value` for a tensor of another dtype than the one asked for.
pub fn scaled_mm_v2_out(
    self_: &Tensor,
    mat2: &Tensor,
    scale_a: &[Tensor],
    recipe_a: &[i64],
    swizzle_a: &[i64],
    scale_b: &[Tensor],
    recipe_b: &[i64],
    swizzle_b: &[i64],
    bias: Option<&Tensor>,
    out_dtype: Option<DType>,
    contraction_dim: &[i64],
    use_fast_accum: bool,
    out: &Tensor,
) -> Result<Tensor> {
    check_out(out_dtype, out)?;
    let made = scaled_mm_v2(
        self_,
        mat2,
        scale_a,
        recipe_a,
        swizzle_a,
        scale_b,
        recipe_b,
        swizzle_b,
        bias,
        Some(out.dtype()),
        contraction_dim,
        use_fast_accum,
    )?;
    write(&made, out)
}
