//! Sums and products of quantised tensors, and of such a tensor and a number.

use super::{integers, of_tensor, over};
use crate::{Tensor, op};
use corten_core::{BelowADInplaceOrViewGuard, DType, Quantizer, Result, Scalar, bail, ensure};

/// The tensor that stands for numbers, on a scale.
pub(super) fn quantise(numbers: &Tensor, scale: f64, zero: i64, dtype: DType) -> Result<Tensor> {
    op::quantize_per_tensor(numbers, scale, zero, dtype)
}

/// `f` of the numbers of a tensor, on another scale.
pub(super) fn on_numbers(
    x: &Tensor,
    scale: f64,
    zero: i64,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    quantise(&f(&op::dequantize_self(x)?)?, scale, zero, x.dtype())
}

/// [`on_numbers`] on the scale of the tensor itself.
pub(super) fn on_own_scale(
    x: &Tensor,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (scale, zero) = of_tensor(x)?;
    on_numbers(x, scale, zero, f)
}

/// Integers nearest to numbers that count steps, on a scale.
pub(super) fn from_steps(
    steps: &Tensor,
    dtype: DType,
    (scale, zero): (f64, i64),
) -> Result<Tensor> {
    let (least, most) = range_of(dtype)?;
    let near = op::add_scalar(&op::round(steps)?, Scalar::from(zero), 1.into())?;
    let near = op::clamp(&near, Some(Scalar::from(least)), Some(Scalar::from(most)))?;
    // The largest float below 2^31 is no integer of 32 bits.
    let wide = op::to_dtype(&near, DType::Int64, false, false, None)?;
    let wide = match dtype {
        DType::QInt32 => op::clamp(&wide, Some(Scalar::from(least)), Some(Scalar::from(most)))?,
        _ => wide,
    };
    let integers = op::to_dtype(&wide, dtype.underlying(), false, false, None)?;
    over(&integers, dtype, Some(Quantizer::per_tensor(scale, zero)))
}

pub(super) fn range_of(dtype: DType) -> Result<(i64, i64)> {
    dtype
        .quantized_range()
        .map_or_else(|| bail!(Runtime, "{} is not a quantized dtype", dtype.name()), Ok)
}

/// Writes a result of the same dtype to `out`, which keeps its scale.
pub(super) fn write(out: &Tensor, result: &Tensor) -> Result<Tensor> {
    ensure!(
        out.dtype() == result.dtype() && out.sizes() == result.sizes(),
        Runtime,
        "the output must have dtype {} and shape {:?}, but it has dtype {} and shape {:?}",
        result.dtype().name(),
        result.sizes().as_slice(),
        out.dtype().name(),
        out.sizes().as_slice()
    );
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&integers(out)?, &integers(result)?, false)?;
    Ok(out.clone())
}

/// Writes a result with its scale to `out`.
fn write_with_scale(out: &Tensor, result: &Tensor) -> Result<Tensor> {
    write(out, result)?;
    if let Some(quantizer) = result.quantizer() {
        out.set_quantizer(quantizer)?;
    }
    Ok(out.clone())
}

fn check(a: &Tensor, b: &Tensor, name: &str, shcheme: &str) -> Result<()> {
    ensure!(
        a.is_quantized() && b.is_quantized(),
        NotImplemented,
        "Could not run 'quantized::{}' with arguments from the 'CPU' backend: both operands must be quantized",
        name.to_lowercase()
    );
    let (first, second) = (a.known_quantizer()?, b.known_quantizer()?);
    ensure!(
        first.of_tensor().is_some(),
        Runtime,
        "Only per tensor quantization is supported in {name}."
    );
    ensure!(
        second.scheme() == first.scheme(),
        Runtime,
        "Both inputs to {name} must have the same quantization {shcheme}."
    );
    ensure!(a.dtype() == b.dtype(), Runtime, "{name} operands should have same data type.");
    Ok(())
}

fn positive(x: Tensor, relu: bool) -> Result<Tensor> {
    if relu { op::relu(&x) } else { Ok(x) }
}

fn sum(a: &Tensor, b: &Tensor, scale: f64, zero: i64, relu: bool) -> Result<Tensor> {
    check(a, b, "Add", "shceme")?;
    let same_order = a.dtype() == DType::QUInt8
        && a.sizes() == b.sizes()
        && a.strides() == b.strides()
        && a.is_contiguous_for(a.suggest_memory_format());
    if same_order {
        let (first, second) = (of_tensor(a)?, of_tensor(b)?);
        let (a, b) = (integers(a)?, integers(b)?);
        let bytes = op::byte_sum(&a, &b, first.0, first.1, second.0, second.1, scale, zero, relu)?;
        return with_scale(&bytes, DType::QUInt8, scale, zero);
    }
    let numbers = op::add_tensor(&op::dequantize_self(a)?, &op::dequantize_self(b)?, 1.into())?;
    quantise(&positive(numbers, relu)?, scale, zero, a.dtype())
}

/// The products of the integers, wrapped around in 32 bits, scaled once.
fn product(a: &Tensor, b: &Tensor, scale: f64, zero: i64, relu: bool) -> Result<Tensor> {
    check(a, b, "Mul", "scheme")?;
    let ((first, _), (second, _)) = (of_tensor(a)?, of_tensor(b)?);
    let factor = first as f32 * second as f32 * (1.0 / scale as f32);
    let whole = |x: &Tensor| op::contiguous(&centred(x)?, x.suggest_memory_format());
    let products = op::mul_tensor(&whole(a)?, &whole(b)?)?;
    let steps = op::to_dtype(&products, DType::Float32, false, false, None)?;
    let steps = positive(op::mul_scalar(&steps, Scalar::from(f64::from(factor)))?, relu)?;
    from_steps(&steps, a.dtype(), (scale, zero))
}

/// The integers less the zero point, in 32 bits.
pub(super) fn centred(x: &Tensor) -> Result<Tensor> {
    let wide = op::to_dtype(&integers(x)?, DType::Int32, false, false, None)?;
    op::sub_scalar(&wide, Scalar::from(of_tensor(x)?.1), 1.into())
}

/// The integers on another scale and zero point.
fn with_scale(integers: &Tensor, dtype: DType, scale: f64, zero: i64) -> Result<Tensor> {
    over(integers, dtype, Some(Quantizer::per_tensor(scale, zero)))
}

/// A tensor plus a number: the zero point moves, and the scale grows where it would leave the integers.
fn sum_with_number(x: &Tensor, number: Scalar, relu: bool) -> Result<Tensor> {
    let (scale, zero) = uniform(x, "Add")?;
    let (least, most) = range_of(x.dtype())?;
    let steps = (number.to_f64() / scale).round_ties_even() as i64;
    let moved = zero.saturating_sub(steps);
    let span = most as f32 - least as f32;
    let (wider, edge) = if least > moved {
        (f64::from((most as f32 - moved as f32) / span) * scale, least)
    } else if most < moved {
        (f64::from((moved as f32 - least as f32) / span) * scale, most)
    } else {
        let same = op::clone(&integers(x)?, None)?;
        return clamped(with_scale(&same, x.dtype(), scale, moved)?, relu);
    };
    let factor = scale as f32 * (1.0 / wider as f32);
    let sums = op::add_scalar(&centred(x)?, Scalar::from(steps), 1.into())?;
    let sums = op::to_dtype(&sums, DType::Float32, false, false, None)?;
    let scaled = op::mul_scalar(&sums, Scalar::from(f64::from(factor)))?;
    clamped(from_steps(&scaled, x.dtype(), (wider, edge))?, relu)
}

/// A tensor times a number: only the scale changes, and for negative ones the order of the integers.
fn product_with_number(x: &Tensor, number: Scalar, relu: bool) -> Result<Tensor> {
    let (scale, zero) = uniform(x, "Mul")?;
    let (least, most) = range_of(x.dtype())?;
    let factor = number.to_f64();
    let ints = integers(x)?;
    if factor == 0.0 {
        return with_scale(
            &op::zeros_like(&ints, None, None, None, None, None)?,
            x.dtype(),
            1.0,
            0,
        );
    }
    if factor > 0.0 {
        let same = op::clone(&ints, None)?;
        return clamped(with_scale(&same, x.dtype(), factor * scale, zero)?, relu);
    }
    let wide = op::to_dtype(&ints, DType::Int64, false, false, None)?;
    let turned = op::rsub_scalar(&wide, Scalar::from(least + most), 1.into())?;
    let turned = op::to_dtype(&turned, ints.dtype(), false, false, None)?;
    let zero = most - (zero - least);
    clamped(with_scale(&turned, x.dtype(), -factor * scale, zero)?, relu)
}

fn uniform(x: &Tensor, name: &str) -> Result<(f64, i64)> {
    let quantizer = x.known_quantizer()?;
    let Some(found) = quantizer.of_tensor() else {
        bail!(Runtime, "Only per tensor affine is supported for now!! ({name})");
    };
    Ok(found)
}

fn clamped(x: Tensor, relu: bool) -> Result<Tensor> {
    if relu { super::activation::relu(&x) } else { Ok(x) }
}

/// Functions of the operators: with a scale, into an output, with a number, and that into an output.
macro_rules! arithmetic {
    ($($name:ident, $out:ident, $number:ident, $number_out:ident, $tensor:ident, $tensor_out:ident:
        $binary:ident, $scalar:ident, $relu:literal, $what:literal;)+) => {$(
        #[doc = concat!($what, " of two tensors, on a scale.")]
        ///
        /// # Errors
        /// `Runtime` where dtypes or schemes differ, or there are several scales.
        pub fn $name(qa: &Tensor, qb: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
            $binary(qa, qb, scale, zero_point, $relu)
        }

        #[doc = concat!($what, " of two tensors, on the scale of `out`.")]
        ///
        /// # Errors
        /// `Runtime` where dtypes, schemes or shapes differ, or there are several scales.
        pub fn $out(qa: &Tensor, qb: &Tensor, out: &Tensor) -> Result<Tensor> {
            let (scale, zero) = of_tensor(out)?;
            write(out, &$binary(qa, qb, scale, zero, $relu)?)
        }

        #[doc = concat!($what, " of a tensor and a number, on a scale that holds it.")]
        ///
        /// # Errors
        /// `Runtime` where there are several scales.
        pub fn $number(qa: &Tensor, b: Scalar) -> Result<Tensor> {
            $scalar(qa, b, $relu)
        }

        #[doc = concat!($what, " of a tensor and a number, whose scale `out` gets.")]
        ///
        /// # Errors
        /// `Runtime` where there are several scales, or the output does not fit.
        pub fn $number_out(qa: &Tensor, b: Scalar, out: &Tensor) -> Result<Tensor> {
            write_with_scale(out, &$scalar(qa, b, $relu)?)
        }

        #[doc = concat!($what, " of a tensor and the number in another one.")]
        ///
        /// # Errors
        /// `Runtime` where there are several scales or numbers.
        pub fn $tensor(qa: &Tensor, b: &Tensor) -> Result<Tensor> {
            $scalar(qa, op::item(b)?, $relu)
        }

        #[doc = concat!($what, " of a tensor and the number in another one, whose scale `out` gets.")]
        ///
        /// # Errors
        /// `Runtime` where there are several scales or numbers, or the output does not fit.
        pub fn $tensor_out(qa: &Tensor, b: &Tensor, out: &Tensor) -> Result<Tensor> {
            write_with_scale(out, &$scalar(qa, op::item(b)?, $relu)?)
        }
    )+};
}

arithmetic! {
    add, add_out, add_number, add_number_out, add_number_tensor, add_number_tensor_out:
        sum, sum_with_number, false, "The sum";
    add_relu, add_relu_out, add_relu_number, add_relu_number_out, add_relu_number_tensor,
        add_relu_number_tensor_out: sum, sum_with_number, true, "The sum, or 0 where that is more,";
    mul, mul_out, mul_number, mul_number_out, mul_number_tensor, mul_number_tensor_out:
        product, product_with_number, false, "The product";
    mul_relu, mul_relu_out, mul_relu_number, mul_relu_number_out, mul_relu_number_tensor,
        mul_relu_number_tensor_out: product, product_with_number, true,
        "The product, or 0 where that is more,";
}

/// Functions with the number in front.
macro_rules! number_first {
    ($($name:ident by $of:ident;)+) => {$(
        /// The same with the number in front.
        ///
        /// # Errors
        /// `Runtime` where there are several scales.
        pub fn $name(b: Scalar, qa: &Tensor) -> Result<Tensor> {
            $of(qa, b)
        }
    )+};
}

number_first! {
    number_add by add_number;
    number_add_relu by add_relu_number;
    number_mul by mul_number;
    number_mul_relu by mul_relu_number;
}

/// Matrix products of two tensors of one scale each.
///
/// # Errors
/// `Runtime` where dtypes, schemes or shapes do not fit.
pub fn matmul(qa: &Tensor, qb: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    let bytes = |x: &Tensor| matches!(x.dtype(), DType::QInt8 | DType::QUInt8);
    ensure!(
        bytes(qa) && bytes(qb),
        Runtime,
        "MatMul operands should use QInt8 or QUInt8 data types."
    );
    check(qa, qb, "MatMul", "scheme")?;
    ensure!(
        qa.dim() == qb.dim() && qa.dim() >= 2,
        Runtime,
        "MatMul operands should have the same dimensionality. ({} and {} provided)",
        qa.dim(),
        qb.dim()
    );
    let numbers = op::matmul(&op::dequantize_self(qa)?, &op::dequantize_self(qb)?)?;
    quantise(&numbers, scale, zero_point, qa.dtype())
}

fn joined(qx: &[Tensor], dim: i64, relu: bool, scale: Option<(f64, i64)>) -> Result<Tensor> {
    ensure!(!qx.is_empty(), Runtime, "expected a non-empty list of Tensors");
    let dtype = qx[0].dtype();
    for x in qx {
        ensure!(
            x.is_quantized() && x.dtype() == dtype,
            Runtime,
            "All dtypes must be the same: the tensors of quantized::cat have {} and {}",
            dtype.name(),
            x.dtype().name()
        );
        ensure!(
            x.known_quantizer()?.of_tensor().is_some(),
            Runtime,
            "Only per-tensor quantization is supported in 'cat'!"
        );
    }
    let (scale, zero) = scale.map_or_else(|| of_tensor(&qx[0]), Ok)?;
    let same = qx.iter().all(|x| of_tensor(x).is_ok_and(|found| found == (scale, zero)));
    if same {
        let parts = qx.iter().map(integers).collect::<Result<Vec<_>>>()?;
        return clamped(with_scale(&op::cat(&parts, dim)?, dtype, scale, zero)?, relu);
    }
    let numbers = qx.iter().map(op::dequantize_self).collect::<Result<Vec<_>>>()?;
    quantise(&positive(op::cat(&numbers, dim)?, relu)?, scale, zero, dtype)
}

/// Tensors behind one another, on a scale, which is that of the first where none is given.
///
/// # Errors
/// `Runtime` where dtypes differ or there are several scales.
pub fn cat(qx: &[Tensor], dim: i64, scale: Option<f64>, zero: Option<i64>) -> Result<Tensor> {
    joined(qx, dim, false, scale.map(|scale| (scale, zero.unwrap_or(0))))
}

/// [`cat`], or 0 where that is more.
///
/// # Errors
/// As there.
pub fn cat_relu(qx: &[Tensor], dim: i64, scale: Option<f64>, zero: Option<i64>) -> Result<Tensor> {
    joined(qx, dim, true, scale.map(|scale| (scale, zero.unwrap_or(0))))
}

/// [`cat`] on the scale of `out`.
///
/// # Errors
/// As there, and where the output does not fit.
pub fn cat_out(qx: &[Tensor], dim: i64, out: &Tensor) -> Result<Tensor> {
    write(out, &joined(qx, dim, false, Some(of_tensor(out)?))?)
}

/// [`cat_relu`] on the scale of `out`.
///
/// # Errors
/// As there, and where the output does not fit.
pub fn cat_relu_out(qx: &[Tensor], dim: i64, out: &Tensor) -> Result<Tensor> {
    write(out, &joined(qx, dim, true, Some(of_tensor(out)?))?)
}

/// The function `cat` of quantised tensors: on the scale of the first.
///
/// # Errors
/// As for [`cat`].
pub fn cat_plain(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    joined(tensors, dim, false, None)
}
